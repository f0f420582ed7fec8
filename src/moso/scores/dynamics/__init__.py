"""Scores that read how a sample fared while a network trained, epoch by epoch."""
