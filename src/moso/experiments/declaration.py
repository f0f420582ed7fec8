"""Declarations: experiments as data, which one engine runs.

An experiment has presets; a preset is a list of arms. An arm is one pipeline (data, networks, recipe, partitions, time
steps) with its contenders, the ratios at which they are retrained, and the number of seeds. Arms may overlap: a cell
that occurs in two arms is run once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from moso import errors

# `cpu`: small networks trained from scratch; `features`: heads on features of a pretrained network; `fitted`: a small
# network trained until it fits; `paper`: the paper's own networks.
Preset = Literal["cpu", "features", "fitted", "paper"]
PRESETS: tuple[Preset, ...] = ("cpu", "features", "fitted", "paper")
# The kind of plot on the page of an experiment.
Plot = Literal["ratios", "classes", "cost", "arms", "approximation"]


@dataclass(frozen=True)
class Contender:
    """A method, a selector and settings of the selector.

    Attributes:
        selector: Name of the selector; None means the method's own.
        label: Name of the line in plots along an axis of arms: contenders with equal labels are joined. Empty means the
            title.

    Example:
        >>> Contender("moso-rank", "coverage", {"cut": 0.3}).title
        'moso-rank (coverage)'
    """

    method: str
    selector: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""

    @property
    def title(self) -> str:
        """The name for people."""
        return self.method if self.selector is None else f"{self.method} ({self.selector})"


@dataclass(frozen=True)
class Arm:
    """One pipeline, and the contenders, ratios and seeds that are run on it.

    Attributes:
        data: Name of a data set, which `places` finds below the user's data folder.
        settings: Settings of the run.
        name: What distinguishes the arm from the others of its experiment.
        value: Position of the arm on the experiment's axis.
        series: Arms of the same series are joined by a line.
        network: The retrained network; empty means the surrogate's.
        baselines: Names of baselines to retrain.
        all_data: Whether to train on all data, too.
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
    """A grid of exact leave-one-out against its approximation: networks x rates x steps x seeds on few samples."""

    data: str
    networks: tuple[str, ...]
    rates: tuple[float, ...]
    steps: tuple[int, ...]
    seeds: int
    samples: int = 200
    label_noise: float = 0.1


@dataclass(frozen=True)
class Published:
    """Published results of the same comparison: accuracies in % by share removed and method, and their source."""

    source: str
    removed: Mapping[float, Mapping[str, float]]


@dataclass(frozen=True)
class Experiment:
    """A figure or table: its source, its claim, and the arms of each preset.

    Attributes:
        axis: Name of the axis of `Arm.value`.
        reference: Numbers from the paper's text and tables, by name.
        published: Results of others, to compare the order of the methods with.
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
        """Return the arms or the grid of a preset.

        Raises:
            UnknownName: The preset does not exist, or not for this experiment.
        """
        if preset not in PRESETS:
            raise errors.UnknownName(f"there is no preset {preset!r}; it is {' or '.join(PRESETS)}")
        for name, found in self.presets.items():
            if name == preset:
                return found
        raise errors.UnknownName(f"{self.name} has no preset {preset!r}; use --preset {' or '.join(self.presets)}")
