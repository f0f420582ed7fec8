"""Where noise dominates: formulas against simulations, and a sweep over kinds of label noise on features."""
