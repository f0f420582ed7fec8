"""Selectors that compare the last layer's gradients of samples, one file per selector."""
