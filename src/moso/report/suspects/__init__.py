"""The output of `moso suspects`: tables, pictures, a page."""
