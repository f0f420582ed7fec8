"""Two runs side by side, and damage per class, in a real browser: the numbers are those of the runs' files."""

import numpy as np
import pytest
from browsing import count, opened, set_ratio, settle, shown
from report_runs import Elements, run_to
from scipy.stats import spearmanr, t
from test_server import served

from moso.analysis.class_changes import class_changes
from moso.analysis.run_pair import pair_runs
from moso.cli.main import app
from moso.errors import MosoError
from moso.report.page.page import render, write_report
from moso.results import Run


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> Run:
    """The data of `finished` with other settings: more epochs, one method less."""
    root = tmp_path_factory.mktemp("other") / "longer"
    return run_to(root, "evaluated", label_noise=0.2, epochs=4, methods=["moso"], baselines=[])


@pytest.fixture(scope="module")
def page_file(finished, other):
    app(
        ["report", str(finished.directory.root), "--against", str(other.directory.root), "--quiet"],
        standalone_mode=False,
    )
    return finished.directory.root / "report-against-longer.html"


def by_seed(run: Run, method: str, selector: str, ratio: float) -> np.ndarray:
    cells = [
        one for one in run.evaluation() if (one["method"], one["selector"], one["ratio"]) == (method, selector, ratio)
    ]
    return np.array([one["value"] for one in sorted(cells, key=lambda one: one["seed"])])


def test_accuracies_and_paired_differences_are_those_of_the_cells(browser, page_file, finished, other):
    first, second = by_seed(finished, "moso", "balanced", 0.4), by_seed(other, "moso", "balanced", 0.4)
    difference = second - first
    deviation = max(difference.std(ddof=1), 100 / finished.manifest["dataset"]["test"])
    margin = t.ppf(0.975, 1) * deviation / np.sqrt(2)
    sign = "−" if difference.mean() < 0 else "+"  # noqa: RUF001 - as on the page
    with opened(browser, page_file, "compare") as page:
        rows = [
            one.inner_text().split("\t") for one in page.query_selector_all("#view-compare table >> nth=1 >> tbody tr")
        ]
        (row,) = [one for one in rows if one[:2] == ["moso (balanced)", "40 %"]]
        assert row[2].startswith(f"{first.mean():.1f}")
        assert row[3].startswith(f"{second.mean():.1f}")
        assert row[4] == f"{sign}{abs(difference.mean()):.1f} ± {margin:.1f}"
        (alone,) = [one for one in rows if one[:2] == ["moso-rank (balanced)", "40 %"]]
        assert alone[3:5] == ["", ""]
        settings = page.inner_text("#view-compare table >> nth=0")
        assert "surrogate epochs\t2\t4" in settings
        assert "model" not in settings


def test_what_one_keeps_and_the_other_drops(browser, page_file, finished, other):
    ids = finished.table()["id"].to_pylist()
    assert ids == other.table()["id"].to_pylist()
    with opened(browser, page_file, "compare") as page:
        set_ratio(page, 40)
        page.select_option("#view-compare .pair select >> nth=0", "moso")
        settle(page)
        mine, theirs = (set(run.kept("moso", 0.4, "balanced").tolist()) for run in (finished, other))
        said = page.inner_text("[data-role=overlap]")
        assert f"both keep {len(mine & theirs):,} samples" in said
        assert f"moso alone keeps {len(mine - theirs)}, longer: moso alone {len(theirs - mine)}" in said
        assert f"{100 * len(mine & theirs) / len(mine | theirs):.1f}".rstrip("0").rstrip(".") in said
        expected = spearmanr(finished.scores()["moso"], other.scores()["moso"]).statistic
        assert f"is {expected:.3f}" in page.inner_text("[data-role=rank]")
        page.click(f"#view-compare >> text=Show all {len(theirs - mine)} >> nth=-1")
        settle(page)
        assert count(page) == len(theirs - mine)
        assert set(shown(page)) == {str(ids[one]) for one in theirs - mine}
        # At a ratio that neither run selected, the page computes both.
        page.evaluate("location.hash = 'compare'")
        set_ratio(page, 55)
        assert "At 55 % removed both keep" in page.inner_text("[data-role=overlap]")


