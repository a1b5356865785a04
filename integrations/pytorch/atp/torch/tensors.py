"""Tensors as arrays of numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from atp.collective.values import Array
from atp.torch.kinds import WIRES, require_dense


def to_array(tensor: torch.Tensor, whose: Callable[[], str]) -> tuple[Array, str]:
    """The elements, without a copy where that can be, and their type in messages. ``whose``: of
    which parameters they are, for errors."""
    require_dense(tensor, whose)
    wire = WIRES[tensor.dtype]
    on_host = tensor.detach().cpu()
    # numpy has no bfloat16. Single precision holds its values.
    array: Array = (on_host.float() if wire == "bfloat16" else on_host).numpy()
    return array, wire


def fill(tensor: torch.Tensor, array: Any) -> torch.Tensor:
    """Copies an array's elements into a tensor of the same length."""
    return tensor.copy_(torch.from_numpy(array).view_as(tensor))
