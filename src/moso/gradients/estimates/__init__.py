"""Cheaper time steps: sketches, shares of the data, the last layer alone, and products taken while training."""
