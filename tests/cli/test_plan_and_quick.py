"""`--dry-run` says time, memory and disk; `--quick`; shares as people write them; the mix of classes."""

import os
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moso.analysis.resources import check_place, class_notes
from moso.cli.options.configuration_flags import QUICK_VISITS, RunSettings
from moso.cli.options.executor_options import ExecutorOptions
from moso.cli.work import new_job
from moso.configuration import Configuration
from moso.data.dataset import open_dataset
from moso.errors import MosoError
from moso.results.directory import RunDirectory
from refusals import refusal

SMALL = ("--model", "mlp-w32", "--epochs", "2", "--partitions", "3", "--time-steps", "3", "--workers", "1")


def job(out: Path | str | None = None, **settings):
    return new_job(None, None if out is None else str(out), ExecutorOptions(), RunSettings(**settings))


def table(path: Path, sizes: tuple[int, ...], test: tuple[int, ...] = ()) -> str:
    """A table of numbers with classes of these sizes."""
    draw = np.random.default_rng(0)
    for name, own in (("train", sizes), ("test", test)):
        labels = np.repeat(np.arange(len(own)), own)
        columns = {f"x{number}": draw.normal(size=len(labels)).astype(np.float32) for number in range(3)}
        if own:
            path.mkdir(exist_ok=True)
            pq.write_table(pa.table({**columns, "label": labels}), path / f"{name}.parquet")
    return f"parquet:{path}"


def test_memory_and_disk_of_a_dry_run_are_those_of_the_run_within_a_factor(left, tmp_path):
    code, said, _ = left("run", *SMALL, "--quick", "--out", str(tmp_path / "run"), "--dry-run")
    assert code == 0
    assert not (tmp_path / "run").exists()
    memory, disk = (
        float(number) * {"kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]
        for number, unit in re.findall(r"(?:peak memory|disk) ([\d.]+) (kB|MB|GB)", said)
    )
    command = [sys.executable, "-m", "moso", "run", *SMALL, "--quick", "--out", str(tmp_path / "run"), "--quiet"]
    child = os.posix_spawn(sys.executable, command, os.environ)
    _, ended, used = os.wait4(child, 0)
    assert ended == 0
    written = sum(path.stat().st_size for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert 0.5 < disk / written < 2.0
    if sys.platform == "linux":
        # The dry run of this test shares a process with other tests, whose memory it counts too.
        assert 0.6 < memory / (1024 * used.ru_maxrss) < 4.0


def test_a_place_without_room_or_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("here")
    check_place(RunDirectory.at(tmp_path / "new" / "run"), 1000)
    for place, needed in ((tmp_path / "file" / "run", 0), (tmp_path / "run", 10**18)):
        with pytest.raises(MosoError) as refused:
            check_place(RunDirectory.at(place), needed)
        assert refused.value.code == "not-writable"


def test_classes_that_only_one_split_has_are_named(tmp_path):
    same = open_dataset(table(tmp_path / "same", (8, 8, 8), (2, 2, 2)))
    assert class_notes(same) == []
    (untested,) = class_notes(open_dataset(table(tmp_path / "untested", (8, 8, 8), (2, 0, 2))))
    assert "1 class (1) has no test samples" in untested


def test_quick_is_one_choice_one_ratio_one_seed_unless_flags_say_otherwise():
    quick = job(quick=True).configuration
    assert (quick.methods, quick.ratios, quick.seeds, quick.time_steps) == (("auto",), (0.4,), 1, 5)
    assert quick.surrogate.epochs == 20  # small data is trained as the recipe says
    other = job(quick=True, ratios=["60%"], seeds=2, methods=["el2n"]).configuration
    assert (other.methods, other.ratios, other.seeds) == (("el2n",), (0.6,), 2)


def test_quick_trains_large_data_for_few_epochs(monkeypatch):
    monkeypatch.setattr("moso.cli.work.QUICK_VISITS", 1438 * 7)
    assert QUICK_VISITS == 200_000
    quick = job(quick=True).configuration
    assert (quick.surrogate.epochs, quick.retraining.epochs) == (7, 7)
    given = job(quick=True, retrain_epochs=15).configuration
    assert (given.surrogate.epochs, given.retraining.epochs) == (7, 15)


def test_ratio_and_keep_are_read_as_people_write_them():
    assert job(ratios=["40%", "0.5"]).configuration.ratios == (0.4, 0.5)
    with refusal("setting-invalid", 0.4):
        job(ratios=["40%", "0.4"])
    assert job(keep=["60%", "0.25"]).configuration.ratios == (0.4, 0.75)
    (ratio,) = job(keep=["1000"]).configuration.ratios
    assert round(1438 * (1 - ratio)) == 1000
    assert job(ratios=["0.1"], keep=["0.5"]).configuration.ratios == (0.1, 0.5)
    assert Configuration.resolve({"ratios": ["40%"]}).ratios == (0.4,)


@pytest.mark.parametrize("flags", [{"ratios": ["40"]}, {"ratios": ["1"]}, {"keep": ["2000"]}, {"keep": ["0"]}])
def test_a_share_that_is_none_is_refused(flags):
    with pytest.raises(MosoError) as refused:
        job(**flags)
    assert refused.value.code == "ratio-out-of-range"
    if flags.get("ratios") == ["40"]:
        assert "0.4?" in str(refused.value)


def test_uneven_classes_keep_their_mix_unless_asked_otherwise(tmp_path):
    uneven, even = table(tmp_path / "uneven", (20, 60)), table(tmp_path / "even", (40, 60))
    common = {"model": "mlp-w8", "methods": ["moso-rank"]}
    assert job(dataset=even, **common).configuration.pairs()[0] == ("moso-rank", "balanced")
    pairs = job(dataset=uneven, **common).configuration.pairs()
    assert pairs == [("moso-rank", "proportional"), ("random", "random"), ("random", "proportional")]
    asked = job(dataset=uneven, class_mix="equal", **common).configuration
    assert asked.pairs()[0] == ("moso-rank", "balanced")
    named = job(dataset=uneven, selectors=["balanced"], **common).configuration
    assert named.pairs()[0] == ("moso-rank", "balanced")


def test_a_run_from_before_goes_on_with_the_mix_it_began_with(tmp_path):
    uneven = table(tmp_path / "uneven", (20, 60))
    begun = job(tmp_path / "run", dataset=uneven, model="mlp-w8")
    text = begun.configuration.to_toml().replace('class_mix = "as-is"\n', "")
    assert "class_mix" not in text
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.toml").write_text(text)
    assert RunDirectory.at(tmp_path / "run").configuration().class_mix == "equal"
    assert job(tmp_path / "run", dataset=uneven, model="mlp-w8").configuration.class_mix == "equal"
    again = new_job(tmp_path / "run" / "run.toml", None, ExecutorOptions(), RunSettings())
    assert again.configuration.class_mix == "equal"


def test_another_tolerance_is_no_other_run(tmp_path):
    first, second = job(tmp_path / "run"), job(tmp_path / "run", tolerance=2.5)
    assert first.configuration.digest() == second.configuration.digest()
    (tmp_path / "run").mkdir()
    first.directory.settle(first.configuration)
    second.directory.settle(second.configuration)
    assert second.directory.configuration().tolerance == 2.5
