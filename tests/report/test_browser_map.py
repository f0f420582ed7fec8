"""The map and the issues in a real browser: what is drawn around, counted and listed is what numpy says."""

import shutil

import numpy as np
import pytest
from browsing import choose, count, opened, settle, shown, until
from report_runs import FAR_AWAY, Elements, run_to, table_with_copies, texts, two_classes
from test_server import served

import moso
from moso.analysis.label_issues import find_label_issues
from moso.analysis.neighbourhoods import neighbourhoods
from moso.cli.main import app
from moso.evaluation.likely_errors import likely_label_errors
from moso.report.page.page import write_report
from moso.selection.feature_rows import Features


@pytest.fixture(scope="module")
def report(featured):
    return write_report(featured)


def plot(page) -> tuple[float, float, float, float]:
    """The map's place on the screen."""
    page.wait_for_selector(".map[data-painted]")
    page.locator(".map").scroll_into_view_if_needed()
    box = page.locator(".map").bounding_box()
    return box["x"], box["y"], box["width"], box["height"]


def places(page, coordinates: np.ndarray) -> np.ndarray:
    """Where samples are on the screen, by the rule of the page: one scale for both directions, 14 pixels of margin."""
    left, top, width, height = plot(page)
    side = min(width, height) - 2 * 14
    share = coordinates / 65535 - 0.5
    return np.stack([left + width / 2 + share[0] * side, top + height / 2 - share[1] * side])


def drag(page, corners: list[tuple[float, float]]) -> None:
    page.mouse.move(*corners[0])
    page.mouse.down()
    for corner in corners[1:]:
        page.mouse.move(*corner, steps=3)
    page.mouse.up()
    settle(page)


def selected(page) -> int:
    return int(page.inner_text(".chosen strong").split()[0].replace(",", ""))


def test_a_rectangle_selects_the_samples_inside(browser, report, featured):
    coordinates = Elements(report.read_text()).column("map").astype(float)
    with opened(browser, report, "map") as page:
        x, y = places(page, coordinates)
        left, right, top, bottom = *np.quantile(x, [0.2, 0.7]), *np.quantile(y, [0.1, 0.6])
        drag(page, [(left, top), (right, bottom)])
        # The pointer moves by whole pixels in places, so points next to the border may fall on either side.
        inner, outer = ((x > left + d) & (x < right - d) & (y > top + d) & (y < bottom - d) for d in (1.5, -1.5))
        inside = np.array(page.evaluate("Array.from(moso.model.filters.brush)"), dtype=bool)
        assert (inside >= inner).all()
        assert (inside <= outer).all()
        assert inner.sum() > 30
        assert selected(page) == inside.sum()
        kept = np.array(page.evaluate("Array.from(moso.model.kept)"), dtype=bool)
        assert f"{(inside & kept).sum()} of them kept" in page.inner_text(".chosen")
        assert page.locator(".chosen .tile").count() == 12
        page.click("text=Show these samples")
        settle(page)
        assert count(page) == inside.sum()
        ids = featured.table()["id"].to_pylist()
        assert set(shown(page)) == {str(ids[one]) for one in np.flatnonzero(inside)}
        page.evaluate("location.hash = 'map'")
        page.click(".chosen >> text=Clear")
        settle(page)
        assert page.evaluate("moso.model.filters.brush") is None


def test_a_lasso_selects_the_samples_inside(browser, report):
    coordinates = Elements(report.read_text()).column("map").astype(float)
    with opened(browser, report, "map") as page:
        x, y = places(page, coordinates)
        page.click("#view-map >> text=Lasso")
        (a, b), (c, d) = np.quantile(x, [0.1, 0.9]), np.quantile(y, [0.1, 0.9])
        drag(page, [(a, c), (b, c), (a, d)])
        # A triangle: above the line from the right end of its upper side to its lower corner.
        height = (x - a) / (b - a) + (y - c) / (d - c)
        inner, outer = ((x > a + e) & (y > c + e) & (height < 1 - e / 50) for e in (2, -2))
        inside = np.array(page.evaluate("Array.from(moso.model.filters.brush)"), dtype=bool)
        assert (inside >= inner).all()
        assert (inside <= outer).all()
        assert inner.sum() > 20


