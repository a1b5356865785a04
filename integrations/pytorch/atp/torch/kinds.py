"""Gradients that can't be reduced, and the error that says which one it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch

from atp.collective import CollectiveError

WIRES = {
    torch.float64: "float64",
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
}
"""The types that are reduced, and their names in messages."""

_DENSE = "make its Embedding with sparse=False"
_SPARSE_MODULES = (torch.nn.Embedding, torch.nn.EmbeddingBag)
_NAMES_MAX = 3


def require_dense(tensor: torch.Tensor, whose: Callable[[], str]) -> None:
    """Raises ``CollectiveError`` for gradients or parameters whose elements can't be read as
    numbers in a row. ``whose`` names their parameters."""
    if tensor.is_nested:
        raise _refused("nested gradients", whose(), "make its parameter a padded tensor")
    if tensor.layout != torch.strided:
        raise _refused("sparse gradients", whose(), _DENSE)
    _require_type(tensor, whose)
    if tensor.is_meta:
        raise _refused("gradients on the device meta", whose(), "give the model memory first")


def require_reducible(model: torch.nn.Module) -> None:
    """Raises ``CollectiveError`` if a parameter of a model will have a gradient that can't be
    reduced, before there is one. Those that ``DistributedDataParallel`` ignores aren't reduced."""
    ignored = getattr(model, "_ddp_params_and_buffers_to_ignore", ())
    for name, module, parameter in named_parameters(model):
        if name not in ignored:
            require_use_reducible(name, module, parameter)


def require_use_reducible(
    name: str, module: torch.nn.Module | None, parameter: torch.nn.Parameter
) -> None:
    """Raises ``CollectiveError`` if the use of a parameter in a module makes a gradient that can't
    be reduced. ``name``: the parameter's in the model."""
    if not parameter.requires_grad:
        return
    whose = partial("parameter {}".format, name)
    _require_type(parameter, whose)
    if isinstance(module, _SPARSE_MODULES) and module.sparse:
        raise _refused("sparse gradients", whose(), _DENSE)


def _require_type(tensor: torch.Tensor, whose: Callable[[], str]) -> None:
    if tensor.dtype not in WIRES:
        remedy = f"use one of {', '.join(WIRES.values())}"
        raise _refused(f"gradients of {tensor.dtype}", whose(), remedy)


def named_parameters(
    model: torch.nn.Module,
) -> Iterator[tuple[str, torch.nn.Module, torch.nn.Parameter]]:
    """Each use of a parameter in a model: its name there, and the module."""
    for path, module in model.named_modules():
        for own, parameter in module.named_parameters(recurse=False):
            yield (f"{path}.{own}" if path else own), module, parameter


def described(parameters: Sequence[torch.nn.Parameter], names: Sequence[str]) -> str:
    """These parameters in a sentence. A name may be empty: the shape stands for it."""
    told = [
        name or f"of shape {tuple(parameter.shape)}"
        for name, parameter in zip(names, parameters, strict=True)
    ]
    rest = len(told) - _NAMES_MAX
    listed = ", ".join(told[:_NAMES_MAX]) + (f" and {rest} more" if rest > 0 else "")
    return f"parameter{'s' if len(told) > 1 else ''} {listed}"


def _refused(what: str, whose: str, remedy: str) -> CollectiveError:
    return CollectiveError(f"{what} can't be reduced ({whose}): {remedy}")
