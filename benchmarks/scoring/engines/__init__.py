"""Engines by name; a new one is a file and a line here."""

from collections.abc import Sequence

from benchmarks.scoring.engines import ours
from benchmarks.scoring.engines.batch_of_one import batch_of_one
from benchmarks.scoring.engines.brute_force import Truth, truth_of
from benchmarks.scoring.engines.engine import Engine, Refused, Scores
from benchmarks.scoring.engines.with_backpack import with_backpack
from benchmarks.scoring.engines.with_captum import with_captum
from benchmarks.scoring.engines.with_opacus import with_opacus
from benchmarks.scoring.engines.with_vmap import with_vmap
from moso.errors import unknown_name

ENGINES = {
    "moso": Engine("moso", ours.exact, rival=False),
    "moso-without-norm": Engine("moso, without the norm", ours.without_norm, rival=False, quantity="product"),
    "batch-of-one": Engine("batch of one, twice", batch_of_one),
    "vmap": Engine("mean gradient + vmap(grad)", with_vmap),
    "opacus": Engine("mean gradient + Opacus", with_opacus),
    "backpack": Engine("mean gradient + BackPACK", with_backpack),
    "captum": Engine("captum TracInCP", with_captum),
}


def find_engines(names: Sequence[str]) -> dict[str, Engine]:
    """The engines of these names, or all."""
    for name in names:
        if name not in ENGINES:
            raise unknown_name("engine", name, ENGINES)
    return {name: engine for name, engine in ENGINES.items() if not names or name in names}


__all__ = ["ENGINES", "Engine", "Refused", "Scores", "Truth", "find_engines", "truth_of"]
