"""What experiment trackers are told of a run: the scores, the retrainings, and the verdict in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso import errors
from moso.analysis.retraining_names import with_unique_names
from moso.analysis.verdict import Verdict, verdict_of
from moso.api import Pruned
from moso.evaluation.standings import Entry, entries
from moso.results.reading import Run

# What the loggers accept: a run, the result of `moso.prune`, or scores by name.
Loggable = Run | Pruned | Mapping[str, Sequence[float] | NDArray[np.float64]]


@dataclass(frozen=True)
class RunLog:
    """What is logged.

    Attributes:
        samples: One row per sample: id, label, every score, and after `moso.prune` whether it is kept.
        scores: The finite values of each score, by its name.
        retrainings: The results of retraining, per method, selector and ratio.
        verdict: The verdict; None without retrainings.

    Example:
        >>> log = RunLog.of({"moso": [0.5, -0.1]})
        >>> log.samples.column_names, log.scores["moso"].tolist(), log.summary()
        (['position', 'moso'], [0.5, -0.1], {'sample_count': 2})
    """

    samples: pa.Table
    scores: Mapping[str, NDArray[np.float64]]
    retrainings: tuple[Entry, ...] = ()
    verdict: Verdict | None = None

    @classmethod
    def of(cls, what: Loggable, tolerance: float | None = None) -> "RunLog":
        """Gather what is logged of a run, of the result of `moso.prune`, or of scores by name.

        Raises:
            MosoError: ``wrong-type``, ``length-mismatch``; ``stage-incomplete`` if the run has no scores yet.
        """
        if isinstance(what, Mapping):
            return cls._of_scores({name: np.asarray(values, dtype=np.float64) for name, values in what.items()})
        if not isinstance(what, Run | Pruned):
            raise errors.WrongType(
                f"{type(what).__name__} cannot be logged; give a moso.Run, the result of moso.prune, or "
                "scores by name, such as {'moso': scores}"
            )
        run = what.run if isinstance(what, Pruned) else what
        finished = run.evaluation()
        return cls(
            what.table(),
            _finite(run.scores()),
            tuple(entries(with_unique_names(finished))),
            verdict_of(run, tolerance) if finished else None,
        )

    @classmethod
    def _of_scores(cls, scores: Mapping[str, NDArray[np.float64]]) -> "RunLog":
        if not scores:
            raise errors.DataEmpty("there are no scores to log; give them by name, such as {'moso': scores}")
        shapes = {name: values.shape for name, values in scores.items()}
        count = len(next(iter(scores.values())))
        for name, shape in shapes.items():
            if shape != (count,):
                raise errors.LengthMismatch(f"score {name!r} is {shape}; all scores have one number per sample")
        return cls(pa.table({"position": np.arange(count), **scores}), _finite(scores))

    def summary(self) -> dict[str, float | str | bool]:
        """Return the verdict as single values that a tracker can show in a column: numbers, names, the sentences."""
        found: dict[str, float | str | bool] = {"sample_count": self.samples.num_rows}
        if self.verdict is None:
            return found
        verdict = self.verdict
        single: dict[str, float | str | bool | None] = {
            "verdict": str(verdict),
            "removable": verdict.removable,
            "tolerance": verdict.tolerance,
            "method": verdict.method,
            "selector": verdict.selector,
            "ratio": verdict.ratio,
            "value": verdict.value,
            "within_tolerance": verdict.within_tolerance,
            "beats_random": verdict.beats_random,
            "against_random": None if verdict.against_random is None else verdict.against_random.value,
            "against_full": None if verdict.against_full is None else verdict.against_full.value,
        }
        return {**found, **{name: value for name, value in single.items() if value is not None}}

    def curves(self) -> list[tuple[str, int, float]]:
        """Return the retrainings as curves: a name, the share removed in per cent, and the mean over seeds."""
        return [
            (f"{entry.measure.name}/{entry.method}-{entry.selector}", round(100 * entry.ratio), entry.line.mean)
            for entry in self.retrainings
        ]


def _finite(scores: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    """Return the finite values of each score; methods without scores leave NaN."""
    found = {name: values[np.isfinite(values)] for name, values in scores.items()}
    return {name: values for name, values in found.items() if values.size}
