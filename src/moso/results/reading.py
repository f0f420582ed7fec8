"""`Run`: read everything that a run has written."""

import json
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.code_trust import allow_code
from moso.configuration import CUSTOM
from moso.configuration.network_settings import network_names
from moso.data.dataset import DataSet
from moso.data.partitions import partition
from moso.data.samples import Samples
from moso.data.views import View
from moso.evaluation.standings import RetrainingRow
from moso.evidence import Dynamics, Trajectory, read_features, read_out_of_sample
from moso.evidence.layout import part_name
from moso.evidence_kinds.reference_features import FEATURES
from moso.evidence_kinds.training_dynamics import DYNAMICS
from moso.files import read_record, read_table
from moso.methods import known_method
from moso.models import Start, build_model
from moso.results.directory import RunDirectory
from moso.results.manifest import Manifest
from moso.results.retrainings import FULL, all_retrainings
from moso.results.run_data import is_cut, load_data, rest_network
from moso.results.score_files import read_scores
from moso.results.selections import Selection, all_selections, read_kept
from moso.results.verification import Verification, verify
from moso.tasks import Task, noted_task


class Run:
    """A run directory, opened for reading.

    Methods take a `seed`; None is the first seed of the run.

    Example:
        >>> import moso, tempfile
        >>> out = tempfile.mkdtemp() + "/run"
        >>> images, labels = np.random.default_rng(0).integers(0, 255, (40, 1, 8, 8)).astype("uint8"), np.arange(40) % 2
        >>> _ = moso.prune(
        ...     (images, labels), ratio=0.5, model="mlp-w8", recipe="quick", time_steps=2, partitions=1, out=out
        ... )
        >>> run = Run.open(out)
        >>> sorted(run.scores()), run.scores()["moso"].shape
        (['moso', 'moso-rank', 'moso-standardised'], (40,))
        >>> [point.step for point in run.trajectory(0)] == sorted({point.step for point in run.trajectory(0)})
        True
    """

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self.configuration = directory.configuration()

    @classmethod
    def open(cls, path: Path | str, *, trust: bool = False) -> "Run":
        """Open the run in a directory or at an address.

        Args:
            path: Directory or address.
            trust: Allow code that the run's file names (`package.module:factory`) to be imported where it is needed.

        Raises:
            MosoError: ``not-a-run``, ``address-invalid``, ``storage-failed``.
        """
        directory = RunDirectory.at(path)
        directory.pull()
        run = cls(directory)
        if trust:
            allow_code(network_names(run.configuration.model_dump()))
        return run

    @cached_property
    def _data(self) -> DataSet:
        if self.configuration.dataset == CUSTOM:
            raise errors.DataInMemory(
                f"{self.directory} was made from data in memory, which only its maker can open again"
            )
        return load_data(self.configuration, self.directory)

    @property
    def manifest(self) -> Manifest:
        """Fingerprint of the data, versions of packages, seeds, stages and their timings."""
        return self.directory.manifest()

    @property
    def task(self) -> Task:
        """The task of the run, without functions of the user (loss, metric), which a file cannot hold."""
        return noted_task(self.manifest.get("dataset", {}))

    def build_model(self, seed: int | None = None) -> nn.Module:
        """Build a network of the surrogate's architecture with the initial weights `w_0` of a seed.

        Where a frozen trunk was computed once, the network is what comes after it, as `dataset` gives its outputs.

        Raises:
            MosoError: ``data-in-memory`` if the run was made with a network given as a function.
        """
        if self.configuration.model == CUSTOM:
            raise errors.DataInMemory(f"{self.directory} was made with a network of its maker's own; build it yourself")
        data, c = self.manifest["dataset"], self.configuration
        seed = c.seed if seed is None else seed
        original = self._data.original if is_cut(self.directory) else None
        shape = tuple(data["shape"]) if original is None else original.train.shape
        start = Start() if c.embed else c.start
        task = self.task
        model = build_model(
            c.model, shape, task.outputs, seed, vocabulary=data["vocabulary"], start=start, task=task.name
        )
        return model if original is None else rest_network(model, original)

    def samples(self, split: Literal["train", "test"] = "train") -> Samples:
        """Return the samples of a split: ids, labels, class names, images.

        Raises:
            MosoError: ``split-missing``; ``data-in-memory`` if the run was made from arrays or a dataset object.
        """
        found = self._data.train if split == "train" else self._data.test
        if found is None:
            raise errors.SplitMissing(f"{self.configuration.dataset} has no {split} split")
        return found

    def dataset(self, split: Literal["train", "test"] = "train") -> View:
        """Return a split as a map-style dataset without augmentation: `data[i] -> (input, label)`."""
        return self.samples(split).evaluation_view()

    def partitions(self, seed: int | None = None) -> list[NDArray[np.int64]]:
        """Return the positions of the samples, ascending, one array per partition."""
        path = self._home(seed) / "scores.parquet"
        if path.exists():
            part_of = read_table(path, ["partition"])["partition"].to_numpy()
            return [np.flatnonzero(part_of == part) for part in range(self.configuration.partitions)]
        train, seed = self._data.train, self.configuration.seed if seed is None else seed
        return partition(train.keys, train.labels, self.configuration.partitions, seed)

    def trajectory(self, part: int, seed: int | None = None) -> Trajectory:
        """Return the trajectory of the surrogate of partition `part`."""
        folder = self._home(seed) / "trajectory" / part_name(part)
        below = folder.relative_to(self.directory.root).as_posix() + "/"
        self.directory.pull(lambda name: name.startswith(below))
        return Trajectory.open(folder)

    def history(self, part: int, seed: int | None = None) -> dict[str, Any]:
        """Return loss and learning rate of the surrogate of partition `part`, one entry per epoch.

        Raises:
            MosoError: ``stage-incomplete`` if the partition is not trained yet.
        """
        path = self._home(seed) / "state" / part_name(part) / "history.json"
        if not path.exists():
            raise errors.StageIncomplete(f"partition {part} of {self.directory} is not trained yet")
        return read_record(path)

    def known_seed(self, seed: int | None = None) -> int:
        """Return a seed of the run, the first one for None.

        Raises:
            MosoError: ``unknown-name`` if the run has no such seed.
        """
        own = self.configuration.all_seeds()
        if seed is None:
            return own[0]
        if seed not in own:
            raise errors.UnknownName(f"seed {seed} is not a seed of this run ({', '.join(map(str, own))})")
        return seed

    def scores(self, seed: int | None = None) -> dict[str, NDArray[np.float64]]:
        """Return every score by name, each one float per sample in dataset order, shape ``[samples]``."""
        return read_scores(self._home(seed))

    def score_of(self, method: str, seed: int | None = None) -> NDArray[np.float64] | None:
        """Return the score of a method, ``[samples]`` in dataset order; None for methods without scores."""
        known = known_method(method)
        name = method if known is None else known.score
        return None if name is None else self.scores(seed).get(name)

    def features(self, seed: int | None = None) -> NDArray[np.float32]:
        """Return the features of the network trained on all data, ``[samples, width]``, memory-mapped."""
        return read_features(FEATURES.path(self._home(seed)))

    def dynamics(self, seed: int | None = None) -> Dynamics:
        """Return the training dynamics: the outputs of the network trained on all data per sample and epoch."""
        return Dynamics.open(DYNAMICS.path(self._home(seed)))

    def out_of_sample(self, seed: int | None = None) -> NDArray[np.float32]:
        """Return out-of-sample probabilities, ``[samples, classes]``, memory-mapped.

        The row of a sample comes from networks that were not trained on that sample.
        """
        return read_out_of_sample(self._home(seed))

    def table(self, seed: int | None = None) -> pa.Table:
        """Return a table with one row per sample: id, label, partition, every score.

        Raises:
            MosoError: ``stage-incomplete`` if there are no scores yet.
        """
        path = self._home(seed) / "scores.parquet"
        if not path.exists():
            raise errors.StageIncomplete(f"{self.directory} has no scores yet; run `moso score` first")
        return read_table(path)

    def selections(self) -> list[Selection]:
        """Return all selections of the run, in a fixed order."""
        return all_selections(self.directory.root)

    def selection(
        self,
        method: str | None = None,
        ratio: float | None = None,
        selector: str | None = None,
        seed: int | None = None,
        overrides: str = "",
    ) -> Selection:
        """Return the only selection that matches; None matches everything.

        Args:
            method: Name of the method.
            ratio: Share of samples removed.
            selector: Name of the selector.
            seed: Seed of the scores.
            overrides: Hash of manual decisions; empty for selections without any.

        Raises:
            MosoError: ``selection-ambiguous`` if no selection or more than one matches.
        """
        seed = self.configuration.seed if seed is None else seed
        there = [one for one in self.selections() if one.seed == seed]
        fits = [
            one
            for one in there
            if method in (None, one.method)
            and selector in (None, one.selector)
            and (ratio is None or abs(ratio - one.ratio) < 1e-9)
            and json.loads(one.parameters).get("overrides", "") == overrides
        ]
        if len(fits) > 1:
            # The same method and selector were used again with other settings; prefer the settings of the run.
            fits = [one for one in fits if one.parameters == self._parameters(one)] or fits
        if len(fits) != 1:
            have = ", ".join(f"{one.method}/{one.selector}/{one.ratio:g}" for one in there)
            problem = "no selection fits" if not fits else f"{len(fits)} selections fit"
            raise errors.SelectionAmbiguous(
                f"{problem}; say which by method, selector and ratio (there are: {have or 'none'})"
            )
        return fits[0]

    def _parameters(self, selection: Selection) -> str | None:
        """Return the recorded parameters of this method and selector under the settings of the run, or None."""
        pair = selection.method, selection.selector
        return self.configuration.choice(*pair).parameters if pair in self.configuration.pairs() else None

    def kept(
        self,
        method: str | None = None,
        ratio: float | None = None,
        selector: str | None = None,
        seed: int | None = None,
    ) -> NDArray[np.int64]:
        """Return the positions of the kept samples, ascending, of the only selection that matches (`selection`)."""
        return read_kept(self.directory.root, self.selection(method, ratio, selector, seed)).positions

    def weights(
        self,
        method: str | None = None,
        ratio: float | None = None,
        selector: str | None = None,
        seed: int | None = None,
    ) -> NDArray[np.float64] | None:
        """Return one weight per kept sample, in the order of `kept`: how many samples it stands for.

        Returns:
            Positive floats, ``[kept]``; None if the selection has no weights.
        """
        return read_kept(self.directory.root, self.selection(method, ratio, selector, seed)).weights

    def evaluation(self, match: str = "") -> list[RetrainingRow]:
        """Return every finished retraining with its result, one dictionary each.

        Args:
            match: What retrainings keep equal; empty for `match` of the run. Training on all data belongs to every one.
        """
        asked = match or self.configuration.match
        every = all_retrainings(self.directory.root)
        return [row for row in every if row["match"] == asked or row["method"] == FULL]

    def verify(self) -> Verification:
        """Read every file of the run and compare it with its checksum; return what is whole, damaged, missing."""
        return verify(self.directory)

    def _home(self, seed: int | None) -> Path:
        return self.directory.of_seed(self.configuration, self.configuration.seed if seed is None else seed)
