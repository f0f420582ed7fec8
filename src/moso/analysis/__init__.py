"""Analyses of a run from its directory: comparisons, costs, estimates, label issues, status."""
