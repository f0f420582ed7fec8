"""The page in a real browser: what it shows, sorts, filters and computes is what the Parquet files and Python say."""

import csv
import io
import shutil

import numpy as np
import pytest
from browsing import choose, count, opened, set_ratio, settle, shown, until
from report_runs import HOSTILE, HOSTILE_TOO, hostile_folder, run_to, texts, two_classes
from scipy.stats import spearmanr

from moso import select
from moso.cli.main import app
from moso.report.page.page import write_report
from moso.results import Run
from moso.results.selections import read_selection
from moso.selection import kept_count

IN_PAGE = ("top", "bottom", "balanced", "proportional", "median")


@pytest.fixture(scope="module")
def report(finished):
    return write_report(finished)


@pytest.fixture(scope="module")
def shared_page(browser, report):
    """One page for tests that only ask it to compute."""
    with opened(browser, report) as page:
        yield page


@pytest.mark.parametrize("selector", IN_PAGE)
@pytest.mark.parametrize("kind", ["ties", "floats", "extremes", "constant"])
def test_orders_are_pythons_sample_for_sample(shared_page, selector, kind):
    draw = np.random.default_rng(0)
    for size in (7, 230):
        scores = {
            "ties": draw.integers(-3, 3, size).astype(float) / 10,
            "floats": draw.normal(size=size) * 10.0 ** draw.integers(-12, 12, size),
            "extremes": draw.choice([0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, 1.0, np.nextafter(1, 2)], size),
            "constant": np.full(size, 0.1),
        }[kind]
        labels = draw.choice([0, 1, 5], size, p=[0.7, 0.2, 0.1])
        ids = draw.permutation(size)
        given = [scores.tolist(), labels.tolist(), np.argsort(ids).tolist(), selector]
        order = shared_page.evaluate(
            "([scores, labels, byId, name]) => Array.from(moso.orders.keepingOrder(name, Float64Array.from(scores), "
            "Uint8Array.from(labels), Uint32Array.from(byId)))",
            given,
        )
        for ratio in (0.0, 0.1, 0.125, 0.3, 0.5, 0.7, 1 / 3, 0.57):
            kept = select(scores, ratio=ratio, labels=labels, selector=selector, ids=ids)
            assert sorted(order[: kept_count(size, ratio)]) == kept.tolist()
            assert shared_page.evaluate("([n, r]) => moso.orders.keptCount(n, r)", [size, ratio]) == len(kept)


def test_the_page_keeps_what_python_keeps_at_every_ratio(shared_page, finished):
    table, scores = finished.table(), finished.scores()
    given = {"labels": table["label"].to_numpy(), "ids": table["id"].to_numpy()}
    for selector in IN_PAGE:
        for ratio in (0.01, 0.2, 0.4, 0.555, 0.8, 0.99):
            kept = shared_page.evaluate(f"moso.keep('moso-rank', '{selector}', {ratio})")
            assert kept == select(scores["moso-rank"], ratio=ratio, selector=selector, **given).tolist()
    # Selectors that the page does not compute, at the ratios of the run.
    assert shared_page.evaluate("moso.keep('random', 'random', 0.4)") == finished.kept("random", 0.4, "random").tolist()
    assert "did not select" in shared_page.evaluate("moso.keep('random', 'random', 0.5)")
    assert "fewer than there are classes" in shared_page.evaluate("moso.keep('moso', 'balanced', 0.995)")


