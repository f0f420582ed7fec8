"""Doors for other packages' training loops, datasets, loggers and pipelines: one file per package, imported when used.

Nothing here is imported by `import moso`. Importing `moso.integrations.NAME` without its package raises one sentence
that names the extra to install.
"""
