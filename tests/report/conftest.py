"""A finished run that tests of the page share, and a real browser where there is one."""

import pytest
from report_runs import run_to

from moso.cli.main import app
from moso.results import Run


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Run:
    """Digits with label noise, evaluated, two seeds."""
    return run_to(tmp_path_factory.mktemp("report") / "run", "evaluated", label_noise=0.2)


@pytest.fixture(scope="session")
def featured(tmp_path_factory) -> Run:
    """Few digits with label noise and features, selected; `moso suspects` has named twenty of them."""
    settings = {"methods": ["moderate", "moso"], "seeds": 1, "label_noise": 0.2, "epochs": 20}
    root = tmp_path_factory.mktemp("featured") / "run"
    run_to(root, "selected", test_share=0.75, **settings)
    app(["suspects", str(root), "--top", "20", "--quiet"], standalone_mode=False)
    return Run.open(root)