def test_the_sample_under_the_pointer_is_shown_and_opened(browser, report, featured):
    coordinates = Elements(report.read_text()).column("map").astype(float)
    table = featured.table()
    with opened(browser, report, "map") as page:
        x, y = places(page, coordinates)
        far = np.hypot(x[:, None] - x, y[:, None] - y)
        np.fill_diagonal(far, np.inf)
        alone = int(far.min(axis=1).argmax())
        page.mouse.move(x[alone], y[alone])
        settle(page)
        tip = page.inner_text(".tip")
        assert str(table["id"][alone]) in tip
        assert featured.task.classes[table["label"][alone].as_py()] in tip
        until(page, "document.querySelector('.tip canvas')?.width === 8")
        page.mouse.click(x[alone], y[alone])
        page.wait_for_selector(".detail header")
        assert page.inner_text(".detail h2") == f"Sample {table['id'][alone]}"


def test_colours_are_explained_with_their_numbers(browser, report, featured):
    labels = featured.table()["label"].to_numpy()
    with opened(browser, report, "map") as page:
        plot(page)
        counts = [int(one.inner_text()) for one in page.query_selector_all(".key small")]
        assert counts == np.bincount(labels).tolist()
        page.click(".key button >> nth=3")
        settle(page)
        assert page.get_attribute(".key button >> nth=3", "aria-pressed") == "true"
        page.select_option("#view-map select", "kept")
        settle(page)
        kept = np.array(page.evaluate("Array.from(moso.model.kept)"), dtype=bool)
        counts = [int(one.inner_text()) for one in page.query_selector_all(".key small")]
        assert counts == [(~kept).sum(), kept.sum()]
        for value in ("doubt", "issues", "/moso", "/distance to neighbours"):
            page.select_option("#view-map select", value)
            settle(page)
            assert page.inner_text(".key")
        page.click("[aria-label='Zoom in']")
        page.click("text=Whole map")
        settle(page)


def test_issues_are_those_of_python(browser, report, featured):
    found = neighbourhoods(Features(featured.features()))
    labels = featured.table()["label"].to_numpy()
    likely = likely_label_errors(np.asarray(featured.out_of_sample()), labels)
    assert 20 < likely.sum() < len(labels) / 2
    with opened(browser, report, "issues") as page:
        page.wait_for_selector("[data-role=likely]")
        kept = np.array(page.evaluate("Array.from(moso.model.kept)"), dtype=bool)
        said = page.inner_text("[data-role=likely]")
        assert said.startswith(f"{likely.sum()} of {len(labels)} labels are likely wrong")
        assert f"{(likely & kept).sum()} of them are kept by" in said
        assert "moso suspects named 20 samples" in page.inner_text("[data-role=suspected]")
        said = page.inner_text("[data-role=outliers]")
        assert said.startswith(f"{found.outlier.sum()} of" if found.outlier.any() else "No sample")
        said = page.inner_text("[data-role=duplicates]")
        assert said.startswith(
            f"{(found.group > 0).sum()} samples form {found.groups} group" if found.groups else "No two"
        )
        page.click("text=Show them sorted by suspicion")
        settle(page)
        assert count(page) == likely.sum()
        ranked = find_label_issues(featured, top=None).suspects.positions
        ids = featured.table()["id"].to_pylist()
        assert shown(page) == [str(ids[one]) for one in ranked if likely[one]]
        choose(page, "Label", "suspected")
        assert shown(page) == [str(ids[one]) for one in ranked[:20]]


