"""The identities that a time step is checked by, and the random loss weights that make a wrong sample visible in a sum.

Every sample's loss is multiplied by a random power of two, and the closed form divides by it again where it attributes
a gradient to that sample. If a gradient is attributed to the wrong sample, the factors do not cancel, and the sum of
all gradients differs from autograd's (`trust.py`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

# Whether time steps check their identities; off only to measure the cost of the checks.
identities_hold: ContextVar[bool] = ContextVar("identities_hold", default=True)


@contextmanager
def without_identities() -> Iterator[None]:
    """Skip the identity checks of time steps (context manager); only for measuring the cost of the checks."""
    token = identities_hold.set(False)
    try:
        yield
    finally:
        identities_hold.reset(token)


def loss_weights(count: int, seed: int, like: torch.Tensor) -> torch.Tensor:
    """Draw loss weights ``[count]``: powers of two (no rounding), either sign, all sixteen per sixteen samples."""
    if not identities_hold.get():
        return torch.ones(count).to(like)
    values = torch.tensor([sign * 2.0**power for power in range(-4, 4) for sign in (-1, 1)], dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    blocks = [values[torch.randperm(len(values), generator=generator)] for _ in range(-(-count // len(values)))]
    return torch.cat(blocks)[:count].to(like)
