"""A kind of evidence: an input of scores and selectors, as one object.

A kind declares which network of a run it is measured from and at which moment of training, how it is measured, where
it is written, how it is read, what it costs, which settings decide it and whether it is about classes. Plan, pieces of
work, completeness, prices, provenance and reading are loops over kinds (`registry.py`). A kind accesses a run through
`SeedRun`, and through `Measuring` while it measures; `run/` implements both.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.data.samples import Samples
from moso.data.views import View
from moso.evidence import ParameterFilter, TrajectoryPoint
from moso.evidence.arrays import read
from moso.gradients import Loss, Risk
from moso.progress import Progress
from moso.training.loop import Checkpoints, TrainingData
from moso.training.recipe import TrainingRecipe

T_co = TypeVar("T_co", covariant=True)

# The network that a kind is measured from: the surrogate of each partition, all surrogates together, the reference
# trained on all data, each of several references with their own initialisation, or a network that the kind trains.
Network = Literal["none", "surrogate", "surrogates", "reference", "initialisation", "own"]
# The moment: at the sampled steps, in a replay of every step, during training, after the early epoch, at the end.
When = Literal["", "steps", "replay", "training", "early", "final"]
Stage = Literal["train", "score", "evaluate"]
LOOKING = "looking"


class RunSettings(Protocol):
    """The settings of a run that kinds of evidence use; `Configuration` implements it."""

    @property
    def dataset(self) -> str:
        """The name or path of the data."""

    @property
    def model(self) -> str:
        """The name of the network of the surrogates."""

    @property
    def surrogate(self) -> TrainingRecipe:
        """The training recipe of surrogates and references."""

    @property
    def partitions(self) -> int:
        """The number of partitions."""

    @property
    def time_steps(self) -> int:
        """The number of sampled time steps."""

    @property
    def initialisations(self) -> int:
        """The number of initialisations over which averaging scores take the mean."""

    @property
    def early_epoch(self) -> int:
        """The epoch after which kinds with the moment `early` are measured."""

    @property
    def score_batch_size(self) -> int | None:
        """Samples per batch for per-sample gradients; None finds a size that suits network and device."""

    @property
    def sketch_numbers(self) -> int:
        """Numbers per projected gradient."""

    @property
    def features(self) -> str:
        """Whose features samples are compared by: `reference` or `embedding`."""

    @property
    def estimator(self) -> str:
        """The estimator of step terms."""

    @property
    def risk(self) -> str:
        """The risk that samples are judged by: `train`, `validation` or `own`."""

    @property
    def view(self) -> str:
        """The view of samples for scoring: `evaluation` or `training` (`auto` until the network is known)."""

    @property
    def embedding(self) -> str:
        """The source of the embedding: `trained`, `timm:NAME` or a file."""

    @property
    def settings(self) -> Mapping[str, Mapping[str, Any]]:
        """The user's settings of scores and selectors."""

    @property
    def memorization_subsets(self) -> int:
        """The number of random subsets that `memorization` trains networks on; 0 for none."""

    @property
    def probes(self) -> int:
        """The number of probes of the adjoint."""

    @property
    def window(self) -> float:
        """The share of the updates, the last ones, that the adjoint differentiates."""


class SeedRun(Protocol):
    """One seed of a run, for reading evidence."""

    @property
    def seed(self) -> int:
        """The seed of the whole pipeline."""

    @property
    def home(self) -> Path:
        """The folder of the seed."""

    @property
    def settings(self) -> RunSettings:
        """The settings of the run."""

    @property
    def partitions(self) -> Sequence[NDArray[np.int64]]:
        """The positions of the samples, one array per partition."""

    def total_steps(self, part: int) -> int:
        """Return the number of updates of the surrogate of partition `part`."""

    def time_steps(self, part: int) -> list[int]:
        """Return the sampled time steps of the surrogate of partition `part`."""


class Measuring(SeedRun, Protocol):
    """The inputs of one measurement: a seed, and the `index` of a partition or initialisation."""

    @property
    def index(self) -> int:
        """The partition or initialisation; 0 for kinds that are measured once per seed."""

    @property
    def columns(self) -> Sequence[str]:
        """The requested columns, for a kind that has columns."""

    @property
    def train(self) -> Samples:
        """The training data."""

    @property
    def loss(self) -> Loss:
        """The per-sample loss, `loss(model, batch) -> [batch]`."""

    @property
    def loader_workers(self) -> int:
        """The number of processes that load data."""

    @property
    def checkpoint_seconds(self) -> float:
        """Seconds between two checkpoints of a long measurement."""

    @property
    def progress(self) -> Progress:
        """The progress callable, called with a label, the work done and all work."""

    def network(self, index: int | None = None) -> nn.Module:
        """Return the network that the kind is measured from, at its moment; `index` replaces that of this piece."""

    def initial_network(self) -> nn.Module:
        """Return the network with the recorded initial weights w_0 of the seed."""

    def training_data(self) -> TrainingData:
        """Return the training data of the surrogate of partition `index`."""

    def risk(self) -> Risk | None:
        """Return the risk that samples are judged by; None for the training risk of their partition."""

    @property
    def parameter_filter(self) -> ParameterFilter | None:
        """The filter by name of the parameters whose gradients are compared; None takes all."""

    def sampled_steps(self) -> Iterator[tuple[View, TrajectoryPoint]]:
        """Yield the sampled steps of the surrogate of partition `index`, with the setting `view` applied.

        Each comes as the view in which samples are scored and the network at the step.
        """

    def checkpoints(self, path: Path) -> Checkpoints:
        """Return the checkpoints from which a training of this kind resumes; its seconds count as training."""


