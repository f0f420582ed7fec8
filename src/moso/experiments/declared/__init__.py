"""Declarations of the paper's figures and tables, and of further experiments."""
