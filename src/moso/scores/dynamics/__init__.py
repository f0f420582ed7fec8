"""Scores computed from training dynamics: per-sample statistics recorded in every epoch of one training run."""
