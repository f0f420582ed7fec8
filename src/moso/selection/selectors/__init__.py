"""The built-in selectors, one file per selector."""