def test_rows_of_numbers_are_their_own_features(browser, tmp_path):
    run = run_to(tmp_path / "run", "selected", methods=["moso"], seeds=1, **table_with_copies(tmp_path))
    train, test = (run.samples(split) for split in ("train", "test"))
    rows, tests = (one.reader.read(np.arange(len(one))).astype(float) for one in (train, test))
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    rows, tests = (rows - mean) / spread, (tests - mean) / spread
    distance = np.sqrt(((rows[:, None] - rows) ** 2).sum(axis=2))
    np.fill_diagonal(distance, np.inf)
    within = 0.13 * np.median(distance.min(axis=1))
    doubled = (distance <= within).any(axis=1)
    copied = np.sqrt(((tests[:, None] - rows) ** 2).sum(axis=2)) <= within
    assert doubled.sum() >= 10
    assert copied.any()
    with opened(browser, write_report(run), "issues") as page:
        page.wait_for_selector("[data-role=copies]")
        assert page.inner_text("[data-role=duplicates]").startswith(f"{doubled.sum()} samples form")
        assert "labels differ" in page.inner_text("#view-issues")
        assert page.inner_text("[data-role=copies]").startswith(
            f"{copied.any(axis=1).sum()} of {len(tests)} test samples"
        )
        far = [one for one in train.ids.to_pylist() if one in FAR_AWAY]
        assert page.inner_text("[data-role=outliers]").startswith(f"{len(far)} of {len(rows)}")
        page.click("text=Show all of them >> nth=0")
        settle(page)
        assert count(page) == doubled.sum()
        choose(page, "In feature space", "outliers")
        assert set(shown(page)) == {str(one) for one in far}
        assert "take at least two partitions" in page.evaluate("moso.model.about.label_errors.missing")
        page.evaluate("location.hash = 'map'")
        plot(page)
        assert "the inputs, standardised" in page.inner_text("#view-map")


def test_the_served_page_has_the_same_map_and_issues(browser, report, featured):
    coordinates = Elements(report.read_text()).column("map")
    with served(featured) as server, opened(browser, server.address, "map") as page:
        plot(page)
        assert (
            page.evaluate("moso.model.source.numbers('map').then((one) => Array.from(one))")
            == coordinates.ravel().tolist()
        )
        page.evaluate("location.hash = 'issues'")
        page.wait_for_selector("[data-role=duplicates]")
        choose_issue = "moso.model.findIssues().then((one) => Array.from(one.outliers))"
        assert page.evaluate(choose_issue) == neighbourhoods(Features(featured.features())).outlier.astype(int).tolist()


@pytest.mark.parametrize(
    ("made", "stage", "said"),
    [
        (texts, "selected", "moso score RUN --method moderate"),
        (lambda _: {"dataset": "diabetes"}, "selected", "the inputs, standardised"),
        (two_classes, "scored", "the inputs, standardised"),
        (lambda _: {}, "begun", "not scored yet"),
    ],
    ids=["texts", "numbers", "table", "begun"],
)
def test_a_run_of_any_kind_has_a_map_or_says_why_not(browser, tmp_path, made, stage, said):
    settings = {"methods": ["moso"], "ratios": [0.5], "seeds": 1, **made(tmp_path)}
    run = run_to(tmp_path / "run", stage, **settings)
    with opened(browser, write_report(run), "map") as page:
        until(page, f"document.querySelector('#view-map').innerText.includes({said!r})")
        page.evaluate("location.hash = 'issues'")
        until(page, "document.querySelector('#view-issues').innerText.length > 40")
        if made is not texts and stage != "begun" and not run.task.by_class:
            assert "no classes" in page.inner_text("#view-issues")


def test_suspects_write_the_page_again(featured, tmp_path):
    root = shutil.copytree(featured.directory.root, tmp_path / "run")
    (root / "report.html").write_text("before")
    app(["suspects", str(root), "--top", "5", "--quiet"], standalone_mode=False)
    found = Elements((root / "report.html").read_text())
    expected = find_label_issues(featured, top=5).suspects.positions
    assert np.flatnonzero(found.column("suspected")).tolist() == sorted(expected.tolist())


def test_a_page_of_one_class_has_all_views(browser, tmp_path):
    rows = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    settings = {"model": "mlp-w8", "recipe": "quick", "time_steps": 2, "partitions": 1}
    pruned = moso.prune(
        (rows, rows.sum(axis=1)),
        task="regression",
        labels=np.zeros(40, dtype=int),
        ratio=0.5,
        out=tmp_path / "run",
        **settings,
    )
    assert pruned.run.task.classes == ("0",)
    with opened(browser, write_report(pruned.run)) as page:
        for view in ("samples", "map", "issues", "classes", "methods", "training", "overview"):
            page.evaluate(f"location.hash = '{view}'")
            until(page, f"document.querySelector('#view-{view}').innerText.length > 30")
        assert "single class" in page.evaluate("moso.model.about.label_errors.missing")
        assert "data in memory" in page.evaluate("moso.model.about.features.missing")
