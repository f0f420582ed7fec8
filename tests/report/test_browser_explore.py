"""`moso explore` in a real browser: the same page over HTTP, and the same over many more samples."""

import numpy as np
from browsing import choose, count, opened, set_ratio, settle, shown, until
from report_runs import run_to
from test_server import served

from moso import select


def test_the_served_page_is_the_page_in_the_file(browser, finished):
    ids, score = finished.table()["id"].to_numpy(), finished.scores()["moso-rank"]
    with served(finished) as server, opened(browser, server.address, "samples") as page:
        choose(page, "Sorted by", "moso-rank")
        assert shown(page) == [str(one) for one in ids[np.argsort(-score, kind="stable")]]
        until(page, "document.querySelector('.cell img')?.naturalWidth === 8")
        page.click(".cell >> nth=2")
        page.wait_for_selector(".detail svg")
        kept = page.evaluate("moso.keep('moso-rank', 'proportional', 0.3)")
        labels = finished.table()["label"].to_numpy()
        assert kept == select(score, ratio=0.3, selector="proportional", labels=labels, ids=ids).tolist()
        for view in ("classes", "methods", "training", "overview"):
            page.evaluate(f"location.hash = '{view}'")
            settle(page)
        set_ratio(page, 25)
        assert "1,079" in page.inner_text(".figures")


def test_with_a_token_everything_is_found_below_it(browser, finished):
    with served(finished, "0.0.0.0") as server:
        address = f"http://127.0.0.1:{server.port}/{server.token}/"
        with opened(browser, address, "samples") as page:
            assert count(page) == 1438
            until(page, "document.querySelector('.cell img')?.naturalWidth === 8")


def test_neighbours_and_dynamics_are_shown_where_they_were_recorded(browser, tmp_path):
    run = run_to(tmp_path / "run", "selected", methods=["moderate", "forgetting", "moso"], seeds=1, ratios=[0.5])
    features = run.features()
    with served(run) as server, opened(browser, server.address, "samples") as page:
        page.click(".cell >> nth=0")
        page.wait_for_selector(".neighbours button")
        position = page.evaluate("moso.model.opened")
        kept = np.array(page.evaluate("Array.from(moso.model.kept)"), dtype=bool)
        distances = np.square(features - features[position]).sum(axis=1)
        distances[position] = np.inf
        nearest = [one for one in np.argsort(distances, kind="stable") if kept[one]][:6]
        ids = run.table()["id"].to_pylist()
        titles = [one.get_attribute("title") for one in page.query_selector_all(".neighbours button")]
        assert titles == [f"sample {ids[one]}" for one in nearest]
        right = page.locator(".strip .right").count()
        assert right == int(np.asarray(run.dynamics().column("correct"))[:, position].sum())
