"""The randomized Hadamard transform: a rotation that spreads each value over a block.

Signs are drawn from a seed that all ranks share, so sums of rotated values are rotated sums.
OptiReduce (NSDI 2025) uses it for the same purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from atp.collective.values import Array

BLOCK_MAX = 1 << 14


def blocks(elements: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each block: powers of two, so that nothing is filled up."""
    at = 0
    while at < elements:
        size = min(BLOCK_MAX, 1 << ((elements - at).bit_length() - 1))
        yield at, at + size
        at += size


def rotate(values: Array, seed: int) -> Array:
    """The rotated values."""
    return _transformed(values * _signs(len(values), seed, values.dtype))


def rotate_back(values: Array, seed: int) -> Array:
    """The inverse of ``rotate`` with the same seed."""
    return _transformed(values) * _signs(len(values), seed, values.dtype)


def _signs(elements: int, seed: int, kind: np.dtype[Any]) -> Array:
    bits = np.random.default_rng(seed).integers(0, 2, elements, np.int8)
    return (1 - 2 * bits).astype(kind)


def _transformed(values: Array) -> Array:
    """The Walsh-Hadamard transform of each block, which is its own inverse."""
    out = np.empty_like(values)
    # Blocks of one size are transformed together.
    whole = len(values) // BLOCK_MAX * BLOCK_MAX
    out[:whole] = _walsh(values[:whole].reshape(-1, BLOCK_MAX)).reshape(-1)
    for begin, end in blocks(len(values) - whole):
        part = values[whole + begin : whole + end]
        out[whole + begin : whole + end] = _walsh(part.reshape(1, -1))[0]
    return out


def _walsh(rows: Array) -> Array:
    count, size = rows.shape
    half = 1
    while half < size:
        pairs = rows.reshape(count, size // (2 * half), 2, half)
        rows = np.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), axis=2)
        rows = rows.reshape(count, size)
        half *= 2
    scaled: Array = rows * rows.dtype.type(size**-0.5)
    return scaled
