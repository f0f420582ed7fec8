"""The pruned data as files: image folders, Parquet, texts."""
