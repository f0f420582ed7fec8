"""Programs that print ratios against named rivals, measured in the same run; `docs/benchmarks/` keeps what they saw."""
