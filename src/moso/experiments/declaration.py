"""Declarations: what an experiment of the paper is, as data. One engine runs any of them.

An experiment has presets; a preset is a list of arms. An arm is one pipeline (data, networks, recipe, partitions, time
steps) with the contenders that are selected from it, the ratios they are retrained at and how many seeds prove it.
Arms may overlap: a cell that two of them have is one cell.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from moso import errors

Preset = Literal["cpu", "paper"]
PRESETS: tuple[Preset, ...] = ("cpu", "paper")
# What the page of an experiment draws from its table.
Plot = Literal["ratios", "classes", "cost", "arms", "approximation"]


@dataclass(frozen=True)
class Contender:
    """A method with a selector (without one, its own) and settings of that selector.

    Where arms are an axis, contenders of the same `label` are one line along it; without one, it is the title.

    >>> Contender("moso-rank", "coverage", {"cut": 0.3}).title
    'moso-rank (coverage)'
    """

    method: str
    selector: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""

    @property
    def title(self) -> str:
        """What a person calls it."""
        return self.method if self.selector is None else f"{self.method} ({self.selector})"


@dataclass(frozen=True)
class Arm:
    """One pipeline and what is asked of it.

    `data` is a name that `places` finds below the user's folder of data. `settings` are those of a run. `network` is
    the one retrained, if another than the surrogate's. `name` and `value` say what tells the arm apart from others of
    its experiment, and where it stands on an axis; arms of one `series` are joined by a line of their own.
    """

    data: str
    settings: Mapping[str, Any]
    contenders: tuple[Contender, ...]
    ratios: tuple[float, ...]
    seeds: int
    name: str = ""
    value: float | None = None
    series: str = ""
    network: str = ""
    baselines: tuple[str, ...] = ()
    all_data: bool = True


@dataclass(frozen=True)
class Grid:
    """Exact leave-one-out beside its approximation: networks x rates x steps x seeds on a small set of samples."""

    data: str
    networks: tuple[str, ...]
    rates: tuple[float, ...]
    steps: tuple[int, ...]
    seeds: int
    samples: int = 200
    label_noise: float = 0.1


@dataclass(frozen=True)
class Published:
    """What others reached in the same comparison: accuracies in % by share removed and method, and whose they are."""

    source: str
    removed: Mapping[float, Mapping[str, float]]


@dataclass(frozen=True)
class Experiment:
    """A figure or table: where it comes from, what it claims, and what each preset runs for it.

    `reference` holds numbers of the paper's own text and tables, by what they are of; `published` those of others,
    which the order of the methods is held against.
    """

    name: str
    source: str
    title: str
    claim: str
    plot: Plot
    presets: Mapping[Preset, tuple[Arm, ...] | Grid]
    axis: str = ""
    reference: Mapping[str, float] = field(default_factory=dict)
    published: Published | None = None

    def of(self, preset: str) -> tuple[Arm, ...] | Grid:
        """What a preset runs."""
        if preset not in PRESETS:
            raise errors.UnknownName(f"there is no preset {preset!r}; it is {' or '.join(PRESETS)}")
        for name, found in self.presets.items():
            if name == preset:
                return found
        raise errors.UnknownName(f"{self.name} has no preset {preset!r}; use --preset {' or '.join(self.presets)}")
