"""Declarations of digits' size: the same engine in seconds."""

from moso.experiments.declaration import Arm, Contender, Experiment, Grid

SETTINGS = {"model": "mlp-w8", "recipe": "quick", "partitions": 2, "time_steps": 3}
SMALL_ARM = Arm("digits", SETTINGS, (Contender("moso"), Contender("random")), (0.5,), seeds=2)


def small(*arms: Arm, name: str = "figure-1a", **changes) -> Experiment:
    given = {"plot": "ratios", "presets": {"cpu": arms or (SMALL_ARM,)}, **changes}
    return Experiment(name, "Figure 0", "digits", "none", **given)


GRID = Experiment(
    "approximation",
    "Proposition 0",
    "digits",
    "none",
    "approximation",
    {"cpu": Grid("digits", ("linear",), (0.1,), (1, 5), seeds=1, samples=20)},
)
