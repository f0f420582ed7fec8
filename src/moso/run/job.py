"""A job: a run directory together with the data, networks and settings that its pieces of work need."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.code_trust import allow_code, is_allowed, is_code
from moso.configuration import Configuration
from moso.configuration.device import available_device
from moso.configuration.network_settings import network_names
from moso.data.dataset import DataSet
from moso.data.partitions import partition
from moso.evaluation.metrics import measured
from moso.evidence import Estimator, ParameterFilter, arrays, sample_steps
from moso.evidence.estimators import IN_RUN
from moso.evidence_kinds.registry import needs_surrogates
from moso.gradients import Loss, Risk, SampleRisk
from moso.models import FROM_SCRATCH, build_model, classifier_head
from moso.results.directory import RunDirectory
from moso.results.run_data import full_network, load_data, rest_network
from moso.run.resolved_view import resolved_view
from moso.selection import kept_count
from moso.selection.minimum import guaranteed_counts
from moso.selection.quotas import check_every_class
from moso.tasks import Metric, Task
from moso.training.in_run import counted_steps
from moso.training.loop import TrainingData
from moso.training.recipe import TrainingRecipe
from moso.training.team import ALONE, Team

# The file of a round's folder that says which samples its networks are trained on.
TRAINED_ON = "trained-on.npy"
ModelFactory = Callable[[int], nn.Module]


@dataclass(frozen=True)
class Runtime:
    """Settings that change how the work is done but not its result.

    Attributes:
        loader_workers: Number of processes that load data; 0 loads in the working process.
        checkpoint_seconds: Seconds between two checkpoints.
        team: Processes that work together (torchrun); a team changes results by rounding only.
        allowed: Code that processes which read the run's file may import, by name.
    """

    loader_workers: int = 0
    checkpoint_seconds: float = 10.0
    team: Team = ALONE
    allowed: tuple[str, ...] = ()


@dataclass(eq=False)
class Job:
    """The data with its task, and the networks of one run.

    Attributes:
        directory: The run directory.
        configuration: The settings of the run.
        data: The data set.
        build: Builds the user's own network from a seed; None builds the network of the configuration.
        runtime: How the work is done.
        own_risk: The user's own risk; None takes the risk of the configuration.
        trained_on: Whether surrogates and references are trained on each sample, shape ``[samples]``; None for all.
        view_reason: Why samples are scored as training saw them, if the configuration left the view open.
    """

    directory: RunDirectory
    configuration: Configuration
    data: DataSet
    build: ModelFactory | None = None
    runtime: Runtime = Runtime()
    own_risk: Risk | None = None
    trained_on: NDArray[np.bool_] | None = None
    view_reason: str = field(default="", init=False)
    _partitions: dict[int, list[NDArray[np.int64]]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        c = self.configuration
        allow_code(self.runtime.allowed)
        named = filter(is_code, network_names(c.model_dump()))
        self.runtime = replace(self.runtime, allowed=tuple(name for name in named if is_allowed(name)))
        if c.view == "auto":
            # Settled here, where the network is known, and before anything is written: a run's file says which it was.
            view, self.view_reason = resolved_view(c, lambda: self.built(c.seed))
            self.configuration = c.model_copy(update={"view": view})

    @classmethod
    def open(
        cls, place: Path | RunDirectory, configuration: Configuration | None = None, runtime: Runtime | None = None
    ) -> "Job":
        """Open the job of a run directory whose data can be opened by name.

        Args:
            place: The run directory.
            configuration: Settings of a new run; None reads those of the directory.
            runtime: How the work is done.
        """
        directory = RunDirectory(place) if isinstance(place, Path) else place
        configuration = configuration or directory.configuration()
        runtime = runtime or Runtime()
        allow_code(runtime.allowed)  # before the data, which a frozen trunk may have to be computed for
        data, mask = load_data(configuration, directory), directory.root / TRAINED_ON
        trained_on = np.asarray(arrays.read(mask)) if mask.exists() else None
        return cls(directory, configuration, data, runtime=runtime, trained_on=trained_on)

    @property
    def device(self) -> torch.device:
        """The device of the networks; raises ``device-unavailable`` if this machine does not have it."""
        return available_device(self.configuration.device)

    def model(self, seed: int, network: str = "") -> nn.Module:
        """Return a fresh network with the initial weights `w_0` of a seed, on the device of the run.

        Args:
            seed: Seed of the initial weights.
            network: Name of the network; empty for that of the surrogates.
        """
        return self.built(seed, network).to(self.device)

    def built(self, seed: int, network: str = "") -> nn.Module:
        """Return the network of `model` without moving it to the device, which a machine that only leads may lack."""
        c, original = self.configuration, self.data.original
        if not network or network == c.model:
            if c.embed or original is None:
                return full_network(c, self.data, seed, self.build)
            return rest_network(full_network(c, original, seed, self.build), original)
        if self.build is not None:
            return self.build(seed)
        train, start = self.proof.train, c.start if network == c.embed else FROM_SCRATCH
        self.task.check_outputs()
        return build_model(
            network, train.shape, self.task.outputs, seed, vocabulary=train.vocabulary, start=start, task=self.task.name
        )

    @property
    def proof(self) -> DataSet:
        """The data that networks are retrained on: features, or the data they were computed from."""
        c, original = self.configuration, self.data.original
        elsewhere = c.prove == "network" if c.embed else c.retrained_network != c.model
        return self.data if original is None or not elsewhere else original

    @property
    def task(self) -> Task:
        """The task of the data."""
        return self.data.task

    @property
    def loss(self) -> Loss:
        """The per-sample loss, `loss(model, batch) -> [batch]`."""
        return self.task.loss

    def risk(self) -> Risk | None:
        """Return the risk that samples are judged by; None for the training risk of their partition.

        Raises:
            MosoError: ``setting-missing`` without validation data; ``settings-conflict`` without the user's own risk.
        """
        match self.configuration.risk:
            case "train":
                return None
            case "validation":
                if self.data.validation is None:
                    raise errors.SettingMissing(
                        "risk 'validation' needs validation data: give moso.prune a validation_set, moso run a name "
                        "(validation) or a share of the training data to hold out (validation_share)"
                    )
                view, count = self.data.validation.evaluation_view(), len(self.data.validation)
                return SampleRisk(view, np.arange(count), loader_workers=self.runtime.loader_workers)
            case "own":
                if self.own_risk is None:
                    raise errors.SettingsConflict(
                        "risk 'own' is a function of yours that no file holds; use moso.prune(risk=...)"
                    )
                return self.own_risk

    @cached_property
    def metric(self) -> Metric:
        """The metric of retrained networks on the test split."""
        test = self.data.test
        assert test is not None, "only runs with a test split are judged"
        return self.task.metric(test.answers)

    def partitions(self, seed: int) -> list[NDArray[np.int64]]:
        """Return the positions of the samples of every partition of a seed, one array per partition."""
        # Cached in the job: functools.cache on the method would keep every job of a long experiment and its data alive.
        if seed not in self._partitions:
            train = self.data.train
            self._partitions[seed] = partition(train.keys, train.labels, self.configuration.partitions, seed)
        return self._partitions[seed]

    def trained(self, seed: int) -> list[NDArray[np.int64]]:
        """Return the positions that the surrogate of every partition is trained on: all of it, but for later rounds."""
        parts = self.partitions(seed)
        return parts if self.trained_on is None else [part[self.trained_on[part]] for part in parts]

    def training_data(
        self, recipe: TrainingRecipe, positions: NDArray[np.int64], seed: int, *, proof: bool = False
    ) -> TrainingData:
        """Return the training view of these positions, augmented as the recipe says.

        Args:
            recipe: The recipe of the training.
            positions: Positions of the samples.
            seed: Seed of the augmentation.
            proof: Whether the training is a retraining, which may be on other inputs.
        """
        train = (self.proof if proof else self.data).train
        return TrainingData(train.training_view(recipe.augmentation, seed), positions, train.keys)

    def total_steps(self, positions: NDArray[np.int64]) -> int:
        """Return the number of updates T of a surrogate trained on these positions."""
        return self.configuration.surrogate.epochs * self.steps_per_epoch(positions)

    def steps_per_epoch(self, positions: NDArray[np.int64]) -> int:
        """Return the number of updates per epoch of a surrogate trained on these positions."""
        return max(1, -(-len(positions) // self.configuration.surrogate.batch_size))

    def estimator(self, seed: int) -> Estimator:
        """Return the estimator that computes the terms of recorded steps.

        Raises:
            MosoError: ``stage-incomplete`` for in-run terms, which only training can collect.
        """
        c = self.configuration
        if c.estimator == "in-run":
            raise errors.StageIncomplete(
                "in-run terms are collected while surrogates train, and some are missing; "
                "remove the run's state folder to train them again, or use another directory (out)"
            )
        return Estimator(c.estimator, c.mean_share, c.sketch_numbers, seed)

    def time_steps(self, positions: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
        """Return the sampled time steps of a surrogate trained on these positions, ascending."""
        c = self.configuration
        if c.estimator == IN_RUN:
            return counted_steps(c.surrogate.epochs, self.steps_per_epoch(positions), c.time_steps, seed, c.sampling)
        return sample_steps(self.total_steps(positions), c.time_steps, seed, c.sampling)

    @cached_property
    def parameter_filter(self) -> ParameterFilter | None:
        """The filter by name of the parameters whose gradients are compared; None takes all."""
        if self.configuration.parameters == "all":
            return None
        head, _ = classifier_head(self.model(self.configuration.seed))
        return lambda name: name.startswith(f"{head}.")

    def check(self, networks: bool = True) -> None:
        """Refuse impossible combinations of settings and data before any long computation starts.

        Args:
            networks: Whether networks will be needed; otherwise none is built.

        Raises:
            MosoError: ``data-changed``, ``setting-missing``, ``settings-conflict`` and others (docs/errors.md).
        """
        c = self.configuration
        if c.by_class != self.task.by_class:
            found = "classes" if self.task.by_class else "no classes"
            raise errors.DataChanged(
                f"the configuration says by_class = {str(c.by_class).lower()}, but the data has {found}"
            )
        self.risk()
        surrogates = needs_surrogates(c.needs()) or c.partitions == 1
        for seed in c.all_seeds() if surrogates else ():
            for positions in self.trained(seed):
                self.time_steps(positions, seed)
        for recipe, proof in ((c.surrogate, False), (c.retraining, True)):
            # Augment one batch, so that an augmentation that does not fit the inputs fails now.
            self.training_data(recipe, np.arange(1), c.seed, proof=proof).view.batch(np.arange(1))
        if networks:
            self.built(c.seed)
            retrained, test = self.built(c.seed, c.retrained_network), self.proof.test
            if test is not None:
                measured(retrained, test.evaluation_view(), np.arange(min(2, len(test))), self.metric)
        for ratio in c.ratios:
            self._check_classes(kept_count(len(self.data.train), ratio))

    def _check_classes(self, budget: int) -> None:
        """Refuse a budget that leaves a class without samples if a selector chooses class by class."""
        c, sizes = self.configuration, np.bincount(self.data.train.labels)
        for choice in c.choices():
            if choice.by_class():
                check_every_class(choice.selector.name, sizes, budget)
        guaranteed_counts(sizes, c.min_per_class, budget)
