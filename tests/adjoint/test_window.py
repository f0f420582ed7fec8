"""The adjoint over the last updates alone: finite differences of runs whose weights change only there."""

import numpy as np
import pytest
from problems import digits, on_the_way_out, recipe, recorded, risk_of, trained_with

from moso import errors
from moso.adjoint import adjoint_sweep
from moso.configuration import Configuration


def only_after(step, weigh):
    """The weights of `weigh` after the first `step` updates, and those of the plain mean before."""
    plain, calls = on_the_way_out(-1, 0.0), iter(range(10_000))
    return lambda positions: (weigh if next(calls) >= step else plain)(positions)


@pytest.mark.parametrize("name", ["tanh", "smooth-norm"])
@pytest.mark.parametrize(("window", "begin"), [(0.5, 6), (0.75, 3), (0.26, 8)])
def test_it_is_the_derivative_of_a_run_whose_weights_change_in_the_window(name, window, begin, tmp_path):
    data, how = digits(16), recipe(epochs=4, batch_size=6, momentum=0.9)
    replay = recorded(name, data, how, tmp_path)
    assert replay.total_steps == 12
    found = adjoint_sweep(replay, window=window).change
    for position in (0, 11):
        up, down = (
            risk_of(
                trained_with(name, data, how, only_after(begin, on_the_way_out(position, share))), data, data.positions
            )
            for share in (1e-5, -1e-5)
        )
        assert found[position] == pytest.approx((up - down) / 2e-5, rel=2e-4, abs=2e-7)


def test_a_window_of_everything_changes_no_bit(tmp_path):
    replay = recorded("tanh", digits(16), recipe(batch_size=5), tmp_path)
    assert (adjoint_sweep(replay, probes=3, window=1.0).scores() == adjoint_sweep(replay, probes=3).scores()).all()
    assert (adjoint_sweep(replay, window=0.5).change != adjoint_sweep(replay).change).all()


def test_a_window_that_ends_inside_a_segment_leaves_nothing_behind(tmp_path):
    data, how = digits(16), recipe(epochs=4, batch_size=4)
    whole = recorded("tanh", data, how, tmp_path / "whole")
    small = recorded("tanh", data, how, tmp_path / "small", memory=1)
    assert (adjoint_sweep(whole, window=0.4).change == adjoint_sweep(small, window=0.4).change).all()
    assert not (tmp_path / "small" / "scratch").exists()


@pytest.mark.parametrize("window", [0.0, 1.5, 0.1])
def test_a_window_outside_of_the_run_or_below_an_epoch_is_refused(window, tmp_path):
    replay = recorded("tanh", digits(16), recipe(epochs=4, batch_size=6), tmp_path)
    with pytest.raises(errors.SettingInvalid) as problem:
        adjoint_sweep(replay, window=window)
    assert problem.value.code == "setting-invalid"


def test_a_run_is_refused_before_it_trains():
    given = {"dataset": "digits", "methods": ["moso-adjoint"], "epochs": 4, "augmentation": "none"}
    assert Configuration.resolve({**given, "window": 0.25}).window == 0.25
    with pytest.raises(errors.MethodImpossible):
        Configuration.resolve({**given, "window": 0.2})
    assert np.isclose(Configuration.resolve(given).window, 1.0)
