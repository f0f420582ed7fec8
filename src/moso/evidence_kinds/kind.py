"""A kind of evidence: what a score or a selector can need, as one object.

A kind says which network of a run it is measured from and at which moment of its training, how it is measured, where
it is written, how it is read, what it costs, which settings decide it and whether it is about classes. Plan, pieces of
work, completeness, prices, provenance and reading are loops over kinds (`registry.py`). What a kind may know of a run
is `SeedRun`, and while it measures `Measuring`; the room `run/` brings both.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.data.samples import Samples
from moso.evidence.arrays import read
from moso.gradients import Loss, Risk
from moso.progress import Progress
from moso.training.loop import Checkpoints, TrainingData
from moso.training.recipe import TrainingRecipe

T_co = TypeVar("T_co", covariant=True)

# The network that a kind is measured from: of each partition, of all partitions together, the one trained on all of the
# data, each of several that start elsewhere, or one that the kind trains for itself.
Network = Literal["none", "surrogate", "surrogates", "reference", "initialisation", "own"]
# The moment: the sampled steps, every step replayed, while it trains, after the early epoch, at the end.
When = Literal["", "steps", "replay", "training", "early", "final"]
Stage = Literal["train", "score", "evaluate"]
LOOKING = "looking"


class RunSettings(Protocol):
    """The settings of a run that kinds of evidence look at; `Configuration` has them."""

    @property
    def dataset(self) -> str:
        """The name or path of the data."""

    @property
    def model(self) -> str:
        """The surrogates' network."""

    @property
    def surrogate(self) -> TrainingRecipe:
        """How surrogates and references are trained."""

    @property
    def partitions(self) -> int:
        """The number of partitions."""

    @property
    def time_steps(self) -> int:
        """The number of sampled time steps."""

    @property
    def initialisations(self) -> int:
        """The number of networks that are averaged."""

    @property
    def early_epoch(self) -> int:
        """The epoch after which kinds of the moment `early` are measured."""

    @property
    def score_batch_size(self) -> int | None:
        """Samples per batch while gradients are measured; None if it is found from shapes."""

    @property
    def estimator(self) -> str:
        """How step terms are found."""

    @property
    def risk(self) -> str:
        """What samples are judged by."""

    @property
    def view(self) -> str:
        """How samples are seen while they are scored."""

    @property
    def embedding(self) -> str:
        """Where the embedding comes from."""

    @property
    def probes(self) -> int:
        """The number of probes of the adjoint."""


class SeedRun(Protocol):
    """One seed of a run, as reading evidence needs it."""

    @property
    def seed(self) -> int:
        """The seed of the whole pipeline."""

    @property
    def home(self) -> Path:
        """The seed's folder."""

    @property
    def settings(self) -> RunSettings:
        """The settings of the run."""

    @property
    def partitions(self) -> Sequence[NDArray[np.int64]]:
        """The positions of every partition's samples."""

    def total_steps(self, part: int) -> int:
        """The updates of a partition's surrogate."""

    def time_steps(self, part: int) -> list[int]:
        """The sampled time steps of a partition's surrogate."""


class Measuring(SeedRun, Protocol):
    """A measurement under way: one seed, and the `index` of the partition or initialisation that it is about."""

    @property
    def index(self) -> int:
        """The partition or initialisation; 0 for kinds that are measured once per seed."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns that somebody asked for, of a kind that has columns."""

    @property
    def train(self) -> Samples:
        """The training data."""

    @property
    def loss(self) -> Loss:
        """The loss, `loss(model, batch) -> [batch]`."""

    @property
    def loader_workers(self) -> int:
        """The processes that load data."""

    @property
    def checkpoint_seconds(self) -> float:
        """How often a long measurement saves where it is."""

    @property
    def progress(self) -> Progress:
        """What is called with a label, what is done and how much there is."""

    def network(self, index: int | None = None) -> nn.Module:
        """The network that the kind is measured from, at its moment; of another index if one is given."""

    def initial_network(self) -> nn.Module:
        """The network at the recorded w_0 of the seed."""

    def training_data(self) -> TrainingData:
        """What the surrogate of the partition `index` learns from."""

    def risk(self) -> Risk | None:
        """The risk that samples are judged by where it is not their partition's own."""

    def checkpoints(self, path: Path) -> Checkpoints:
        """Where a training of the kind's own goes on after a kill; its seconds count as training."""