def test_every_view_shows_its_numbers(browser, report, finished):
    with opened(browser, report) as page:
        assert page.inner_text("h1") == "Pruning digits"
        cells = page.inner_text("#view-overview table >> nth=0")
        for row in finished.evaluation():
            assert row["method"] == "full" or row["method"] in cells
        page.click("nav >> text=Classes")
        page.wait_for_selector("table.classes tbody tr")
        labels = finished.table()["label"].to_numpy()
        chosen = page.evaluate("moso.model.choice")
        kept = finished.kept(chosen["method"], chosen["ratio"], chosen["selector"])
        for label, row in enumerate(page.query_selector_all("table.classes tbody tr")):
            texts = [cell.inner_text().strip() for cell in row.query_selector_all("th, td")]
            own = labels == label
            assert texts[1] == str(own.sum())
            assert texts[2] == f"{100 * own[kept].sum() / own.sum():.0f} %"
        cells = {(cell["method"], cell["ratio"], cell["seed"]): cell for cell in finished.evaluation()}
        before, after = (
            np.sum([np.array(cells[method, ratio, seed]["class_correct"]) for seed in (0, 1)], axis=0)
            / np.sum([np.array(cells[method, ratio, seed]["class_count"]) for seed in (0, 1)], axis=0)
            for method, ratio in (("full", 0.0), (chosen["method"], chosen["ratio"]))
        )
        expected = spearmanr(before.astype(np.float32), after.astype(np.float32)).statistic
        assert f"is {expected:.3f} over 10 classes" in page.inner_text("[data-role=spearman]")
        page.click("nav >> text=Methods")
        page.wait_for_selector(".heatmap")
        first, second = (set(finished.kept(name, chosen["ratio"], "balanced")) for name in ("moso", "moso-rank"))
        share = len(first & second) / len(first | second)
        assert page.inner_text(".heatmap >> nth=0 >> tr >> nth=1 >> td >> nth=1") == f"{100 * share:.0f} %"
        page.click("nav >> text=Training")
        assert page.locator("#view-training svg").count() >= 3


def test_sorting_and_filtering_are_numpys(browser, report, finished):
    table, score = finished.table(), finished.scores()["moso"]
    ids, labels = table["id"].to_numpy(), table["label"].to_numpy()
    drawn = np.isin(ids, finished.manifest["dataset"]["labels_drawn_at_random"])
    with opened(browser, report, "samples") as page:
        choose(page, "Sorted by", "moso")
        order = np.argsort(-score, kind="stable")
        assert shown(page) == [str(one) for one in ids[order]]
        assert page.get_attribute(".cell >> nth=0", "aria-label").startswith(f"sample {ids[order[0]]}, class")
        choose(page, "First", "low")
        assert shown(page) == [str(one) for one in ids[order[::-1]]]
        choose(page, "Class", "3")
        assert count(page) == (labels == 3).sum()
        choose(page, "Label", "drawn")
        assert count(page) == ((labels == 3) & drawn).sum()
        page.click("text=Clear 2 filters")
        page.fill('[data-field="low"]', "0.01")
        page.press('[data-field="low"]', "Enter")
        settle(page)
        assert count(page) == (score >= 0.01).sum()
        choose(page, "Kept or dropped", "kept")
        chosen = page.evaluate("moso.model.choice")
        kept = np.isin(np.arange(len(ids)), finished.kept(chosen["method"], chosen["ratio"], chosen["selector"]))
        assert count(page) == (kept & (score >= 0.01)).sum()
        choose(page, "Partition", "1")
        assert count(page) == (kept & (score >= 0.01) & (table["partition"].to_numpy() == 1)).sum()
        page.click("text=Clear 3 filters")
        other = "moso" if chosen["method"] != "moso" else "moso-rank"
        choose(page, "Other method", f"0{other}")
        until(page, f"moso.model.shown.length < {len(ids)}")
        assert count(page) == len(ids) - len(finished.kept(other, chosen["ratio"], "balanced"))
        page.click("text=Clear the filter")
        page.fill('[data-field="search"]', "77")
        page.press('[data-field="search"]', "Enter")
        settle(page)
        assert shown(page) == [str(one) for one in ids[order[::-1]] if "77" in str(one)]


def test_brushing_two_scores_filters_the_grid(browser, report, finished):
    first, second = finished.scores()["moso"], finished.scores()["moso-rank"]
    with opened(browser, report, "methods") as page:
        page.locator(".scatter").scroll_into_view_if_needed()
        box = page.locator(".scatter").bounding_box()
        page.mouse.move(box["x"] + 0.35 * box["width"], box["y"] + 0.1 * box["height"])
        page.mouse.down()
        page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.5 * box["height"], steps=4)
        page.mouse.up()
        settle(page)
        page.click("text=Show these samples")
        settle(page)
        inside = page.evaluate("Array.from(moso.model.shown)")
        assert 0 < len(inside) < len(first)
        # A rectangle: whoever lies between its extremes is inside.
        x, y = first[inside], second[inside]
        between = (first >= x.min()) & (first <= x.max()) & (second >= y.min()) & (second <= y.max())
        assert sorted(inside) == np.flatnonzero(between).tolist()
        assert count(page) == len(inside)
        page.click("text=from a plot")
        settle(page)
        assert count(page) == len(first)


