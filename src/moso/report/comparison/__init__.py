"""What `moso compare` writes: tables, plots, files."""
