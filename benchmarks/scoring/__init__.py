"""What a time step of scoring costs: in training epochs, in memory of a training step, in digits, beside its rivals.

Everything is measured in one process, on the same samples, at the same parameters of the same network:

- cost: the engines and one training epoch take turns, and the cost is the median of a turn's ratios;
- memory: the most that is allocated beyond what was there, against one training step of the same batch size;
- error: against plain autograd in float64, one sample at a time, as a share of the largest score.

`python -m benchmarks.scoring --help` lists the knobs; `make bench` runs all of it.
"""
