"""The training loop, learning-rate schedules, recipes, optimisers and callbacks."""