@dataclass(frozen=True)
class Price:
    """What one piece of measuring takes, in passes over the samples that it is about.

    Args:
        looks: Forward passes.
        gradients: Passes that find one gradient per sample.
        scorings: Time steps of scoring, two such passes each, with the run's estimator.
        epochs: Epochs of training.
        what: What a dry run calls it; `{samples}` and `{steps}` (of a whole training) are filled in.
        work: What an experiment's estimate calls it.
        stage: The stage that its seconds are counted in.
    """

    looks: float = 0.0
    gradients: float = 0.0
    scorings: float = 0.0
    epochs: float = 0.0
    what: str = "a look at {samples} samples"
    work: str = LOOKING
    stage: Stage = "score"


class EvidenceKind(Generic[T_co]):
    """One kind of evidence; a subclass per kind, an instance of it in the registry.

    A kind needs `name`, `description`, `network`, `moment` and `measure`; the rest has defaults for one array in one
    file per piece, which `read` opens as a memory map.

    Attributes:
        name: What scores and selectors declare; of a kind with `columns`, `NAME:COLUMN`.
        description: What it is, for errors.
        network: The network that it is measured from, which also says how many pieces of work it is.
        moment: The moment of that network's training.
        columns: The members of a family; empty for a kind that is one thing.
        about_classes: Whether only samples with classes have it.
        decided_by: The settings of a run that make it another evidence; they are recorded with a score.
        decided_if_changed: The same for settings that are recorded only where they are not this default.
        file: Where it is written below a seed's folder, `{index}` and `{column}` filled in; else `evidence/NAME.npy`.
        missing: Why a file may not be there, for errors.
        label: What progress calls it; its name if empty.
        is_kept: Whether what was read is kept for the next score.
    """

    name: str
    description: str
    network: Network = "none"
    moment: When = ""
    columns: Collection[str] = ()
    about_classes: bool = False
    decided_by: tuple[str, ...] = ()
    decided_if_changed: Mapping[str, object] = {}
    file: str = ""
    missing: str = "it was not measured"
    label: str = ""
    is_kept: bool = False

    @property
    def is_measured(self) -> bool:
        """Whether it takes a piece of work of its own: the data or the training itself leaves the rest."""
        return self.network != "none" and self.moment != "training"

    def pieces(self, settings: RunSettings) -> int:
        """How many pieces of work it is per seed."""
        counts = {"surrogate": settings.partitions, "initialisation": settings.initialisations}
        return counts.get(self.network, 1)

    def path(self, home: Path, index: int = 0, column: str = "") -> Path:
        """Where it is written below a seed's folder."""
        number = "-{index:03d}" if self.network in ("surrogate", "initialisation") else ""
        file = self.file or f"evidence/{self.name}{number}{column and '-'}{column}.npy"
        return home / file.format(index=index, column=column)

    def is_complete(self, home: Path, index: int = 0, columns: Sequence[str] = ()) -> bool:
        """Whether a piece of it is there."""
        return all(self.path(home, index, column).exists() for column in columns or ("",))

    def measure(self, given: Measuring) -> None:
        """Measure one piece of it and write it, atomically."""
        raise NotImplementedError(f"{self.name} is left by the data or by training")

    def found(self, path: Path) -> Path:
        """The path, if something is there."""
        if not path.exists():
            raise errors.StageIncomplete(f"{path} is missing: {self.missing}; run `moso score` first")
        return path

    def read(self, given: SeedRun, column: str = "") -> T_co:
        """What was measured of all samples; of a family, one column."""
        array: T_co = read(self.found(self.path(given.home, 0, column)))
        return array

    def price(self, settings: RunSettings) -> Price | None:
        """What one piece takes; None if it costs nothing to speak of."""
        return Price(looks=1) if self.is_measured else None

    def problem(self, settings: RunSettings, method: str, selector: str) -> str | None:
        """Why a run of these settings cannot have it for a method and a selector, in one sentence; None if it can."""
        return None

    def check(self, settings: RunSettings, train: Samples) -> None:
        """Refuse data that it cannot be measured of, before anything is trained."""

    def decided(self, settings: RunSettings) -> dict[str, object]:
        """The settings that decide it, with their values."""
        changed = [name for name, usual in self.decided_if_changed.items() if getattr(settings, name) != usual]
        return {name: getattr(settings, name) for name in (*self.decided_by, *changed)}

    def provenance(self, given: SeedRun) -> dict[str, object]:
        """What else a score that was made of it should say about it."""
        return {}
