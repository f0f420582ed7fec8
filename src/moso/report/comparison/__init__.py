"""The output of `moso compare`: tables, plots, files."""
