"""How each differentiated parameter is treated; `probe.py` finds the routes, `trust.py` compares them with autograd."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from moso.gradients.fallback import Slow
from moso.gradients.layers import Layout
from moso.gradients.watching.folding import Fold


@dataclass(frozen=True)
class Routes:
    """The route of each parameter, by name; a parameter in neither `layouts` nor `spread` has no closed form.

    Attributes:
        layouts: Parameters with closed forms, and where the samples are in the outputs of their calls.
        spread: Parameters that are broadcast, with the shape ``[1, ...]`` that is copied for each sample.
        folds: Convolutions, by the name of their weight, with the batch-norm behind them folded in.
        growing: Parameters whose calls with constants alone still have one output per sample.
        derived: Parameters that meet samples through a derived tensor that is not a view of the parameter.
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
        """Return the routes of all parameters except `names`."""
        return replace(
            self,
            layouts={name: layout for name, layout in self.layouts.items() if name not in names},
            spread={name: shape for name, shape in self.spread.items() if name not in names},
            folds={name: fold for name, fold in self.folds.items() if not names & {name, *fold.names()}},
        )


@dataclass(frozen=True)
class Plan:
    """The trusted routes of a network and loss, and the fallback for the parameters without a closed form.

    Attributes:
        routes: The closed forms.
        others: Parameters without a closed form.
        slow: Yields the per-sample gradients of `others`; None if there are none.
    """

    routes: Routes
    others: tuple[str, ...] = ()
    slow: Slow | None = None
