"""Addressed randomness: every draw is a function of its address, never of the draws before it.

An address is (seed, purpose, ...), for example ``(0, "order", epoch)`` plus the key of the sample. The same address
gives the same number in every process and in any order of requests; resuming, workers, other machines and replay rely
on that. Nothing in this package draws from a global generator.
"""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray

from moso.columns import blocks, empty_column

Address = int | str

# Hashes per sorted slice, and the limit on the number of slices: every slice costs another pass over the keys.
SLICE, MOST_SLICES = 2**20, 64
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


def key(*address: Address) -> int:
    """Return the 64-bit key of an address.

    Example:
        >>> key(0, "order", 3) == key(0, "order", 3), key(0, "order", 3) == key(0, "order", 4)
        (True, False)
        >>> key(1, "2") == key("1", 2)
        False
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in address:
        text = repr(part).encode()
        digest.update(len(text).to_bytes(8, "little"))
        digest.update(text)
    return int.from_bytes(digest.digest(), "little")


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    # The finaliser of splitmix64: a bijection whose output bits all depend on all input bits.
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * _MIX1
        values = (values ^ (values >> np.uint64(27))) * _MIX2
        return values ^ (values >> np.uint64(31))


def hashes(sample_keys: NDArray[np.uint64], *address: Address) -> NDArray[np.uint64]:
    """Return one 64-bit hash per sample at this address, shape ``[n]``.

    Args:
        sample_keys: The key of each sample, shape ``[n]``.
        address: Seed, purpose and further parts.

    Example:
        >>> keys = np.arange(4, dtype=np.uint64)
        >>> bool((hashes(keys, 0, "order")[2:] == hashes(keys[2:], 0, "order")).all())
        True
    """
    found, own = empty_column(len(sample_keys), np.uint64), np.uint64(key(*address))
    for block in blocks(len(sample_keys)):
        with np.errstate(over="ignore"):
            found[block] = _mix(_mix(sample_keys[block] + _GOLDEN) + own)
    return found


def hash_order(sample_keys: NDArray[np.uint64], *address: Address) -> NDArray[np.int64]:
    """Return the positions of samples, ``[n]``, sorted by their hashes at this address.

    Many samples are sorted in slices of the range of hashes; each slice is a new pass over the keys, so memory stays
    bounded.

    Example:
        >>> keys = np.arange(9, dtype=np.uint64)
        >>> bool((hash_order(keys, 0, "order") == np.argsort(hashes(keys, 0, "order"), kind="stable")).all())
        True
    """
    count = len(sample_keys)
    slices = min(MOST_SLICES, -(-count // SLICE))
    if slices <= 1:
        return np.argsort(hashes(sample_keys, *address), kind="stable")
    found, filled = empty_column(count, np.int64), 0
    for number in range(slices):
        values, positions = [], []
        for block in blocks(count):
            own = hashes(sample_keys[block], *address)
            # The slice of a hash in equal parts of the range: its upper 32 bits times the number of slices, over 2**32.
            inside = np.flatnonzero(((own >> np.uint64(32)) * np.uint64(slices)) >> np.uint64(32) == number)
            values.append(own[inside])
            positions.append(inside + block.start)
        order = np.argsort(np.concatenate(values), kind="stable")
        found[filled : filled + len(order)] = np.concatenate(positions)[order]
        filled += len(order)
    return found


def uniforms(sample_keys: NDArray[np.uint64], *address: Address) -> NDArray[np.float64]:
    """Return one uniform number in ``[0, 1)`` per sample at this address, shape ``[n]``.

    Example:
        >>> draws = uniforms(np.arange(1000, dtype=np.uint64), 0, "flip")
        >>> bool(0.45 < draws.mean() < 0.55)
        True
    """
    return (hashes(sample_keys, *address) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def generator(*address: Address) -> np.random.Generator:
    """Return a NumPy generator for draws that belong together (the sampled steps, a subset, an initialisation).

    Example:
        >>> int(generator(0, "steps").integers(100)) == int(generator(0, "steps").integers(100))
        True
    """
    return np.random.Generator(np.random.Philox(key=key(*address)))


def _cuda_in_use() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def reseed(*address: Address) -> None:
    """Seed the global generators of PyTorch, NumPy and Python with this address; only inside `seeded`."""
    seed = key(*address)
    torch.default_generator.manual_seed(seed % 2**63)
    if _cuda_in_use():
        torch.cuda.manual_seed(seed % 2**63)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    random.seed(seed)


@contextmanager
def seeded(*address: Address) -> Iterator[None]:
    """Seed the global generators of PyTorch, NumPy and Python with this address; restore them on exit.

    For foreign code that draws from global generators: initialisation of a network, dropout, a user's augmentation.

    Example:
        >>> with seeded(0, "init"):
        ...     first = torch.rand(1)
        >>> with seeded(0, "init"):
        ...     bool(first == torch.rand(1))
        True
    """
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    devices = [torch.cuda.current_device()] if _cuda_in_use() else []
    with torch.random.fork_rng(devices):
        reseed(*address)
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)  # noqa: NPY002