def test_the_slider_shows_what_would_be_kept_and_expected(browser, report, finished):
    with opened(browser, report) as page:
        page.select_option(".choices select >> nth=0", "moso")
        for per_cent in (25, 40, 62.5):
            set_ratio(page, per_cent)
            figures = page.inner_text(".figures")
            assert f"{kept_count(1438, per_cent / 100):,} of 1,438" in figures.replace("\n", " ")
            means = {
                ratio: np.mean(
                    [cell["value"] for cell in finished.evaluation() if (cell["method"], cell["ratio"]) == pair]
                )
                for ratio, pair in ((0.0, ("full", 0.0)), (0.4, ("moso", 0.4)), (0.8, ("moso", 0.8)))
            }
            expected = np.interp(per_cent / 100, list(means), list(means.values()))
            assert f"{expected:.1f} %" in figures
            assert ("interpolated" in figures) == (per_cent != 40)
        page.focus("#ratio")
        page.keyboard.press("ArrowRight")
        settle(page)
        assert page.evaluate("moso.model.choice.ratio") == pytest.approx(0.635, abs=0.006)
        page.select_option(".choices select >> nth=1", "median")
        settle(page)
        assert "not measured" in page.inner_text(".figures")
        page.select_option(".choices select >> nth=0", "random")
        page.select_option(".choices select >> nth=1", "random")
        settle(page)
        assert page.evaluate("moso.model.choice.ratio") in (0.4, 0.8)  # only what the run selected
        set_ratio(page, 99.6)
        page.select_option(".choices select >> nth=1", "balanced")
        set_ratio(page, 99.6)
        assert "fewer than there are classes" in page.inner_text(".figures")


def test_decisions_by_hand_go_to_moso_select_and_back(browser, report, finished, tmp_path):
    root, ids = tmp_path / "run", [str(one) for one in finished.table()["id"].to_pylist()]
    shutil.copytree(finished.directory.root, root)
    with opened(browser, report, "samples", accept_downloads=True) as page:
        page.select_option(".choices select >> nth=0", "moso")
        page.select_option(".choices select >> nth=1", "proportional")
        set_ratio(page, 40)
        page.click(".cell >> nth=0", modifiers=["Control"])
        page.click(".cell >> nth=3", modifiers=["Control"])
        assert "2 picked" in page.inner_text(".toolbar")
        page.click(".toolbar >> text=Drop")
        choose(page, "First", "low")
        page.focus(".cell >> nth=0")
        page.keyboard.press("k")
        settle(page)
        kept = page.evaluate("Array.from(moso.model.kept)")
        with page.expect_download() as saving:
            page.click("text=Save 3 decided")
        saving.value.save_as(tmp_path / "overrides.csv")
        with page.expect_download() as saving:
            page.click("text=Save picked as CSV")
        rows = list(csv.DictReader(io.StringIO(saving.value.path().read_text())))
        assert [row["id"] for row in rows] == [ids[one] for one in np.argsort(-finished.scores()["moso"])[[0, 3]]]
        assert [float(row["moso"]) for row in rows] == sorted(finished.scores()["moso"])[::-1][0:4:3]
    command = ["select", root, "--method", "moso", "--selector", "proportional", "--ratio", "0.4", "--quiet"]
    app([str(one) for one in [*command, "--overrides", tmp_path / "overrides.csv"]], standalone_mode=False)
    (made,) = [one for one in Run.open(root).selections() if "overrides" in one.parameters and one.seed == 0]
    assert read_selection(root, made).tolist() == [one == 1 for one in kept]


def test_the_keyboard_is_enough(browser, report, finished):
    ids = finished.table()["id"].to_pylist()
    with opened(browser, report, "samples") as page:
        page.focus(".cell >> nth=0")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        columns = int(page.get_attribute(".grid", "aria-colcount"))
        place = page.evaluate("Number(document.activeElement.dataset.place)")
        assert place == columns + 1
        page.keyboard.press("Enter")
        page.wait_for_selector(".detail header")
        position = page.evaluate(f"moso.model.shown[{place}]")
        assert page.inner_text(".detail h2") == f"Sample {ids[position]}"
        score = finished.scores()["moso"]
        rank = int((score > score[position]).sum()) + 1
        assert f"{rank:,}" in page.inner_text(".detail table >> nth=0")
        page.keyboard.press("Escape")
        assert page.locator(".detail").is_hidden()
        page.keyboard.press("End")
        page.keyboard.press(" ")
        settle(page)
        assert page.evaluate("moso.model.picked.has(moso.model.shown.at(-1))")
        assert page.evaluate("document.activeElement.dataset.place") == "1437"
        assert page.locator(".cell").count() < 200  # only the rows in sight exist


