"""`moso reproduce`: what it prints and writes, and what it refuses in one sentence."""

import json
import re
from dataclasses import replace
from functools import partial

import pytest
from small_experiments import GRID, SETTINGS, SMALL_ARM, small

from moso.cli import reproduce_work as reproduce_cli
from moso.experiments import registry
from moso.experiments.cells import cells_of
from moso.experiments.declaration import Arm, Contender, Published
from moso.experiments.execution import Asked, reproduce
from moso.report.experiments import experiment_page
from moso.report.experiments.experiment_page import write_index, write_page

RANDOM = (Contender("random"), Contender("random", "balanced"))


@pytest.fixture
def done(done):
    return partial(done, "reproduce")


@pytest.fixture
def refused(refused):
    return partial(refused, "reproduce")


def test_a_small_experiment_from_the_command_line(done, tmp_path, monkeypatch):
    monkeypatch.setitem(registry.EXPERIMENTS, "figure-1a", small())
    said = done("figure-1a", "--seeds", "1")
    assert "3 new cells" in said
    assert "3 of 3 finished" in said
    page = (tmp_path / "docs/results/figure-1a.md").read_text()
    assert "3 of 6 cells finished" in page
    assert "recipe `quick`" in page
    index = (tmp_path / "docs/results/README.md").read_text()
    assert "[figure-1a](figure-1a.md) | Figure 0 | cpu | 3 of 6" in index
    again = done("figure-1a", "--seeds", "1")
    assert "0 new cells" in again
    assert "3 of 6" in done()


def test_all_experiments_from_one_command(done, tmp_path, monkeypatch):
    """Those of the preset; pages of each that has a table, and one index."""
    monkeypatch.setattr(registry, "EXPERIMENTS", {})
    for name in ("figure-1a", "class-wise"):
        monkeypatch.setitem(registry.EXPERIMENTS, name, small(name=name))
    paper = small(name="cost", presets={"paper": (SMALL_ARM,)})
    monkeypatch.setitem(registry.EXPERIMENTS, "cost", paper)
    for module in (reproduce_cli, experiment_page):
        monkeypatch.setattr(module, "EXPERIMENTS", registry.EXPERIMENTS)
    assert "6 cells, 0 of them finished" in done("all", "--dry-run")
    said = done("all", "--seeds", "1")
    assert "2 experiments: 3 new cells" in said
    assert "docs/results/README.md" in said
    for name in ("figure-1a", "class-wise"):
        assert "3 of 6 cells finished" in (tmp_path / f"docs/results/{name}.md").read_text()
    again = done("class-wise", "figure-1a", "class-wise", "--seeds", "1")
    assert "2 experiments: 0 new cells" in again
    (tmp_path / "docs/results/class-wise.jsonl").unlink()
    pages = done("all", "--page")
    assert "figure-1a.md" in pages
    assert "class-wise" not in pages


def test_a_dry_run_of_the_papers_preset_needs_no_data(done):
    """With the paper's own networks, timed for real on pictures made up."""
    said = done("label-noise-cifar100", "--preset", "paper", "--dry-run", "--only", "moso", "--seeds", "1")
    assert re.search(r"5 cells, 0 of them finished", said)
    assert re.search(r"surrogates\s+│ resnet50 │\s+5 │\s+2,500,000", said)
    assert re.search(r"about [\d.]+ hours with 1 job on this machine", said)


