"""What each estimator costs and how well it agrees with the exact one, on real surrogate runs.

python -m benchmarks.estimators                              # all problems, half an hour on two idle cores
python -m benchmarks.estimators --problem digits-convnet     # one of them, a minute
"""
