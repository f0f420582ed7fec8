"""The page over all of CIFAR-100, and the server over a million samples."""

import numpy as np
import pytest
from browsing import choose, count, opened, set_ratio, settle, shown, until
from report_runs import run_to
from test_server import served

from benchmarks.made_up_run import make_run, rows
from moso import select
from moso.report.page.page import write_report


@pytest.mark.long
@pytest.mark.shared_data
def test_all_of_cifar100_in_one_file(browser, shared_data, tmp_path):
    settings = {"methods": ["moso-rank"], "ratios": [0.5], "seeds": 1, "epochs": 1}
    run = run_to(tmp_path / "run", "evaluated", dataset=f"parquet:{shared_data / 'cifar100'}", **settings)
    path = write_report(run)
    assert path.stat().st_size <= 25_000_000
    score, labels = run.scores()["moso-rank"], run.table()["label"].to_numpy()
    with opened(browser, path, "samples") as page:
        assert count(page) == 50_000
        choose(page, "First", "low")
        assert shown(page)[:500] == [str(one) for one in np.argsort(-score, kind="stable")[::-1][:500]]
        until(page, "document.querySelector('.cell canvas')?.width === 32")
        for selector in ("top", "bottom", "balanced", "proportional", "median"):
            for ratio in (0.1, 0.5, 0.93):
                kept = page.evaluate(f"moso.keep('moso-rank', '{selector}', {ratio})")
                assert kept == select(score, ratio=ratio, selector=selector, labels=labels).tolist()
        choose(page, "Class", "42")
        assert count(page) == 500
        page.click(".cell >> nth=7")
        page.wait_for_selector(".detail svg")
        for view in ("classes", "methods", "training", "overview"):
            page.evaluate(f"location.hash = '{view}'")
            settle(page)
        set_ratio(page, 25)
        assert "37,500" in page.inner_text(".figures")


@pytest.mark.long
def test_a_million_samples_are_served(browser, tmp_path):
    run = make_run(tmp_path / "run", rows(tmp_path / "data" / "train.parquet", 1_000_000))
    score, labels = run.scores()["moso-rank"], run.table()["label"].to_numpy()
    with served(run) as server, opened(browser, server.address, "samples") as page:
        assert page.inner_text(".toolbar .count") == "1,000,000 samples"
        choose(page, "Sorted by", "moso-rank")
        order = np.argsort(-score, kind="stable")
        assert page.evaluate("Array.from(moso.model.shown.subarray(0, 1000))") == order[:1000].tolist()
        kept = np.array(page.evaluate("moso.keep('moso-rank', 'balanced', 0.37)"))
        assert (kept == select(score, ratio=0.37, selector="balanced", labels=labels)).all()
        page.focus(".cell >> nth=0")
        page.keyboard.press("End")
        settle(page)
        assert page.evaluate("Number(document.activeElement.dataset.position)") == order[-1]
        page.keyboard.press("Enter")
        page.wait_for_selector(".detail svg")
        assert page.inner_text(".detail h2") == f"Sample {order[-1]}"
        page.keyboard.press("Escape")
        page.evaluate("document.querySelector('.grid').scrollTop = 4_000_000")
        near = "Math.abs(Number(one.dataset.place) - 500_000) < 2_000"
        until(page, f"[...document.querySelectorAll('.cell')].every((one) => {near})")
        for view in ("classes", "methods", "training", "overview"):
            page.evaluate(f"location.hash = '{view}'")
            until(page, f"document.querySelector('#view-{view}').innerText.length > 100")
