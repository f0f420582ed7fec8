"""`moso report` and `moso explore` on the command line."""

import pytest
from report_runs import Elements

from moso.cli.main import main
from moso.report.page.server import Explorer


def leaves(*arguments: object) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(one) for one in arguments])
    return int(left.value.code or 0)


def test_report_writes_one_file_and_says_where(finished, capsys):
    root = finished.directory.root
    assert leaves("report", root, "--max-mb", 5) == 0
    assert capsys.readouterr().out.strip() == str(root / "report.html")
    assert Elements((root / "report.html").read_text()).about["samples"] == 1438


def test_explore_says_the_address_and_ends_with_ctrl_c(finished, capsys, monkeypatch):
    asked = []

    def interrupted(server: Explorer) -> None:
        asked.append(server.address)
        raise KeyboardInterrupt

    monkeypatch.setattr(Explorer, "serve_forever", interrupted)
    assert leaves("explore", finished.directory.root, "--port", 0) == 0
    said = capsys.readouterr()
    assert said.out.split() == asked
    assert asked[0].startswith("http://127.0.0.1:")
    assert leaves("explore", finished.directory.root, "--port", 0, "--host", "0.0.0.0", "--quiet") == 0
    assert len(asked[1].split("/")[3]) >= 32


@pytest.mark.parametrize("verb", ["report", "explore"])
def test_what_is_no_run_is_one_sentence(verb, tmp_path, capsys):
    assert leaves(verb, tmp_path) == 2
    assert capsys.readouterr().err == f"moso: error: {tmp_path} is not a run directory: it has no run.toml\n"


def test_an_address_that_is_not_this_machines_is_one_sentence(finished, capsys):
    assert leaves("explore", finished.directory.root, "--host", "203.0.113.7", "--port", 0) == 2
    error = capsys.readouterr().err
    assert error.startswith("moso: error: cannot listen on 203.0.113.7 port 0")
    assert error.count("\n") == 1
