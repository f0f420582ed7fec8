"""Small networks on features: what a run costs, against a plain loop, and at the size of ImageNet from disk."""
