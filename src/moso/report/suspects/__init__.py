"""What `moso suspects` writes: tables, pictures, a page."""
