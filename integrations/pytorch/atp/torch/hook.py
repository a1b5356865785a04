"""The communication hook of ``DistributedDataParallel``."""

# PyTorch compares the hook's annotations with its classes, so they can't be text: no
# `from __future__ import annotations` here.

from concurrent.futures import Future
from typing import Any

import torch
import torch.distributed as dist

from atp.collective import CollectiveError
from atp.torch.state import State
from atp.torch.tensors import fill


def allreduce_hook(
    state: State,
    bucket: dist.GradBucket,  # type: ignore[name-defined]  # PyTorch's types leave it out.
) -> torch.futures.Future[torch.Tensor]:
    """The mean of a bucket's gradients over all ranks.

    The backward pass goes on while the bucket is in flight. PyTorch makes a ``RuntimeError`` of a
    failure; leaving the state's ``with`` block raises ``CollectiveError`` for it.
    """
    buffer = bucket.buffer()
    devices = [buffer.device] if buffer.is_cuda else None
    reduced: torch.futures.Future[torch.Tensor] = torch.futures.Future(devices=devices)

    def on_done(done: Future[Any]) -> None:
        try:
            reduced.set_result(fill(buffer, done.result()))
        except Exception as error:
            reduced.set_exception(error)  # type: ignore[arg-type]  # Its annotation is wrong.

    name = f"bucket {bucket.index()}"
    try:
        if not state.is_checked:
            state.require_reducible()
            state.is_checked = True
        pending = state.all_reduce(name, buffer, bucket.parameters(), state.step)
    except CollectiveError as error:
        state.refusal = error
        raise
    if bucket.is_last():
        state.step += 1
    pending.add_done_callback(on_done)
    return reduced
