"""Parameters that no recorded optimiser moves, and whether they really stay the same."""

from collections.abc import Collection
from dataclasses import dataclass, field

from torch import nn

from moso.evidence.network_names import uncompiled_name
from moso.evidence.trajectory import fingerprint


@dataclass
class Unmoved:
    """Remembers the parameters that are in no recorded optimiser, by fingerprint, from when they were first seen.

    Trainable parameters are watched, because another optimiser may move them; with `frozen` all others as well.

    Example:
        >>> network = nn.Linear(2, 1)
        >>> unmoved = Unmoved()
        >>> unmoved.look(network, moved=[id(network.weight)])
        ({'bias': ...}, [])
        >>> _ = nn.init.constant_(network.bias, 7)
        >>> unmoved.look(network, moved=[id(network.weight)])
        ({}, ['bias'])
    """

    frozen: bool = False
    fingerprints: dict[str, str] = field(default_factory=dict)

    def look(self, network: nn.Module, moved: Collection[int]) -> tuple[dict[str, str], list[str]]:
        """Compare the parameters that recorded optimisers do not move with their first fingerprints.

        Args:
            network: The network.
            moved: `id` of every parameter that recorded optimisers move.

        Returns:
            The unchanged parameters with their fingerprints, and the names of the trainable ones that changed.
        """
        same, changed = {}, []
        for full_name, parameter in network.named_parameters():
            name = uncompiled_name(full_name)
            if id(parameter) in moved or not (self.frozen or parameter.requires_grad):
                continue
            now = fingerprint(parameter)
            if self.fingerprints.setdefault(name, now) == now:
                same[name] = now
            elif parameter.requires_grad:
                changed.append(name)
        return same, changed
