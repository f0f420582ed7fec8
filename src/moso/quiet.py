"""Keeping what other packages say to their own developers away from the user of moso.

A package that imports a module which a third package has deprecated tells whoever runs it, and that person can do
nothing about it. The filters here hold for one import or one call; warnings of moso's user's own code, which run
outside of them, are shown as ever.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.autograd import forward_ad


@contextmanager
def quiet_notices() -> Iterator[None]:
    """Hide deprecations and advice while code of other packages runs; errors and moso's own notices pass.

    Enter it around an import or a call that runs none of the user's code.

    Example:
        >>> with warnings.catch_warnings(record=True) as seen:
        ...     with quiet_notices():
        ...         warnings.warn("this name will go", DeprecationWarning)
        >>> seen
        []
    """
    with warnings.catch_warnings():
        for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning, UserWarning):
            warnings.simplefilter("ignore", category)
        yield


def prepare_forward_mode() -> None:
    """Use PyTorch's forward mode once, which says at its first use that PyTorch has deprecated a part of PyTorch.

    Example:
        >>> prepare_forward_mode()
    """
    with quiet_notices(), forward_ad.dual_level():
        forward_ad.make_dual(torch.ones(1), torch.ones(1))  # type: ignore[no-untyped-call]
