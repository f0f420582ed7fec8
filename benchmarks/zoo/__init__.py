"""A zoo of small real networks: is every score right, and is no rival faster?

Each network is what people train, at a size that lets 512 samples go through several engines in seconds. Its scores are
held against brute force in float64 (`truth.py`, which knows nothing of moso's engine), by the tests in
`tests/gradients/test_zoo.py` and in the table of `python -m benchmarks.zoo`.
"""