def test_runs_are_matched_by_id_and_labels_may_differ(finished, tmp_path):
    clean = run_to(tmp_path / "clean", "selected", methods=["moso"], seeds=1)
    pair = pair_runs(finished, clean)
    drawn = finished.manifest["dataset"]["labels_drawn_at_random"]
    assert 0 < pair.labels_differ <= len(drawn)
    found = Elements(render(finished, other=clean))
    assert found.about["against"]["labels_differ"] == pair.labels_differ
    (method,) = [one for one in found.about["methods"] if one["name"] == "clean: moso"]
    assert not method["in_page"]
    places = {one: place for place, one in enumerate(clean.table()["id"].to_pylist())}
    order = [places[one] for one in finished.table()["id"].to_pylist()]
    assert (found.column("score/clean: moso") == clean.scores()["moso"][order]).all()


def test_runs_over_other_samples_are_refused(finished, tmp_path):
    smaller = run_to(tmp_path / "smaller", "scored", methods=["moso"], seeds=1, test_share=0.5)
    with pytest.raises(MosoError) as caught:
        write_report(finished, other=smaller)
    assert caught.value.code == "runs-incomparable"


def test_two_runs_are_served(browser, finished, other):
    with served(finished, other=other) as server, opened(browser, server.address, "compare") as page:
        page.wait_for_selector("[data-role=overlap]")
        assert page.locator("#view-compare .tile").count() > 0


def test_damage_per_class_is_that_of_the_cells_worst_first(browser, finished):
    cells = finished.evaluation()
    names = [str(number) for number in range(10)]
    full = [one for one in cells if one["method"] == "full"]
    own = [one for one in cells if (one["method"], one["selector"], one["ratio"]) == ("moso", "balanced", 0.8)]
    changes = {one.name: one for one in class_changes(own, full, names)}
    harmed = {name for name, one in changes.items() if one.is_harm(1.0)}
    assert harmed
    randoms = {
        selector: [one for one in cells if (one["method"], one["selector"], one["ratio"]) == ("random", selector, 0.8)]
        for selector in ("random", "balanced")
    }
    better = max(randoms.values(), key=lambda one: np.mean([cell["value"] for cell in one]))
    random = {one.name: one.after for one in class_changes(better, full, names)}
    kept = np.bincount(finished.table()["label"].to_numpy()[finished.kept("moso", 0.8, "balanced")], minlength=10)
    with opened(browser, write_report(finished), "classes") as page:
        page.select_option(".choices select >> nth=0", "moso")
        page.select_option(".choices select >> nth=1", "balanced")
        set_ratio(page, 80)
        page.wait_for_selector("table.damage")
        rows = [
            [cell.inner_text() for cell in row.query_selector_all("th, td")]
            for row in page.query_selector_all(".damage tbody tr")
        ]
        falls = []
        for name, stays, before, after, _, drawn, _, tests, word in rows:
            assert stays.startswith(f"{kept[int(name)]} of ")
            assert (before, after) == (f"{changes[name].before:.1f}", f"{changes[name].after:.1f}")
            assert drawn == f"{random[name]:.1f}"
            assert tests == str(changes[name].test_samples)
            assert (word == "harmed") == (name in harmed)
            falls.append((name not in harmed, round(changes[name].change, 4)))
        assert falls == sorted(falls)
        assert page.locator(".damage tr.harmed").count() == len(harmed)
        said = page.inner_text("[data-role=damage]")
        assert f"harms {len(harmed)} of 10 classes" in said
        # Where accuracy is lost, nothing pays off.
        assert "pays off" not in page.inner_text(".figures")


def test_axes_hold_the_values_and_bars_of_error_need_seeds(browser, finished, tmp_path):
    single = run_to(tmp_path / "run", "evaluated", methods=["moso"], seeds=1, epochs=4)
    for run, bars in ((finished, True), (single, False)):
        with opened(browser, write_report(run)) as page:
            chart = "#view-overview .chart svg >> nth=0"
            ticks = [
                float(one.text_content())
                for one in page.query_selector_all(f"{chart} >> text.tick")
                if "%" not in one.text_content()
            ]
            values = [one["value"] for one in run.evaluation()]
            step = ticks[1] - ticks[0]
            assert min(ticks) >= min(values) - (max(values) - min(values)) - step
            assert max(ticks) <= 100
            assert (page.locator(f"{chart} >> path.thin").count() > 0) == bars
            assert ("± standard deviation" in page.inner_text("#view-overview")) == bars
            legend = page.get_attribute("#view-overview .legend button >> nth=1", "title")
            assert "Proposition 1.1" in legend