@dataclass(frozen=True)
class Price:
    """The price of one piece of measuring, in passes over its samples.

    Args:
        looks: Forward passes.
        gradients: Passes of per-sample gradients.
        scorings: Time steps of scoring, two such passes each, with the estimator of the run.
        epochs: Epochs of training.
        what: Name of the work in a dry run; `{samples}` and `{steps}` (of a whole training) are filled in.
        work: Name of the work in the estimate of an experiment.
        stage: Stage that its seconds are counted in.
    """

    looks: float = 0.0
    gradients: float = 0.0
    scorings: float = 0.0
    epochs: float = 0.0
    what: str = "a look at {samples} samples"
    work: str = LOOKING
    stage: Stage = "score"


class EvidenceKind(Generic[T_co]):
    """One kind of evidence: one subclass per kind, with one instance in the registry.

    A kind defines `name`, `description`, `network`, `moment` and `measure`; the defaults of the rest suit one array in
    one file per piece, which `read` memory-maps.

    Attributes:
        name: Name that scores and selectors declare; for a kind with `columns`, they declare `NAME:COLUMN`.
        description: Description for error messages.
        network: The network that it is measured from, which also decides the number of pieces of work.
        moment: The moment of training of that network.
        columns: Columns that can be requested one by one; empty for a kind without columns.
        about_classes: Whether it exists only for samples with classes.
        is_embedding: Whether any given embedding of the samples can stand in for it.
        effort: What measuring it takes beyond the training of its network, in words; empty for nothing.
        decided_by: Settings of a run that change the evidence; they are recorded with a score.
        decided_if_changed: Further such settings, recorded only if they differ from the default given here.
        file: Path below the folder of a seed, with `{index}` and `{column}` filled in; empty for `evidence/NAME.npy`.
        missing: Why a file may be missing, for error messages.
        label: Name in progress reports; empty for `name`.
        is_kept: Whether the evidence is cached for the next score once it is read.
        reads_moments: Whether it reads the optimiser's moments at the sampled steps.
    """

    name: str
    description: str
    network: Network = "none"
    moment: When = ""
    columns: Collection[str] = ()
    about_classes: bool = False
    is_embedding: bool = False
    effort: str = "a forward pass"
    decided_by: tuple[str, ...] = ()
    decided_if_changed: Mapping[str, object] = {}
    file: str = ""
    missing: str = "it was not measured"
    label: str = ""
    is_kept: bool = False
    reads_moments: bool = False

    @property
    def is_measured(self) -> bool:
        """Whether it takes its own piece of work; other kinds come from the data or are recorded during training."""
        return self.network != "none" and self.moment != "training"

    def pieces(self, settings: RunSettings) -> int:
        """Return the number of pieces of work per seed."""
        counts = {"surrogate": settings.partitions, "initialisation": settings.initialisations}
        return counts.get(self.network, 1)

    def path(self, home: Path, index: int = 0, column: str = "") -> Path:
        """Return the path below the folder `home` of a seed."""
        number = "-{index:03d}" if self.network in ("surrogate", "initialisation") else ""
        file = self.file or f"evidence/{self.name}{number}{column and '-'}{column}.npy"
        return home / file.format(index=index, column=column)

    def is_complete(self, home: Path, index: int = 0, columns: Sequence[str] = ()) -> bool:
        """Return whether one piece is on disk."""
        return all(self.path(home, index, column).exists() for column in columns or ("",))

    def measure(self, given: Measuring) -> None:
        """Measure one piece and write it atomically."""
        raise NotImplementedError(f"{self.name} is left by the data or by training")

    def found(self, path: Path) -> Path:
        """Return the path if it exists.

        Raises:
            MosoError: ``stage-incomplete`` if it does not.
        """
        if not path.exists():
            raise errors.StageIncomplete(f"{path} is missing: {self.missing}; run `moso score` first")
        return path

    def read(self, given: SeedRun, column: str = "") -> T_co:
        """Read the evidence of all samples; for a kind with columns, one column.

        Raises:
            MosoError: ``stage-incomplete`` if it was not measured.
        """
        return cast(T_co, read(self.found(self.path(given.home, 0, column))))

    def price(self, settings: RunSettings) -> Price | None:
        """Return the price of one piece, or None if it is negligible."""
        return Price(looks=1) if self.is_measured else None

    def problem(self, settings: RunSettings, method: str, selector: str) -> str | None:
        """Return one sentence on why a run with these settings cannot measure it, or None if it can.

        Args:
            settings: Settings of the run.
            method: Name of the method that needs it, for the sentence.
            selector: Name of the selector that needs it, for the sentence.
        """
        return None

    def check(self, settings: RunSettings, train: Samples) -> None:
        """Refuse data for which it cannot be measured, before anything is trained."""

    def decided(self, settings: RunSettings) -> dict[str, object]:
        """Return the settings that decide it, with their values."""
        changed = [name for name, usual in self.decided_if_changed.items() if getattr(settings, name) != usual]
        return {name: getattr(settings, name) for name in (*self.decided_by, *changed)}

    def provenance(self, given: SeedRun) -> dict[str, object]:
        """Return further facts about it to record with a score."""
        return {}
