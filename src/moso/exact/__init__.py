"""Definition 1 by leave-one-out: exact scores, their cost, and how true the approximation is."""
