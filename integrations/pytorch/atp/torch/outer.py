"""Outer steps of low-communication training: LocalSGD and DiLoCo.

Ranks train alone for many steps. Then they exchange how far each one has come.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import torch

from atp.torch import kinds
from atp.torch.state import State
from atp.torch.tensors import fill


class OuterStep:
    """Averages the ranks' progress, and applies it to all.

    ``lr=1`` and ``momentum=0`` is LocalSGD: all ranks continue from the mean of their parameters.
    DiLoCo's authors use ``lr=0.7`` and ``momentum=0.9`` (Douillard et al. 2023).

    Only parameters are averaged: buffers, such as the running statistics of ``BatchNorm``, stay
    each rank's own.
    """

    def __init__(
        self,
        state: State,
        parameters: Iterable[torch.nn.Parameter],
        *,
        lr: float = 1.0,
        momentum: float = 0.0,
    ):
        self._state = state
        self._parameters = list(parameters)
        for parameter in self._parameters:
            kinds.require_dense(parameter, partial(state.described, [parameter]))
        self._start = [torch.nn.Parameter(p.detach().clone()) for p in self._parameters]
        self._optimizer = torch.optim.SGD(
            self._start, lr=lr, momentum=momentum, nesterov=momentum > 0
        )

    @torch.no_grad()
    def step(self) -> None:
        """Exchanges the progress since the last call. Waits for all ranks."""
        gone = [
            (start - own).reshape(-1)
            for start, own in zip(self._start, self._parameters, strict=True)
        ]
        flat = torch.cat(gone)
        pending = self._state.all_reduce("outer step", flat, self._parameters, self._state.step)
        fill(flat, pending.result())
        self._state.step += 1
        parts = torch.split(flat, [part.numel() for part in gone])
        for start, part in zip(self._start, parts, strict=True):
            start.grad = part.view_as(start)
        self._optimizer.step()
        for start, own in zip(self._start, self._parameters, strict=True):
            own.copy_(start)
