"""What can be said of a run from what it left: comparisons, costs, estimates, label issues, its status."""
