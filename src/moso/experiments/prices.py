"""Cost estimate of an experiment before it starts: runs, samples and hours, from a few measured steps on random images.

No data is opened: the sizes of the paper's data sets are known. The unit of work is one sample's forward and backward
pass; a time step of scoring is two such passes over the partition (docs/estimators.md), a forward pass a third of one.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from moso.configuration import Configuration
from moso.configuration.network_settings import GIVEN_FEATURES
from moso.configuration.resolved_method import all_needs
from moso.data.samples import StoredSamples
from moso.evidence_kinds.registry import averages, needed_kinds, needs_reference, needs_surrogates
from moso.experiments.cells import Cell, by_pipeline
from moso.experiments.exact_cells import ExactCell
from moso.experiments.places import Place, place_of
from moso.models import build_model
from moso.selection import kept_count
from moso.tasks import Classification
from moso.training.loop import AfterStep, StepPlan, TrainingData, threads, train
from moso.training.recipe import TrainingRecipe

SCORING = 2.0
LOOK = 1 / 3
STEPS = 4
STEP_SECONDS = 1.0


@dataclass(frozen=True)
class Cost:
    """Work of one kind on one network: number of runs, samples that pass through it, and seconds of one process."""

    what: str
    network: str
    runs: int
    samples: float
    seconds: float


@dataclass
class _Sum:
    runs: int = 0
    samples: float = 0.0


@dataclass
class Calibration:
    """Seconds per sample, measured once per network, input shape, number of classes and device."""

    known: dict[tuple[str, tuple[int, ...], int, str], float] = field(default_factory=dict)

    def seconds(self, network: str, place: Place, recipe: TrainingRecipe, configuration: Configuration) -> float:
        """Return the seconds that one process takes for the forward and backward pass of one sample."""
        key = network, place.shape, place.classes, configuration.device
        if key not in self.known:
            with threads(configuration.threads):
                self.known[key] = _measured(network, place, recipe, configuration.device)
        return self.known[key]


def _measured(network: str, place: Place, recipe: TrainingRecipe, device: str) -> float:
    """Time a few samples first, to find the batch size of a step of about a second."""
    few = _step_seconds(network, place, recipe, device, 8) / 8
    size = int(np.clip(STEP_SECONDS / few, 8, recipe.batch_size))
    return few if size < 16 else _step_seconds(network, place, recipe, device, size) / size


def _step_seconds(network: str, place: Place, recipe: TrainingRecipe, device: str, size: int) -> float:
    images = np.random.default_rng(0).integers(0, 255, (size, *place.shape), dtype=np.uint8)
    labels = np.arange(size) % min(size, place.classes)
    task = Classification(classes=tuple(str(one) for one in range(place.classes)))
    samples = StoredSamples.from_arrays(images, labels, task)
    model = build_model(network, place.shape, place.classes, seed=0).to(device)
    data = TrainingData(samples.training_view(recipe.augmentation, 0), np.arange(size), samples.keys)
    marks: list[float] = []
    train(
        model,
        StepPlan(data, recipe.changed(batch_size=size, epochs=STEPS), 0, STEPS),
        callbacks=[AfterStep(lambda run, step: marks.append(time.monotonic()))],
    )
    return float(np.median(np.diff(marks)))


def estimate(cells: Sequence[Cell | ExactCell], calibration: Calibration | None = None) -> list[Cost]:
    """Estimate the cost of cells by kind of work; pipelines that cells share are counted once.

    Args:
        cells: The cells to run.
        calibration: Measured seconds per sample; measured on demand if not given.
    """
    calibration = calibration or Calibration()
    found: dict[tuple[str, str], tuple[_Sum, float]] = {}
    for own in by_pipeline(cell for cell in cells if isinstance(cell, Cell)):
        c, place = own[0].configuration, place_of(own[0].arm.data)
        scored = _scored(c, place)
        proven = place if c.prove == "network" else scored
        for own_place, recipe, work in (
            (scored, c.surrogate, _evidence(c, place, own)),
            (proven, c.retraining, _retrainings(c, place, own)),
        ):
            for what, network, runs, samples in work:
                each = calibration.seconds(network, own_place, recipe, c)
                total, seconds = found.get((what, network), (_Sum(), 0.0))
                total.runs, total.samples = total.runs + runs, total.samples + samples
                found[what, network] = total, seconds + samples * each
    costs = [Cost(*names, total.runs, total.samples, seconds) for names, (total, seconds) in found.items()]
    exact = [cell for cell in cells if isinstance(cell, ExactCell)]
    if exact:
        costs.append(_exact(exact))
    return costs


Work = tuple[str, str, int, float]


def _evidence(c: Configuration, place: Place, cells: Iterable[Cell]) -> list[Work]:
    choices = [cell.choice for cell in cells if cell.choice is not None]
    needs, n, epochs = all_needs(choices), _trained_on(c, place), c.surrogate.epochs
    found: list[Work] = []
    if needs_surrogates(needs):
        found.append(("surrogates", c.model, c.partitions, n * epochs))
    for kind in needed_kinds(needs):
        price, pieces = kind.price(c), kind.pieces(c)
        if price is not None:
            passes = LOOK * price.looks + price.gradients + SCORING * price.scorings + price.epochs
            # The partitions together are the whole data set once.
            whole = n if kind.network == "surrogate" else n * pieces
            runs = pieces * round(price.scorings or price.looks or 1)
            found.append((price.work, c.model, runs, passes * whole))
    if any(choice.method.startswith("moso-robust") for choice in choices):
        found.append(("robust scoring", c.model, c.partitions * c.time_steps, SCORING * n * c.time_steps))
    if needs_reference(needs) and c.partitions > 1:
        found.append(("references", c.model, 1, n * epochs))
    if averages(needs):
        found.append(("references", c.model, c.initialisations - 1, n * c.early_epoch * (c.initialisations - 1)))
    return found


def _retrainings(c: Configuration, place: Place, cells: Iterable[Cell]) -> list[Work]:
    found: list[Work] = []
    for cell in cells:
        own = cell.retraining
        n = _trained_on(c, place)
        kept = n if own.match == "steps" else kept_count(n, own.ratio)
        found.append(("retraining", own.network, 1, float(c.retraining.epochs * kept)))
    return found


def _scored(c: Configuration, place: Place) -> Place:
    """Return what surrogates are trained on: the samples, or features of them that are there already."""
    return place_of(c.embed.removeprefix(GIVEN_FEATURES)) if c.embed.startswith(GIVEN_FEATURES) else place


def _trained_on(c: Configuration, place: Place) -> int:
    return round(place.train * (1 - c.validation_share))


def _exact(cells: Sequence[ExactCell]) -> Cost:
    """Estimate leave-one-out: one training on all other samples per sample, at about a million samples per second."""
    samples = float(sum(cell.samples**2 * cell.steps for cell in cells))
    networks = ", ".join(dict.fromkeys(cell.network for cell in cells))
    return Cost("leave-one-out", networks, len(cells), samples, samples / 1e6)
