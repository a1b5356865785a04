"""One rank of a small training: ``python training.py RANK RANKS PORT JSON`` prints its outcome."""

from __future__ import annotations

import builtins
import dataclasses
import hashlib
import json
import os
import sys
import threading
import time
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import atp.torch
from atp.torch.tensors import fill

STEPS = 20
STEPS_APART = 5
"""Steps between two outer steps."""
WEIGHTS = ["0.weight", "3.weight", "5.weight"]
"""The names of the parameters that may be lost."""
POLICIES: dict[str, Any] = {
    "magnitude": atp.torch.Magnitude(),
    "by-layer": atp.torch.ByLayer({"0.weight": 0.5}),
    "named": atp.torch.Custom(
        lambda chunks: [WEIGHTS.index(name) for name in chunks.names], (1.0,) * 3
    ),
    "wrong": atp.torch.Custom(lambda chunks: np.zeros(len(chunks) - 1, int), (0.5,)),
}


def model() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(64, 128),
        torch.nn.LayerNorm(128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 10),
    )


def batch(rank: int, step: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(1_000 * step + rank)
    inputs = torch.randn(32, 64, generator=random)
    return inputs.to(dtype), (inputs[:, :10].argmax(1))


def options(case: dict[str, Any]) -> atp.torch.Options:
    told = dict(case.get("options", {}))
    policy = told.pop("groups", 1.0)
    groups = POLICIES[policy] if isinstance(policy, str) else atp.torch.Uniform(policy)
    return atp.torch.Options(control_socket=None, groups=groups, **told)


def train(rank: int, case: dict[str, Any]) -> torch.nn.Module:
    dtype = getattr(torch, case.get("dtype", "float32"))
    own = model().to(dtype)
    if "tensor" in case:
        return reduce_tensors(rank, case)
    if case.get("sparse"):
        return train_sparse(case)
    if case.get("complex"):
        own[0].register_parameter("turn", torch.nn.Parameter(torch.ones(2, dtype=torch.complex64)))
    if "raises" in case:
        return raise_own(rank, case)
    if "groups_of_ranks" in case:
        return reduce_in_groups(rank, case)
    if "ranks_here" in case:
        train_here(own, case["ranks_here"], **case["outer"])
        return own
    if case.get("outer"):
        train_apart(rank, own, case)
        return own
    # Small buckets, so that there are several.
    ddp = DistributedDataParallel(own, bucket_cap_mb=0.03)
    optimizer = torch.optim.SGD(own.parameters(), lr=0.05, momentum=0.9)

    def steps() -> None:
        for step in range(STEPS):
            inputs, labels = batch(rank, step, dtype)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(ddp(inputs).float(), labels)
            if case.get("nan") == [rank, step]:
                loss = loss * float("nan")
            if case.get("large") == [rank, step]:
                loss = loss + 1e5 * own[0].weight[3, 3]
            loss.backward()
            if case.get("dies") == [rank, step]:
                os._exit(7)
            optimizer.step()

    if case["hook"] == "gloo":
        steps()
    else:
        known = {"model": own, "ddp": ddp, "none": None}[case.get("of", "model")]
        with atp.torch.State(known, options(case), **named_store(rank, case)) as state:
            ddp.register_comm_hook(state, atp.torch.allreduce_hook)
            steps()
    return own


def named_store(rank: int, case: dict[str, Any]) -> dict[str, Any]:
    """The store of this case, if it isn't the default."""
    if "store" not in case:
        return {}
    time.sleep(case["late_s"][rank])
    return {"store": dist.FileStore(case["store"]), "name": case["name"]}


def raise_own(rank: int, case: dict[str, Any]) -> torch.nn.Module:
    """Rank 0 fails while the other one waits for it."""
    parameter = torch.nn.Parameter(torch.zeros(10, 1))
    with atp.torch.State(None, options(case)) as state:
        if rank > 0:
            state.all_reduce("tensor", torch.zeros(10), [parameter]).result()
        if case["raises"] == "CollectiveError":
            state.all_reduce("tensor", torch.zeros(10, dtype=torch.int64), [parameter])
        raise getattr(builtins, case["raises"])("own")


def train_sparse(case: dict[str, Any]) -> torch.nn.Module:
    """The sparse gradient comes last in the backward pass."""
    own = torch.nn.Sequential(torch.nn.Embedding(50, 16, sparse=True), torch.nn.Linear(16, 4))
    if "ignored" in case:
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(own, case["ignored"])
    ddp = DistributedDataParallel(own, bucket_cap_mb=0.0001)
    optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
    with atp.torch.State(own if case["known"] else None, options(case)) as state:
        ddp.register_comm_hook(state, atp.torch.allreduce_hook)
        for _ in range(3):
            optimizer.zero_grad()
            try:
                ddp(torch.arange(10)).square().mean().backward()
            except RuntimeError as error:
                if case["known"] and state.stats.bytes_sent:
                    raise TypeError("bytes were sent") from error
                raise
            optimizer.step()
    torch.manual_seed(0)
    return torch.nn.Linear(64, 10)


def reduce_in_groups(rank: int, case: dict[str, Any]) -> torch.nn.Module:
    """Two groups at once: none sees the other's values."""
    members = case["groups_of_ranks"]
    groups = [dist.new_group(of) for of in members]
    at = next(at for at, of in enumerate(members) if rank in of)
    parameter = torch.nn.Parameter(torch.zeros(5_000, 1))
    with atp.torch.State(None, options(case), process_group=groups[at]) as state:
        for step in range(3):
            flat = torch.full((5_000,), 10.0 * at + step)
            fill(flat, state.all_reduce("tensor", flat, [parameter]).result())
            assert (flat == 10.0 * at + step).all(), f"group {at}: {flat[:3]}"
    torch.manual_seed(0)
    return torch.nn.Linear(64, 10)


def reduce_tensors(rank: int, case: dict[str, Any]) -> torch.nn.Module:
    """Reduces a tensor of a type that gloo or the processor's layers don't have."""
    dtype = getattr(torch, case["tensor"])
    parameter = torch.nn.Parameter(torch.zeros(10_000, 1, dtype=dtype))
    steps: set[int] = set()

    def floor(step: int) -> float:
        steps.add(step)
        return 0.0

    counted = dataclasses.replace(options(case), msr_floor=floor)
    with atp.torch.State(None, counted) as state:
        for step in range(3):
            random = torch.Generator().manual_seed(step)
            both = torch.randn(2, 10_000, generator=random).to(dtype)
            flat = both[rank].clone()
            fill(flat, state.all_reduce("tensor", flat, [parameter]).result())
            mean = (both[0].double() + both[1].double()) / 2
            error = (flat.double() - mean).abs().max().item()
            assert error <= case["error"], f"error {error}"
    assert steps == {0, 1, 2}, steps
    return torch.nn.Linear(64, 10, dtype=torch.float32)


def train_apart(rank: int, own: torch.nn.Module, case: dict[str, Any]) -> None:
    optimizer = torch.optim.SGD(own.parameters(), lr=0.05)
    with atp.torch.State(own, options(case)) as state:
        outer = atp.torch.OuterStep(state, own.parameters(), **case["outer"])
        for step in range(STEPS):
            inputs, labels = batch(rank, step, torch.float32)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(own(inputs), labels).backward()
            optimizer.step()
            if case.get("large") == [rank, step]:
                own[0].weight.data[3, 3] = 1e5
            if step % STEPS_APART == STEPS_APART - 1:
                outer.step()


def train_here(own: torch.nn.Module, ranks: int, lr: float, momentum: float = 0.0) -> None:
    """What `train_apart` has to come to: each rank's steps, then one of Nesterov's with the mean of
    how far they have gone."""
    start = [parameter.detach().clone() for parameter in own.parameters()]
    speeds = [torch.zeros_like(part) for part in start]
    for first in range(0, STEPS, STEPS_APART):
        ends = []
        for rank in range(ranks):
            set_parameters(own, start)
            optimizer = torch.optim.SGD(own.parameters(), lr=0.05)
            for step in range(first, first + STEPS_APART):
                inputs, labels = batch(rank, step, torch.float32)
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(own(inputs), labels).backward()
                optimizer.step()
            ends.append([parameter.detach().clone() for parameter in own.parameters()])
        for begun, speed, *parts in zip(start, speeds, *ends, strict=True):
            gone = begun - torch.stack(parts).mean(0)
            speed.mul_(momentum).add_(gone)
            begun.sub_(lr * (gone + momentum * speed))
    set_parameters(own, start)


@torch.no_grad()
def set_parameters(own: torch.nn.Module, values: list[torch.Tensor]) -> None:
    for parameter, value in zip(own.parameters(), values, strict=True):
        parameter.copy_(value)


def main() -> None:
    rank, ranks, port, case = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.manual_seed(0)
    threads = threading.active_count()
    try:
        own = train(rank, case)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
        os._exit(1)
    parameters = [parameter.detach().contiguous() for parameter in own.parameters()]
    own_bytes = [parameter.view(torch.uint8).numpy().tobytes() for parameter in parameters]
    values = torch.cat([parameter.reshape(-1).float() for parameter in parameters])
    inputs, labels = batch(99, 99, next(own.parameters()).dtype)
    loss = torch.nn.functional.cross_entropy(own(inputs).float(), labels).item()
    print(
        json.dumps(
            {
                "digest": hashlib.sha256(b"".join(own_bytes)).hexdigest(),
                "values": values[::97].tolist(),
                "loss": loss,
                "threads": threading.active_count() - threads,
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
