"""How each differentiated parameter is treated; `probe.py` finds it out, `trust.py` holds it to what autograd says."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from moso.gradients.fallback import Slow
from moso.gradients.layers import Layout
from moso.gradients.watching.folding import Fold


@dataclass(frozen=True)
class Routes:
    """Which way each parameter goes, by name; what is in neither has no closed form.

    Attributes:
        layouts: The parameters with closed forms, and where samples are in the outputs of their calls.
        spread: The parameters that are broadcast, in the shape `[1, ...]` in which they are given to each sample.
        folds: Convolutions, by their weights, that do the work of the batch-norm behind them.
        growing: Parameters whose calls with constants alone have an output for every sample.
        derived: The parameters that meet samples through a tensor computed from them, which is no view of theirs.
    """

    layouts: Mapping[str, Layout] = field(default_factory=dict)
    spread: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    folds: Mapping[str, Fold] = field(default_factory=dict)
    growing: frozenset[str] = frozenset()
    derived: frozenset[str] = frozenset()

    @property
    def covered(self) -> list[str]:
        """The parameters whose gradients come out of the one backward pass."""
        return [*self.layouts, *self.spread]

    def without(self, names: set[str]) -> "Routes":
        """The routes of all other parameters."""
        return replace(
            self,
            layouts={name: layout for name, layout in self.layouts.items() if name not in names},
            spread={name: shape for name, shape in self.spread.items() if name not in names},
            folds={name: fold for name, fold in self.folds.items() if not names & {name, *fold.names()}},
        )


@dataclass(frozen=True)
class Plan:
    """The routes that hold for a network and loss, and the slow way of the parameters that have none, `others`."""

    routes: Routes
    others: tuple[str, ...] = ()
    slow: Slow | None = None
