"""Suspects and the quality of their detection as tables, for the terminal, CSV and Parquet."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from moso.analysis.label_issues import LabelIssues
from moso.analysis.wording import count_of
from moso.evaluation.detection import Detection
from moso.report.text_table import TextTable


def suspects_table(issues: LabelIssues) -> pa.Table:
    """Return one row per suspect: rank, id, label, out-of-sample prediction, probabilities; the truth if known."""
    found, classes = issues.suspects, issues.classes
    columns: dict[str, Any] = {
        "rank": list(range(1, len(found) + 1)),
        "id": issues.ids,
        "label": [classes[label] for label in found.labels.tolist()],
        "predicted": [classes[label] for label in found.predicted.tolist()],
        "label_probability": found.given_probability,
        "predicted_probability": found.predicted_probability,
        "suspicion": found.suspicion,
    }
    if found.actual is not None and found.wrong is not None:
        columns["right_label"] = [classes[label] for label in found.actual.tolist()]
        columns["wrong"] = found.wrong
    return pa.table(columns)


def suspects_text(issues: LabelIssues, shown: int) -> TextTable:
    """Return the first `shown` suspects as a table of text."""
    rows = []
    for row in suspects_table(issues).slice(0, shown).to_pylist():
        line = [
            str(row["id"]),
            row["label"],
            row["predicted"],
            f"{row['label_probability']:.3f}",
            f"{row['predicted_probability']:.3f}",
        ]
        if "wrong" in row:
            line.append(f"wrong, is {row['right_label']}" if row["wrong"] else "right")
        rows.append(line)
    columns = ["id", "label", "predicted", "p(label)", "p(predicted)"]
    columns += ["truth"] if issues.suspects.wrong is not None else []
    title = f"the {count_of(min(shown, len(issues.suspects)), 'most suspicious sample')} by {issues.order}"
    note = "Predictions and probabilities p are those of networks that were not trained on the sample."
    return TextTable(title, columns, rows, note)


def detection_text(issues: LabelIssues) -> TextTable:
    """Return how well every ranking finds the wrong labels, as a table of text."""
    assert issues.wrong is not None
    rows = [_row(one, issues.order) for one in issues.detections]
    columns = ["order", "AUROC", "precision", "called wrong", "of them wrong", "of the wrong found"]
    share = issues.wrong / issues.samples
    note = (
        "AUROC: the chance that a wrong label comes before a right one. Precision: the share of wrong ones among the "
        f"first {issues.wrong:,}; chance would give {share:.3f}. The last columns are for a detector that also says "
        f"where to stop. {issues.note}"
    ).strip()
    title = f"detection of {issues.wrong:,} wrong labels among {issues.samples:,} samples"
    return TextTable(title, columns, rows, note)


def _row(one: Detection, order: str) -> Sequence[str]:
    name = f"{one.name} (the order used)" if one.name == order else one.name
    flagged = ["", "", ""]
    if one.flagged is not None and one.flagged_precision is not None and one.flagged_recall is not None:
        flagged = [f"{one.flagged:,}", f"{one.flagged_precision:.3f}", f"{one.flagged_recall:.3f}"]
    return [name, f"{one.auroc:.3f}", f"{one.precision:.3f}", *flagged]