def test_a_dry_run_counts_what_is_left(done, monkeypatch, tmp_path):
    monkeypatch.setitem(registry.EXPERIMENTS, "figure-1a", small())
    whole = done("figure-1a", "--dry-run")
    assert "6 cells, 0 of them finished" in whole
    reproduce([small()], Asked(results=tmp_path / "docs/results", out=tmp_path / "runs", seeds=1))
    left = done("figure-1a", "--dry-run")
    assert "6 cells, 3 of them finished" in left
    # Two epochs of 1,438 digits and twice of 719 are left.
    samples = 2 * (1438 + 2 * 719)
    assert re.search(rf"retraining\s+│ mlp-w8\s+│\s+3 │\s+{samples:,}", left)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["figure-1d"], "unknown experiment 'figure-1d'; nearest: figure-1"),
        (["figure-1a", "--preset", "gpu"], "no preset 'gpu'"),
        (["figure-1c"], "figure-1c has no preset 'cpu'"),
        (["figure-1a", "figure-1c"], "figure-1c has no preset 'cpu'"),
        (["all", "--only", "k-centre"], "no cell of the experiment"),
        (["all", "--preset", "gpu"], "no preset 'gpu'"),
        (["all", "--page"], "has no table of figure-1a yet"),
        (["figure-1a", "--only", "colour=red"], "unknown part of a cell 'colour'"),
        (["figure-1a", "--only", "k-center"], "no cell of the experiment is left"),
        (["figure-1a", "--jobs", "0"], "--jobs 0"),
        (["figure-1a", "--seeds", "0"], "--seeds 0"),
        (["figure-1a", "--hours", "-1"], "--hours -1"),
        (["figure-1a"], "cifar100 is not in"),
        (["figure-1a", "--page"], "has no table of figure-1a yet"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence(refused, arguments, sentence):
    assert sentence in refused(*arguments)


def made_up(arms, folder, name, **more):
    """A table of made-up numbers: random 50, everything else a point above for each place in the declaration."""
    folder.mkdir(exist_ok=True)
    lines = []
    for number, cell in enumerate(cells_of(arms)):
        r = cell.retraining
        value = 60.0 if r.method == "full" else 50.0 + (r.method != "random") * (2 + r.seed / 10) - 10 * r.ratio
        classes = [int(value) - 4 + (one * 7 + number) % 9 for one in range(10)]
        row = {
            **{name: getattr(r, name) for name in ("method", "selector", "parameters", "ratio", "seed", "network")},
            **{
                "key": cell.key,
                "data": cell.arm.data,
                "recipe": r.recipe,
                "match": r.match,
                "samples": 10,
                "test": 1000,
            },
            **{"metric": "accuracy", "unit": "%", "better": "higher", "value": value, "commit": "abc"},
            **{"class_correct": classes, "class_count": [100] * 10, "finished": "2026-01-01T00:00:00Z"},
            "seconds": {"retraining": 1.0, "surrogates": 2.0, "method": 3.0 + number},
            **more,
        }
        lines.append(json.dumps(row))
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


ARM = Arm("digits", SETTINGS, (*RANDOM, Contender("moso")), (0.5, 0.8), 3)
ARMS = tuple(
    Arm("digits", {**SETTINGS, "partitions": n}, (*RANDOM, Contender("moso")), (0.5,), 2, f"{n} parts", float(n))
    for n in (1, 2)
)


@pytest.mark.parametrize(
    ("plot", "arms", "expected"),
    [
        ("ratios", (ARM,), ["| moso (balanced) | 47.10 ± 0.10 (3) |", "+2.10", "all data"]),
        ("classes", (ARM,), ["Spearman", "| moso (balanced) |"]),
        ("cost", (ARM,), ["time, surrogates included"]),
        ("arms", ARMS, ["| partitions | 1 | 2 |", "the paper's | 74.35 |", "| +2.05 [+1.15, +2.95] * | +2.05"]),
    ],
)
def test_pages_and_plots_are_made_from_the_table_alone(plot, arms, expected, tmp_path):
    experiment = small(*arms, plot=plot, axis="partitions", reference={"1": 74.35} if plot == "arms" else {})
    made_up(arms, tmp_path / "results", "figure-1a")
    page = write_page(experiment, "cpu", tmp_path / "results")
    text = page.read_text()
    for part in expected:
        assert part in text
    (picture, *_) = re.findall(r"\]\((.+?\.png)\)", text)
    assert (tmp_path / "results" / picture).read_bytes().startswith(b"\x89PNG")
    first = (tmp_path / "results" / picture).read_bytes()
    write_page(experiment, "cpu", tmp_path / "results")
    assert (tmp_path / "results" / picture).read_bytes() == first
    write_index(tmp_path / "results")


@pytest.mark.parametrize("setting", ["partitions", "label_noise"])
def test_differences_along_an_axis_are_of_one_task(setting, tmp_path):
    """To the first value, where random selection stays as it is; where the axis changes the data, there are none."""
    values = {"partitions": (1, 2), "label_noise": (0.2, 0.4)}[setting]
    plain = replace(ARMS[0], seeds=3)
    arms = [
        replace(plain, settings={**SETTINGS, setting: value}, name=f"{value}", value=float(value)) for value in values
    ]
    made_up(arms, tmp_path / "results", "figure-1a")
    path = tmp_path / "results/figure-1a.jsonl"
    rows, second = path.read_text().splitlines(), {cell.key for cell in cells_of(arms[1:])}
    first = {cell.key for cell in cells_of(arms[:1])}
    for number, row in enumerate(map(json.loads, rows)):
        if row["key"] in second - first:
            rows[number] = json.dumps({**row, "value": row["value"] + 1 + row["seed"]})
    path.write_text("\n".join(rows) + "\n")
    text = write_page(small(*arms, plot="arms", axis=setting), "cpu", tmp_path / "results").read_text()
    if setting == "label_noise":
        assert "paired difference to label_noise" not in text
        return
    table = text.partition("### paired difference to partitions: 1, points")[2].partition("##")[0]
    # Differences 1, 2 and 3: 2 plus or minus Student's 4.303 / sqrt(3).
    assert "| moso (balanced) | +2.00 [-0.48, +4.48] |" in table
    assert "random" not in table


def test_ratios_along_an_axis_are_not_mixed(tmp_path):
    """Arms with two ratios have a table and a plot for each; the paper's numbers stand at the ratio declared first."""
    arms = [replace(arm, ratios=(0.5, 0.8), seeds=2) for arm in ARMS]
    made_up(arms, tmp_path / "results", "figure-1a")
    experiment = small(*arms, plot="arms", axis="partitions", reference={"1": 74.35})
    text = write_page(experiment, "cpu", tmp_path / "results").read_text()
    for share, reached in (("50 %", "47.05"), ("80 %", "44.05")):
        table = text.partition(f"### test accuracy in %, {share} removed")[2].partition("###")[0]
        assert f"| moso (balanced) | {reached} ± 0.07 (2) | {reached} ± 0.07 (2) |" in table
        assert ("74.35" in table) == (share == "50 %")
        table = text.partition(f"### paired difference to random selection, points, {share} removed")[2]
        assert "| moso (balanced) | +2.05" in table.partition("###")[0]
    assert set(re.findall(r"\]\((.+?\.png)\)", text)) == {"figure-1a-50-removed.png", "figure-1a-80-removed.png"}


def test_what_arms_share_stands_in_the_table_of_each(tmp_path):
    """Random selection is one cell however samples are judged; every table has it, and detection where it is known."""
    plain = replace(ARM, ratios=(0.5,), seeds=2, all_data=False)
    judged = {risk: {**SETTINGS, "risk": risk, "validation_share": 0.1} for risk in ("train", "validation")}
    arms = tuple(replace(plain, settings=own, name=f"{risk}, 20% noise") for risk, own in judged.items())
    made_up(arms, tmp_path / "results", "figure-1a", wrong_kept=0.125, auroc=0.75, precision=0.5)
    text = write_page(small(*arms), "cpu", tmp_path / "results").read_text()
    for risk in ("train, 20% noise", "validation, 20% noise"):
        _, _, table = text.partition(f"### test accuracy in %, {risk}")
        table = table.partition("###")[0]
        assert "| random (balanced) | 45.00 ± 0.00 (2) |" in table
        assert "| moso (balanced) | 47.05 ± 0.07 (2) |" in table
        assert f"### wrong labels, {risk}" in text
    assert "(figure-1a-train-20-noise.png)" in text
    assert text.count("| moso (balanced) | 0.750 | 50.0 | 12.50 ± 0.00 (2) |") == 2


def test_methods_stand_beside_published_numbers(tmp_path):
    """Differences to random selection, here and there, of the methods and ratios that both have; and their order."""
    contenders = (*RANDOM, *map(Contender, ("moso", "el2n", "grand", "herding")))
    arm = replace(ARM, contenders=contenders, all_data=False)
    made_up((arm,), tmp_path / "results", "figure-1a")
    path = tmp_path / "results/figure-1a.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    here = {"random": 50.0, "moso": 49.0, "el2n": 40.0, "grand": 45.0, "herding": 52.0}
    for row in rows:  # a seed shifts all alike; the worse of the random selections is no baseline
        row["value"] = here[row["method"]] + row["seed"] - (row["selector"] == "balanced" and row["method"] == "random")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    printed = {0.4: {"random": 1.0}, 0.8: {"random": 70.0, "el2n": 60.5, "grand": 55.0, "herding": 71.0, "ssp": 3.0}}
    published = Published("somebody", printed)
    text = write_page(small(arm, published=published), "cpu", tmp_path / "results").read_text()
    table = text.partition("### beside published numbers")[2].partition("##")[0]
    assert "| method | 80 % removed, here | published |" in table
    for line in ("el2n | -10.0 | -9.5", "grand | -5.0 | -15.0", "herding | +2.0 | +1.0", "random | +0.0 | +0.0"):
        assert f"| {line} |" in table
    assert "moso" not in table
    assert "ssp" not in table
    # Orders 4 3 1 2 and 3 4 1 2: 1 - 6 * 2 / (4 * 15).
    assert "| Spearman of the two orders | 0.80 |" in table
    assert "published: somebody." in table
    assert "published" not in write_page(small(arm), "cpu", tmp_path / "results").read_text()
    # Beside them, MoSo against each: a seed shifts both, so an interval is as wide as a test sample makes it.
    duels = text.partition("### MoSo above the other methods, 80 % removed, points")[2].partition("##")[0]
    assert "| method | moso (balanced) |" in duels
    assert "| el2n (top) | +9.00 [+8.75, +9.25] * |" in duels
    assert "| herding (herding) | -3.00 [-3.25, -2.75] * |" in duels
    assert "random" not in duels


def test_each_arm_stands_beside_published_numbers_by_itself(tmp_path):
    """Two networks of the same seeds: a table of both together would hold the values of either."""
    contenders = (Contender("random"), *map(Contender, ("el2n", "grand", "herding")))
    wide = {**SETTINGS, "model": "mlp-w16"}
    arms = [
        replace(ARM, contenders=contenders, ratios=(0.8,), all_data=False, name=name, settings=settings)
        for name, settings in (("narrow", SETTINGS), ("wide", wide))
    ]
    made_up(arms, tmp_path / "results", "figure-1a")
    path = tmp_path / "results/figure-1a.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    values = {"random": 50.0, "el2n": 40.0, "grand": 45.0, "herding": 52.0}
    for row in rows:
        below = values[row["method"]] - 50.0
        row["value"] = 50.0 + below * (2 if row["network"] == "mlp-w16" else 1)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    published = Published("somebody", {0.8: {"random": 70.0, "el2n": 60.5, "grand": 55.0, "herding": 71.0}})
    text = write_page(small(*arms, published=published), "cpu", tmp_path / "results").read_text()
    for name, difference in (("narrow", "-10.0"), ("wide", "-20.0")):
        table = text.partition(f"### beside published numbers, {name}")[2].partition("##")[0]
        assert f"| el2n | {difference} | -9.5 |" in table


def test_many_methods_at_many_ratios_have_a_plot_of_the_highest(tmp_path):
    names = ("moso", "moso-rank", "el2n", "grand", "herding", "ssp", "moderate", "forgetting", "entropy", "margin")
    arm = replace(ARM, contenders=(*RANDOM, *map(Contender, names)), ratios=(0.4, 0.6, 0.8))
    made_up((arm,), tmp_path / "results", "figure-1a")
    text = write_page(small(arm), "cpu", tmp_path / "results").read_text()
    assert "(figure-1a-highest.png)" in text
    few = replace(arm, contenders=arm.contenders[:5])
    assert "highest" not in write_page(small(few), "cpu", tmp_path / "results").read_text()


def test_held_out_samples_are_not_called_a_test(tmp_path):
    arm = replace(ARM, data="cifar100-held-out", ratios=(0.5,))
    made_up((arm,), tmp_path / "results", "figure-1a")
    text = write_page(small(arm), "cpu", tmp_path / "results").read_text()
    assert "### held-out accuracy in %" in text
    assert "test accuracy" not in text


def test_a_reading_is_kept_below_the_numbers(tmp_path):
    made_up((ARM,), tmp_path / "results", "figure-1a")
    (tmp_path / "results/readings").mkdir()
    (tmp_path / "results/readings/figure-1a.md").write_text("It does not hold.\n")
    text = write_page(small(ARM), "cpu", tmp_path / "results").read_text()
    assert text.endswith("## Reading\n\nIt does not hold.\n")


def test_the_page_of_exact_scores(tmp_path):
    reproduce([GRID], Asked(results=tmp_path))
    text = write_page(GRID, "cpu", tmp_path).read_text()
    assert "| linear, 1 x 0.1 |" in text
    assert (tmp_path / "approximation.png").exists()
