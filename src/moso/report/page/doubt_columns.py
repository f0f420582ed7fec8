"""Columns about labels in doubt: the suspicion by which samples are sorted, and which labels are likely wrong."""

from typing import Any

import numpy as np

from moso.analysis.label_issues import label_suspicion
from moso.evaluation.likely_errors import likely_label_errors
from moso.evidence.predictions import out_of_sample_path, read_out_of_sample
from moso.report.page.page_columns import Column
from moso.report.page.sample_columns import NO_PREDICTIONS, Columns
from moso.results.reading import Run

# The sort order of the page by suspicion, most suspicious first.
BY_SUSPICION = "label suspicion"
_RULE = (
    "A label counts as a likely error if networks that did not train on the sample give another class a probability "
    "of at least that class's average over its own samples, and more than they give to any other class that reaches "
    "its average (confident learning)."
)


def doubt_columns(run: Run) -> tuple[dict[str, Any], Columns]:
    """Return what the page says about likely label errors, and their columns.

    The description has `missing` (why they are not counted; empty if they are), `rule`, and `order` (what ranks
    suspicion; empty if nothing does).
    """
    if not run.task.by_class:
        return {"missing": "The samples have no classes, so no label can be of the wrong class.", "order": ""}, {}
    if len(run.task.classes) < 2:
        return {"missing": "There is a single class, so no label can be of another one.", "order": ""}, {}
    ranking = label_suspicion(run)
    labels = run.table()["label"].to_numpy()
    columns: Columns = {}
    about = {"missing": NO_PREDICTIONS, "rule": "", "order": ""}
    if ranking is not None:
        name, values = ranking
        about["order"] = name
        columns[f"order/{BY_SUSPICION}"] = Column("float64", len(labels), lambda: values)
    home = run.directory.root
    if out_of_sample_path(home).exists():
        wrong = likely_label_errors(np.asarray(read_out_of_sample(home)), labels)
        about |= {"missing": "", "rule": _RULE}
        columns["likely-error"] = Column("bits", len(labels), lambda: wrong)
    return about, columns
