"""Detection quality: against every pair of samples, and against every order that ties allow."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from moso.evaluation.detection import auroc, detection, precision_at
from refusals import refusal

samples = st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans()), min_size=2, max_size=40)


@settings(deadline=None, max_examples=50)
@given(samples)
def test_auroc_is_the_share_of_pairs_in_order_and_ties_count_half(rows):
    suspicion, wrong = (np.array(column) for column in zip(*rows, strict=True))
    assume(0 < wrong.sum() < len(wrong))
    pairs = list(product(suspicion[wrong], suspicion[~wrong]))
    expected = np.mean([(high > low) + (high == low) / 2 for high, low in pairs])
    assert auroc(suspicion, wrong) == pytest.approx(expected)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_suspicion_that_is_no_number_is_refused(bad):
    with refusal("values-not-finite", 1):
        auroc(np.array([0.1, bad, 0.3]), np.array([True, False, False]))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.booleans()), min_size=2, max_size=6), st.integers(1, 6))
def test_precision_is_the_mean_over_all_orders_of_ties(rows, count):
    suspicion, wrong = (np.array(column) for column in zip(*rows, strict=True))
    assume(0 < wrong.sum() < len(wrong) and count <= len(wrong))
    orders = [order for order in permutations(range(len(wrong))) if (np.diff(suspicion[list(order)]) <= 0).all()]
    expected = np.mean([wrong[list(order[:count])].mean() for order in orders])
    assert precision_at(suspicion, wrong, count) == pytest.approx(expected)


def test_a_detectors_own_findings_have_precision_and_recall():
    wrong = np.array([True, True, True, False, False])
    flagged = np.array([True, False, True, True, False])
    found = detection("mine", flagged.astype(float), wrong, flagged)
    assert (found.flagged, found.flagged_precision, found.flagged_recall) == (3, pytest.approx(2 / 3), 2 / 3)


@pytest.mark.parametrize("wrong", [np.zeros(3, dtype=bool), np.ones(3, dtype=bool)])
def test_where_all_are_alike_there_is_nothing_to_detect(wrong):
    for measure in (auroc, precision_at):
        with refusal("nothing-to-measure"):
            measure(np.arange(3.0), wrong)
