"""Scores from the answers of several networks: right or wrong, trained with the sample or without it."""
