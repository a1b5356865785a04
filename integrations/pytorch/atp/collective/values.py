"""Types of elements: on the wire, and in sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

TYPES = ("float64", "float32", "float16")
"""Types of arrays."""
WIRES = ("float64", "float32", "float16", "bfloat16")
"""Types of elements in messages."""

_ROUNDED_TO_INFINITE = {
    "float64": math.inf,
    "float32": 2.0**128 - 2.0**103,
    "float16": 65_520.0,
    "bfloat16": 2.0**128 - 2.0**119,
}
"""The least number that an element rounds to infinity."""


def item_bytes(wire: str) -> int:
    return {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}[wire]


def accumulator(wire: str) -> np.dtype[Any]:
    """The type of sums: half precisions are summed in single precision, and rounded once."""
    return np.dtype(np.float64 if wire == "float64" else np.float32)


def encode(values: Array, wire: str) -> Array:
    """The elements as they travel. numpy has no bfloat16: its elements are ``uint16``."""
    if wire != "bfloat16":
        with np.errstate(over="ignore"):  # Too large for half precision is infinite.
            return values.astype(np.dtype(wire).newbyteorder("<"), copy=False)
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    halves = (rounded >> np.uint32(16)).astype("<u2")
    # Rounding would carry a NaN into another number.
    halves[np.isnan(values)] = 0x7FC0
    return halves


def are_finite(values: Array, wire: str) -> Array:
    """Whether all values of each row (of the last axis) are finite numbers on the wire."""
    with np.errstate(over="ignore", invalid="ignore"):
        summed = values.astype(accumulator(wire), copy=False)
        finite: Array = np.abs(summed).max(axis=-1, initial=0) < _ROUNDED_TO_INFINITE[wire]
    return finite


def decode(elements: Array, wire: str) -> Array:
    """The elements as numbers of the accumulator's type."""
    if wire != "bfloat16":
        return elements.astype(accumulator(wire), copy=False)
    wide: Array = (elements.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return wide


def wire_type(wire: str) -> np.dtype[Any]:
    """The type of the elements that travel."""
    name = "uint16" if wire == "bfloat16" else wire
    return np.dtype(name).newbyteorder("<")
