"""One file per selector."""
