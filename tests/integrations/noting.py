"""Optimisers that note what they do themselves: an oracle inside any framework's loop, without hooks or callbacks."""

import torch
from torch import nn

from tests.evidence.loops import BATCH, DATA, Setting, Update, rates_now, rates_of, state_now


def noting(kind: type[torch.optim.Optimizer]) -> type[torch.optim.Optimizer]:
    """The same optimiser, which appends the rates before and the weights after each of its updates to `updates`."""

    class Noting(kind):  # type: ignore[valid-type, misc]
        def __init__(self, groups, *, network: nn.Module, **options) -> None:
            super().__init__(groups, **options)
            self.network, self.updates = network, []

        def step(self, closure=None):
            rates = rates_now(self.network, self)
            found = super().step(closure)
            self.updates.append(Update(rates, state_now(self.network)))
            return found

    return Noting


def noting_optimizer(setting: Setting, network: nn.Module) -> torch.optim.Optimizer:
    """The optimiser of a setting of `loops.py`, noting."""
    if not setting.groups:
        return noting(torch.optim.SGD)(network.parameters(), network=network, lr=0.2, momentum=0.9)
    groups = [{"params": network.body.parameters(), "lr": 0.05}, {"params": network.head.parameters()}]
    return noting(torch.optim.AdamW)(groups, network=network, lr=0.02)


def check_points(trajectory, updates: list[Update], steps=None, prefix: str = "") -> None:
    """Points are the noted updates to the bit: rates of every parameter, weights and buffers."""
    expected = list(range(1, len(updates) + 1)) if steps is None else list(steps)
    assert [point.step for point in trajectory] == expected
    for point in trajectory:
        update = updates[point.step - 1]
        assert rates_of(point) == {prefix + name: rate for name, rate in update.rates.items()}
        state = point.state()
        assert state.keys() == {prefix + name for name in update.state}
        for name, value in update.state.items():
            assert torch.equal(state[prefix + name], value), name


def loader() -> torch.utils.data.DataLoader:
    return torch.utils.data.DataLoader(DATA, batch_size=BATCH)


def copied_moments(network, optimizer):
    """Both moments of Adam and the number of its updates, by parameter name, copied from the optimiser's state."""
    found = {}
    for name, parameter in network.named_parameters():
        state = optimizer.state.get(parameter)
        if state:
            found[name] = (state["exp_avg"].clone(), state["exp_avg_sq"].clone(), int(state["step"]))
    return found


def check_moments(trajectory, network, after):
    """The stored moments are to the bit those that the optimiser had after the update of the step."""
    assert len(trajectory) > 1
    for point in trajectory:
        moments = point.moments_for(network)
        expected = after[point.step]
        assert moments.rules.keys() == expected.keys()
        assert expected
        for name, (first, second, count) in expected.items():
            assert torch.equal(moments.first[name], first)
            assert torch.equal(moments.second[name], second)
            assert moments.rules[name].count == count == point.step
