"""Tensors as arrays of numpy."""

from __future__ import annotations

from typing import Any

import torch

from atp.collective import CollectiveError
from atp.collective.values import Array

_WIRES = {
    torch.float64: "float64",
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
}


def to_array(tensor: torch.Tensor) -> tuple[Array, str]:
    """The elements, without a copy where that can be, and their type in messages."""
    wire = _WIRES.get(tensor.dtype)
    if wire is None:
        raise CollectiveError(
            f"gradients of {tensor.dtype} can't be reduced: use one of {', '.join(_WIRES.values())}"
        )
    on_host = tensor.detach().cpu()
    # numpy has no bfloat16. Single precision holds its values.
    array: Array = (on_host.float() if wire == "bfloat16" else on_host).numpy()
    return array, wire


def fill(tensor: torch.Tensor, array: Any) -> torch.Tensor:
    """Copies an array's elements into a tensor of the same length."""
    return tensor.copy_(torch.from_numpy(array).view_as(tensor))
