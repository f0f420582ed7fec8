"""The one training loop, schedules and recipes."""