def test_everything_has_a_name_and_can_be_read(browser, report):
    """Inputs and buttons have accessible names; text has a contrast of at least 4.5 in both themes."""
    names = """() => [...document.querySelectorAll("button, input, select, a")]
        .filter((one) => one.checkVisibility() && !one.labels?.length)
        .filter((one) => !one.getAttribute("aria-label") && !one.textContent.trim())
        .map((one) => one.outerHTML)"""
    contrasts = """() => {
        const style = getComputedStyle(document.documentElement);
        const light = (name) => {
          const hex = style.getPropertyValue(name).trim().slice(1);
          const full = hex.length === 3 ? [...hex].map((one) => one + one).join("") : hex;
          const parts = [0, 2, 4].map((at) => parseInt(full.slice(at, at + 2), 16) / 255);
          const [r, g, b] = parts.map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const pairs = ["--ink", "--soft", "--accent", "--doubt"].flatMap((text) =>
          ["--paper", "--page", "--faint"].map((ground) => [light(text), light(ground)]));
        return Math.min(...pairs.map(([a, b]) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)));
    }"""
    for scheme in ("light", "dark"):
        with opened(browser, report, color_scheme=scheme) as page:
            assert page.evaluate(contrasts) >= 4.5
            for view in ("samples", "classes", "methods", "training", "overview"):
                page.evaluate(f"location.hash = '{view}'")
                settle(page)
                assert page.evaluate(names) == []
            before = page.evaluate("getComputedStyle(document.body).backgroundColor")
            for _ in range(2 if scheme == "light" else 1):
                page.click("header button")
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
            assert len(page.pdf()) > 20_000


def test_hostile_names_are_shown_and_never_run(browser, tmp_path):
    folder = hostile_folder(tmp_path / "<i>data")
    run = run_to(tmp_path / "run", "selected", dataset=f"folder:{folder}", label_noise=0.5, seeds=1)
    with opened(browser, write_report(run), "samples") as page:
        names = {one.inner_text() for one in page.query_selector_all(".row:not([hidden]) .cell:not([hidden]) .name")}
        assert names == {HOSTILE, HOSTILE_TOO}
        page.click(".cell >> nth=0")
        page.wait_for_selector(".detail header")
        assert "{{ 7 * 7 }} %%about%% <b>" in page.inner_text(".detail h2")
        page.evaluate("location.hash = 'classes'")
        page.wait_for_selector("table.classes tbody tr")
        assert HOSTILE in page.inner_text("table.classes")
        page.evaluate("location.hash = 'overview'")
        assert page.inner_text("h1") == "Pruning <i>data"
        assert page.locator("b, i:not(.strip i), img").count() == 0


@pytest.mark.parametrize(
    ("made", "stage", "seen"),
    [
        (two_classes, "scored", "samples are shown as their numbers"),
        (texts, "evaluated", "sentence "),
        (lambda _: {"dataset": "diabetes", "model": "mlp-w8"}, "evaluated", "samples are shown as their numbers"),
        (lambda _: {}, "begun", "Samples are not scored yet"),
    ],
    ids=["table", "texts", "numbers", "begun"],
)
def test_a_run_of_any_kind_gives_a_sensible_page(browser, tmp_path, made, stage, seen):
    settings = {"methods": ["moso"], "ratios": [0.5], "seeds": 1}
    run = run_to(tmp_path / "run", stage, **settings, **made(tmp_path))
    with opened(browser, write_report(run), "samples") as page:
        settle(page)
        assert seen in page.inner_text("#view-samples")
        if stage != "begun":
            page.click(".cell >> nth=0")
            page.wait_for_selector(".detail header")
            assert "Scores" in page.inner_text(".detail")
        for view in ("classes", "methods", "training", "overview"):
            page.evaluate(f"location.hash = '{view}'")
            settle(page)
            assert len(page.inner_text(f"#view-{view}")) > 30
        if stage == "evaluated" and not run.manifest["dataset"]["classes"]:
            assert "Expected R²" in page.inner_text(".figures")
