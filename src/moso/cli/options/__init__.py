"""Flags of the verbs: shared ones, those of configuration, executors and selections, and how help shows them."""
