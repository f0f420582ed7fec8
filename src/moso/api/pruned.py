"""`Pruned`: what `prune` gives back, to keep, look at, save and open again."""

import shutil
import webbrowser
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso import errors
from moso.analysis.verdict import Verdict, verdict_of
from moso.data.given import look_at, splits_of
from moso.report.page.page import write_report
from moso.results.manifest import PrunedNote
from moso.results.reading import Run
from moso.results.selections import read_kept
from moso.selection import Kept


class Pruned:
    """The result of `prune`.

    A run that was not given a directory with `out=` lies in a temporary folder, which goes when the object and its
    `run` are no longer used; `save` keeps it.

    Attributes:
        kept: Sorted positions of the kept samples.
        weights: One weight per kept sample, in the order of `kept`: how many samples it stands for; None for methods
            without weights (most of them).
        dropped: Sorted positions of the others.
        scores: One float per sample, in dataset order; NaN for methods without scores (such as `herding`).
        subset: The kept samples, of the same kind as the data that was given: arrays, a frame, a dataset.
        verdict: What the retrainings say, in words; needs `test_set=`.
        run: The run, for everything else that it recorded.

    Example:
        >>> import moso
        >>> images, labels = np.random.default_rng(0).integers(0, 255, (40, 1, 8, 8)).astype("uint8"), np.arange(40) % 2
        >>> pruned = moso.prune((images, labels), keep=12, model="mlp-w8", recipe="quick", time_steps=2, partitions=1)
        >>> pruned
        Pruned(kept 12 of 40 samples by moso-rank (balanced), in a temporary folder)
        >>> len(pruned.dropped), pruned.subset[0].shape
        (28, (12, 1, 8, 8))
    """

    def __init__(
        self, run: Run, kept: Kept, scores: NDArray[np.float64], take: Callable[..., Any] | None = None
    ) -> None:
        self.run = run
        self.kept = kept.positions
        self.weights = kept.weights
        self.scores = scores
        self._take = take

    def __repr__(self) -> str:
        note = self.run.manifest["pruned"]
        place = "a temporary folder" if note["temporary"] else str(self.run.directory)
        by = f"{note['method']} ({note['selector']})"
        return f"Pruned(kept {len(self.kept):,} of {len(self.scores):,} samples by {by}, in {place})"

    def __len__(self) -> int:
        return len(self.kept)

    @cached_property
    def dropped(self) -> NDArray[np.int64]:
        """Sorted positions of the samples that are not kept."""
        return np.setdiff1d(np.arange(len(self.scores)), self.kept)

    @cached_property
    def subset(self) -> Any:
        """The kept samples, of the same kind as the data that was given.

        Raises:
            MosoError: ``data-in-memory`` if the result was loaded without the data.
        """
        if self._take is None:
            raise errors.DataInMemory(
                "the data is not in the saved result; load it with the data, Pruned.load(path, train_set=data)"
            )
        return self._take(self.kept)

    @property
    def verdict(self) -> Verdict:
        """What the retrainings say, in words: how much can go within the tolerance, and against random selection.

        Raises:
            MosoError: ``nothing-to-measure`` without retrainings.
        """
        if not self.run.evaluation():
            raise errors.NothingToMeasure("nothing was retrained, so there is no verdict; give prune a test_set=")
        return verdict_of(self.run)

    def table(self) -> pa.Table:
        """Return one row per sample as an Arrow table: id, label, partition, every score, and whether it is kept.

        Weighted selections have a further column `weight`, null where a sample is not kept.
        """
        kept = np.zeros(len(self.scores), dtype=bool)
        kept[self.kept] = True
        table = self.run.table().append_column("kept", pa.array(kept))
        if self.weights is None:
            return table
        weights = np.full(len(self.scores), np.nan)
        weights[self.kept] = self.weights
        return table.append_column("weight", pa.array(weights, mask=~kept))

    def to_frame(self) -> Any:
        """Return `table()` as a pandas frame, or as the Arrow table itself where pandas is not installed."""
        try:
            import pandas  # noqa: F401
        except ImportError:
            return self.table()
        return self.table().to_pandas()

    def report(self, path: Path | str | None = None, *, show: bool = False) -> Path:
        """Write the page of the run, one HTML file that opens offline.

        Args:
            path: Where to put the page; None puts it into the run directory.
            show: Open the page in a browser.

        Returns:
            The path of the page.
        """
        written = write_report(self.run)
        if path is not None:
            target = Path(path) / written.name if Path(path).is_dir() else Path(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            written = Path(shutil.copyfile(written, target))
        if show:
            webbrowser.open(written.resolve().as_uri())
        return written

    def save(self, path: Path | str) -> Path:
        """Copy the run with everything it recorded to a folder, which `load` and every `moso` command open.

        Args:
            path: A folder that is not there yet or is empty.

        Raises:
            MosoError: ``output-exists``, ``not-writable``.
        """
        target = Path(path)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise errors.OutputExists(f"{target} is there already and not empty; give another folder")
        try:
            shutil.copytree(self.run.directory.root, target, dirs_exist_ok=True)
        except OSError as problem:
            raise errors.NotWritable(f"cannot write to {target}: {problem}") from problem
        copied = Run.open(target)
        copied.directory.note(pruned={**copied.manifest["pruned"], "temporary": False})
        return target

    @classmethod
    def load(cls, path: Path | str, train_set: Any = None) -> "Pruned":
        """Open what `save` wrote, or the directory given to `prune` as `out`.

        Args:
            path: The folder.
            train_set: The data that was pruned, for `subset`.

        Raises:
            MosoError: ``not-a-run``; ``data-changed`` if `train_set` is not the data that was pruned.
        """
        run = Run.open(path)
        note = run.manifest.get("pruned")
        if note is None:
            raise errors.NotARun(f"{path} was not written by moso.prune; open it with moso.Run.open")
        return cls._opened(run, None if train_set is None else _taking(train_set, note))

    @classmethod
    def _opened(cls, run: Run, take: Callable[..., Any] | None) -> "Pruned":
        note = run.manifest["pruned"]
        kept = read_kept(run.directory.root, run.selection(note["method"], note["ratio"], note["selector"]))
        found = run.scores().get(note["score"]) if note["score"] else None
        samples = int(run.manifest["dataset"]["train"])
        return cls(run, kept, np.full(samples, np.nan) if found is None else found, take)


def _taking(data: Any, note: PrunedNote) -> Callable[..., Any]:
    splits = splits_of(data)
    given = look_at(splits.get("train", data), label=note["label"], as_items=note["items"], read_answers=False)
    if given.fingerprint(content=not note["augmented"]) != note["data"]:
        raise errors.DataChanged(
            f"train_set is not the data that was pruned: {given.count} samples with other content; give that data"
        )
    return taking(data, given.take)


def taking(data: Any, take: Callable[[NDArray[np.int64]], Any]) -> Callable[[NDArray[np.int64]], Any]:
    """Return how kept samples are taken from data; of a `DatasetDict`, the training split is replaced."""
    if not splits_of(data):
        return take
    return lambda kept: type(data)({**data, "train": take(kept)})
