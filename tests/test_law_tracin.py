"""TracIn, computed by other people's code: (N - 1) a_t(z) = influence of z on all of S - its influence on itself."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from moso.data.views import as_view
from moso.evidence import TrajectoryPoint, step_terms


@pytest.mark.filterwarnings("ignore")  # captum warns about its own hooks
def test_a_step_equals_captums_tracin_aggregate_minus_self():
    from captum.influence import TracInCP

    torch.manual_seed(0)
    count = 24
    inputs, labels = torch.randn(count, 1, 6, 6), torch.randint(0, 4, (count,))
    model = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(48, 8), nn.Tanh(), nn.Linear(8, 4)
    )
    model(inputs)  # the running statistics are not those of initialisation
    model.eval()
    point = TrajectoryPoint(1, (0.3,), memory={name: value.clone() for name, value in model.state_dict().items()})

    # Its checkpoint loader gives the rate; one rate for both sides, so that it is no matter here.
    tracin = TracInCP(
        model,
        TensorDataset(inputs, labels),
        ["the only checkpoint"],
        checkpoints_load_func=lambda *_: 1.0,
        loss_fn=nn.CrossEntropyLoss(reduction="none"),
        batch_size=8,
        sample_wise_grads_per_batch=False,
    )
    influence = tracin.influence((inputs, labels)).double().numpy()
    own = tracin.self_influence().double().numpy()

    terms = step_terms(model, point, as_view((inputs.numpy(), labels.numpy())), np.arange(count), batch_size=7)
    a = (count * terms.dot[0] - terms.squared_norm[0]) / (count - 1)
    expected = (influence.sum(axis=1) - own) / (count - 1)
    assert np.abs(a - expected).max() <= 1e-5 * np.abs(expected).max()
