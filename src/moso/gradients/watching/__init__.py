"""Observes what a network does with its parameters during a pass: calls, owners of rows, folded batch-norms."""
