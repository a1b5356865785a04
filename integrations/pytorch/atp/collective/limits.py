"""Numbers that the elements of messages can't hold: which one it is, and the sentence about it."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from atp.collective import values
from atp.collective.layout import Region
from atp.collective.values import Array

NAME_MAX = 200
"""Characters of a parameter's name in a sentence."""
_LARGEST = {
    "float64": 1.7976931348623157e308,
    "float32": 3.4028234663852886e38,
    "float16": 65_504.0,
    "bfloat16": 3.3895313892515355e38,
}
_WIDER = {
    "float16": "set wire='bfloat16' or wire='float32'",
    "bfloat16": "set wire='float32'",
    "float32": "set wire='float64'",
}


class TooLarge(Exception):
    """An element that becomes infinite in messages."""

    def __init__(self, value: float, element: int):
        super().__init__(value, element)
        self.value, self.element = value, element


def first_unfit(flat: Array, wire: str) -> tuple[float, int] | None:
    """An element that isn't finite in messages, and its place: the first one that is NaN or
    infinite, or else the largest."""
    if values.are_finite(flat, wire):
        return None
    at = int(np.argmin(np.isfinite(flat)))  # 0 if all are.
    if np.isfinite(flat[at]):
        at = int(np.argmax(np.abs(flat)))
    return float(flat[at]), at


def require_fit(flat: Array, wire: str) -> None:
    """Raises ``TooLarge``."""
    if (unfit := first_unfit(flat, wire)) is not None:
        raise TooLarge(*unfit)


def parameter_at(regions: Iterable[Region], element: int) -> str:
    """The name of the region that has an element; empty if it has none."""
    for region in regions:
        if element < region.elements:
            return str(region.name)[:NAME_MAX]
        element -= region.elements
    return ""


def in_messages(what: str, value: float, parameter: str, wire: str) -> str:
    """The sentence about ``what``, the values of a step: they are no numbers, or too large."""
    of = f" (parameter {parameter})" if parameter else ""
    if not math.isfinite(value):
        return (
            f"{what} has NaN or infinite values{of}: lower the learning rate, or set "
            "nonfinite='propagate' for a gradient scaler"
        )
    return (
        f"{what} has the value {value:g}{of}, and messages of {wire} hold {_LARGEST[wire]:g} at "
        f"most: {_remedy(wire)}"
    )


def in_result(what: str, kind: str) -> str:
    """The sentence about finite values whose sum isn't. ``kind``: the type of the result."""
    return (
        f"{what} is too large for {kind}, which holds {_LARGEST[kind]:g} at most, although each "
        "rank's values are finite: scale the loss down, or lower the learning rate"
    )


def _remedy(wire: str) -> str:
    scale = "scale the loss down"
    return f"{_WIDER[wire]}, or {scale}" if wire in _WIDER else scale
