"""Shares as people write them, by one parser for library and command line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moso.errors import MosoError
from moso.selection.budget import kept_count
from moso.selection.share import Keep, asked_ratio, parse_keep, parse_share


@pytest.mark.parametrize("written", [0.4, "0.4", "40%", " 40 % ", "4e-1"])
def test_a_share_is_understood_however_it_is_written(written):
    assert parse_share(written) == 0.4


@pytest.mark.parametrize(("written", "meant"), [(40, "0.4"), (40.0, "0.4"), ("70", "0.7"), (2.5, "0.025")])
def test_a_percentage_without_its_sign_is_asked_about(written, meant):
    with pytest.raises(MosoError) as problem:
        parse_share(written)
    assert problem.value.code == "ratio-out-of-range"
    assert f"did you mean {meant}?" in str(problem.value)


@pytest.mark.parametrize("written", [1, 1.0, -0.1, "100%", "-3%", float("nan"), 400])
def test_what_cannot_be_removed_is_refused(written):
    with pytest.raises(MosoError) as problem:
        parse_share(written)
    assert problem.value.code == "ratio-out-of-range"
    assert "mean" not in str(problem.value)


@pytest.mark.parametrize("written", ["half", "", None, True, [0.4], "4%0"])
def test_what_is_no_number_is_refused(written):
    for parse in (parse_share, parse_keep):
        with pytest.raises(MosoError) as problem:
            parse(written)
        assert problem.value.code == "setting-invalid"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0.6, Keep(share=0.6)), ("60%", Keep(share=0.6)), (3000, Keep(count=3000)), ("3000", Keep(count=3000)),
        (1, Keep(count=1)), (1.0, Keep(share=1.0)), ("100%", Keep(share=1.0)), (3000.0, Keep(count=3000)),
    ],
)  # fmt: skip
def test_what_stays_is_a_share_or_a_number_of_samples(written, meant):
    assert parse_keep(written) == meant


@pytest.mark.parametrize("written", [0, -3, 0.0, 1.5, "150%", float("nan"), float("inf")])
def test_what_cannot_stay_is_refused(written):
    with pytest.raises(MosoError) as problem:
        parse_keep(written)
    assert problem.value.code == "ratio-out-of-range"


@given(st.integers(1, 10**9).flatmap(lambda count: st.tuples(st.just(count), st.integers(1, count))))
def test_a_number_of_samples_is_kept_exactly(case):
    count, kept = case
    assert kept_count(count, Keep(count=kept).ratio(count)) == kept


def test_one_of_the_two_is_asked_for():
    assert asked_ratio("40%", None, 10) == asked_ratio(None, 6, 10) == asked_ratio(None, 0.6, 10) == 0.4
    for ratio, keep, code in (
        (None, None, "setting-missing"),
        (0.4, 0.6, "settings-conflict"),
        (None, 11, "ratio-out-of-range"),
    ):
        with pytest.raises(MosoError) as problem:
            asked_ratio(ratio, keep, 10)
        assert problem.value.code == code
