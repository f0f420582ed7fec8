"""Cheaper time steps: sketches, subsets of the data, the last layer alone, and products computed while training."""
