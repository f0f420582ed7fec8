"""Propositions 1.1 and 1.2: exact leave-one-out against the approximation as learning rate and steps grow."""

from moso.experiments.declaration import Experiment, Grid

_RATES, _STEPS = (0.05, 0.1, 0.5), (1, 5, 20, 100)

APPROXIMATION = Experiment(
    "approximation",
    "Propositions 1.1 and 1.2",
    "exact leave-one-out against the approximation, and its bound",
    "The error of the approximation is bounded, and grows with the learning rate and the number of steps.",
    "approximation",
    {
        "cpu": Grid("digits", ("linear", "tanh"), _RATES, _STEPS, seeds=3),
        "paper": Grid("digits", ("linear", "tanh"), _RATES, (*_STEPS, 500), seeds=5, samples=400),
    },
    axis="steps",
)
