"""One run, one verdict: page, table of `moso compare`, terminal and table of `moso reproduce` say the same."""

import csv
import json
import math
import re
from dataclasses import asdict

import pytest
from report_runs import SETTINGS, run_to

from moso.analysis.comparison import comparison
from moso.analysis.verdict import verdict_of
from moso.cli.printed_tables import print_summary
from moso.experiments.cells import cells_of
from moso.experiments.declaration import Arm, Contender
from moso.report.comparison.compare_files import write_comparison
from moso.report.comparison.compare_tables import against_random, tables
from moso.report.experiments.experiment_tables import Finished, ratio_tables
from moso.report.page.overview import overview
from moso.results.retrainings import Retraining, retraining_path
from moso.run import Job

TEST = 359  # digits that are tested on
LUCK = (80.0, 90.0, 95.0, 85.0, 70.0)  # what a seed does to all methods
OTHERS = ("entropy", "margin", "aum", "el2n", "grand", "forgetting", "tdds", "dyn-unc", "dual", "least-confidence")

# By name: values of moso and of random selection by seed, how many other methods were tried, and the verdict.
CASES = {
    "seeds differ more than methods": (
        [luck + gain for luck, gain in zip(LUCK, (1.8, 2.0, 2.2, 1.9, 2.1), strict=True)],
        list(LUCK),
        2,
        "better",
    ),
    "and the other way round": (
        [luck - loss for luck, loss in zip(LUCK, (1.8, 2.0, 2.2, 1.9, 2.1), strict=True)],
        list(LUCK),
        0,
        "worse",
    ),
    "methods take turns under seeds that are alike": ([92.0, 91.0, 92.0, 91.0], [90.5, 91.4, 90.5, 91.4], 0, "level"),
    "the best of many by its own interval alone": ([92.0, 92.6, 92.3], [90.6, 91.4, 90.3], 10, "level"),
    "a single seed": ([95.0], [90.0], 2, "unknown"),
}
WORDS = {"better": "better than random", "worse": "worse than random", "level": "may be chance"}


def values_of(case: str) -> dict[str, list[float]]:
    """What every method reached under each seed; the others stay behind moso and random selection."""
    moso, random, others, _ = CASES[case]
    behind = [min(pair) - 5.0 for pair in zip(moso, random, strict=True)]
    return {"moso": moso, "random": random, **dict.fromkeys(OTHERS[:others], behind)}


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    return run_to(tmp_path_factory.mktemp("verdict") / "run", "begun", seeds=5, ratios=[0.5], methods=["moso"])


@pytest.fixture(params=CASES)
def case(request) -> str:
    return request.param


@pytest.fixture
def run(begun, case):
    """A run whose retrainings are made up."""
    root = begun.directory.root
    for path in (root / "evaluation").glob("*.json"):
        path.unlink()
    (root / "evaluation").mkdir(exist_ok=True)
    measured = {"samples": 719, "metric": "accuracy", "unit": "%", "better": "higher", "seconds": 1.0}
    for method, values in values_of(case).items():
        for seed, value in enumerate(values):
            cell = Retraining(
                method, "random" if method == "random" else "top", 0.5, seed, "mlp-w8", "digits", "epochs"
            )
            row = {**asdict(cell), **measured, "value": value}
            retraining_path(root, cell).write_text(json.dumps(row), encoding="utf-8")
    return begun


def of_reproduce(case: str) -> str:
    """What the table of an experiment says of moso, for the same numbers."""
    values = values_of(case)
    contenders = tuple(Contender(name, "random" if name == "random" else "top") for name in values)
    arm = Arm("digits", {**SETTINGS, "epochs": 20}, contenders, (0.5,), len(values["moso"]), all_data=False)
    finished = []
    for cell in cells_of([arm]):
        own = cell.retraining
        row = {"metric": "accuracy", "unit": "%", "better": "higher", "test": TEST, "key": cell.key}
        finished.append(Finished(cell, {**asdict(own), **row, "value": values[own.method][own.seed]}))
    (table,) = ratio_tables(finished)
    (line,) = [row for row in table.rows if row[0].startswith("moso")]
    return line[2]


def test_the_same_estimate_interval_and_word_everywhere(run, case, capsys):
    verdict = CASES[case][3]
    told = overview(run)
    (page,) = told["accuracy"]["comparisons"]
    found = comparison(run)
    (row,) = [row for row in found.rows if row.entry.method == "moso"]
    difference = row.against_random
    assert page["verdict"] == WORDS.get(verdict, "one seed cannot tell")
    assert page["against_random"] == str(difference)

    (line,) = [line for line in against_random(found).rows if line[0].startswith("moso")]
    star = " *" if verdict in ("better", "worse") else ""
    assert line[1] == f"{page['against_random']}{star}"

    with (write_comparison(run, found, tables(found)) / "comparison.csv").open() as file:
        (written,) = [one for one in csv.DictReader(file) if one["method"] == "moso"]
    ends = [float(written[f"against_random{end}"] or "nan") for end in ("", "_low", "_high")]
    assert ends == pytest.approx([difference.value, difference.low, difference.high], nan_ok=True)

    experiment = of_reproduce(case)
    numbers = [float(number) for number in re.findall(r"[-+][\d.]+", experiment)]
    assert numbers == pytest.approx([end for end in ends if not math.isnan(end)], abs=0.005)
    assert experiment.endswith(" *") == bool(star)

    print_summary(Job.open(run.directory.root, run.configuration))
    printed = capsys.readouterr().out
    assert told["headline"] in printed
    assert all(sentence in printed for sentence in told["verdict"]["sentences"])
    assert told["verdict"] == verdict_of(run).to_dict()
    assert told["verdict"]["against_random"]["text"] == str(difference)


def test_the_headline_takes_its_words_from_the_verdict(run, case):
    sentence = overview(run)["headline"]
    said = {
        "better": "points above random selection of the same size (84.0 %).",
        "worse": "which is the better choice here",
        "level": "can tell from chance",
        "unknown": "a single seed has no interval",
    }
    assert [word for word, text in said.items() if text in sentence] == [CASES[case][3]]
