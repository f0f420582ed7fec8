"""Definition 1 by leave-one-out: exact scores, their cost, and the accuracy of the approximation."""
