"""Export of the pruned data as files: image folders, Parquet, texts."""
