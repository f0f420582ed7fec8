"""What a dry run of experiments says: each network is priced on the inputs that it meets."""

import pytest

from moso.experiments.execution import Asked, wanted
from moso.experiments.prices import Calibration, estimate
from moso.experiments.registry import find_experiment

HEAD, NETWORK = ("linear", (256,), 100, "cpu"), ("moso.experiments.networks:seresnet8", (3, 32, 32), 100, "cpu")


def test_a_head_on_features_is_priced_on_features_and_the_retrained_network_on_images():
    experiment = find_experiment("generalization-senet")
    calibration = Calibration({NETWORK: 1e-3})
    costs = estimate(wanted(experiment, Asked(preset="features", seeds=1)), calibration)
    assert set(calibration.known) == {HEAD, NETWORK}
    for cost in costs:
        each = calibration.known[NETWORK if cost.what == "retraining" else HEAD]
        assert cost.seconds == pytest.approx(cost.samples * each)
