"""Data pruning with proof."""
