"""The content of a run's page: a small JSON part, and columns that are read on demand."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from moso.analysis.run_features import run_features
from moso.analysis.run_pair import pair_runs
from moso.analysis.verdict import verdict_of
from moso.data.samples import id_keys
from moso.errors import MosoError
from moso.methods import find_method
from moso.report.page.against import against
from moso.report.page.agreement import class_accuracy, score_agreement
from moso.report.page.doubt_columns import doubt_columns
from moso.report.page.feature_columns import feature_columns
from moso.report.page.overview import main_pair, overview, score_of
from moso.report.page.page_columns import Column, smallest
from moso.report.page.run_settings import what_was_run
from moso.report.page.sample_columns import Columns, sample_columns
from moso.report.page.sample_history import evidence_columns
from moso.report.page.sample_preview import SamplePreview
from moso.report.page.thumbnails import by_importance
from moso.report.page.training_curves import training
from moso.report.run_views import selector_key
from moso.results.reading import Run
from moso.version import __version__

Mode = Literal["file", "served"]
# Selectors that only sort the samples; the page computes them itself at any ratio.
IN_PAGE = ("top", "bottom", "balanced", "proportional", "median")


@dataclass(frozen=True)
class Content:
    """The content of a run's page.

    Attributes:
        about: The JSON part; small whatever the number of samples.
        columns: The columns by name.
        shown: Previews of the samples; None before there are scores.
    """

    run: Run
    about: dict[str, Any]
    columns: Columns
    shown: SamplePreview | None

    @property
    def samples(self) -> int:
        """Number of samples on the page; 0 before they are scored."""
        return int(self.about["samples"])

    def score(self, name: str) -> NDArray[np.float64]:
        """Return a score by name, in data set order, shape ``[samples]``."""
        return np.asarray(self.columns[f"score/{name}"].read())

    @cached_property
    def importance(self) -> NDArray[np.int64]:
        """All positions, in the order in which samples get room in a page of limited size."""
        table = self.run.table()
        labels = table["label"].to_numpy() if self.run.task.by_class else None
        doubted = np.zeros(self.samples, dtype=bool)
        for name in ("drawn", "suspected", "likely-error", "outlier", "duplicate-group"):
            doubted |= np.asarray(self.columns[name].read()) > 0 if name in self.columns else False
        keys = id_keys(table["id"].combine_chunks())
        return by_importance(self.score(self.about["scores"][0]), labels, keys, doubted)


def gather(run: Run, other: Run | None = None) -> Content:
    """Gather the content of a run's page, whether the run is finished or not.

    Args:
        run: The run.
        other: A second run over the same samples, to compare it with.

    Raises:
        MosoError: ``stage-incomplete``, ``runs-incomparable``.
    """
    described = run.manifest.get("dataset", {})
    task = run.task
    about, columns = sample_columns(run)
    samples = described["train"] if columns else 0
    features = run_features(run) if samples else ""
    evidence, more = evidence_columns(run, features) if samples else ({}, {})
    compared, from_features = feature_columns(features, samples) if samples else ({"missing": ""}, {})
    doubts, from_doubts = doubt_columns(run) if samples else ({"missing": "", "order": ""}, {})
    more |= from_features | from_doubts
    rows, accuracies = class_accuracy(run)
    about |= {
        "version": __version__,
        "samples": samples,
        "classes": list(task.classes),
        "partitions": run.configuration.partitions,
        "seed": run.configuration.seed,
        "in_page": [name for name in IN_PAGE if task.by_class or name not in ("balanced", "proportional")],
        "methods": _methods(run, about),
        "choice": _choice(run),
        "evidence": evidence,
        "features": compared,
        "label_errors": doubts,
        "orders": [name.removeprefix("order/") for name in more if name.startswith("order/")],
        "training": training(run) if described else None,
        "agreement": score_agreement(run) if samples else None,
        "class_accuracy": rows,
        **overview(run),
        **what_was_run(run),
    }
    if other is not None:
        beside, theirs = against(pair_runs(run, other))
        columns |= theirs
        about |= {name: [*about[name], *beside[name]] for name in ("scores", "selections", "methods")}
        about["against"] = beside["against"]
    shown = SamplePreview.open(run) if samples else None
    if shown is not None:
        columns |= _source_labels(shown, columns, len(task.classes))
    about["shown"] = {
        "kind": shown.kind if shown else "none",
        "note": _note(shown),
        "width": shown.width if shown else 0,
    }
    return Content(run, about, columns | more | accuracies, shown)


def _note(shown: SamplePreview | None) -> str:
    if shown is None:
        return ""
    return shown.note or (
        "The inputs are neither pictures nor texts, so samples are shown as their numbers."
        if shown.kind == "rows"
        else ""
    )


def _source_labels(shown: SamplePreview, columns: Columns, classes: int) -> Columns:
    """Return the column of the source's labels, if they differ from the training labels for any sample."""
    labels = shown.source_labels()
    if labels is None or "label" not in columns or (labels == np.asarray(columns["label"].read())).all():
        return {}
    return {"source-label": Column(smallest(classes), len(labels), lambda: labels)}


def _methods(run: Run, about: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the choices of the page: methods with selections, and every score by itself."""
    names = dict.fromkeys([*about["scores"], *(one["method"] for one in about["selections"])])
    found = []
    for name in names:
        score = name if name in about["scores"] else score_of(name)
        # The shortest key has the fewest settings that differ from the defaults.
        own = min((one["key"] for one in about["selections"] if one["method"] == name), key=len, default=None)
        try:
            method = find_method(name)
            choice = run.configuration.choice(name)
            described, own = method.description, own or selector_key(choice.selector.name, choice.parameters)
        except MosoError:  # not a method of ours but the user's own score or list
            described, own = "", own or "top"
        if score in about["scores"] or own is not None:
            found.append(
                {
                    "name": name,
                    "score": score if score in about["scores"] else None,
                    "selector": own,
                    "description": described,
                }
            )
    return found


def _choice(run: Run) -> dict[str, Any]:
    """Return the choice that the page opens with: the best pair, at the ratio of the verdict."""
    method, selector = main_pair(run)
    told = verdict_of(run).ratio
    ratio = run.configuration.ratios[0] if told is None else told
    return {"method": method, "selector": selector, "ratio": ratio}
