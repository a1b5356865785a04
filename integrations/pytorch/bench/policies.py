"""The effect of each policy for lost chunks on a training: ``python policies.py``.

It needs the environment of ``cargo xtask bench training``: ``target/torch-bench/bin/python``.

All ranks are in this process, and no network is used. A step delivers just the minimal sampling
rate: the first chunks in the order of sending, as a fast network does, or any, as a lossy one does.
The classes that cut, order and add up chunks are those of the collective.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import atp
from atp.collective import Options, Region, Uniform
from atp.collective.contribution import Contribution, chunk_seed
from atp.collective.inbox import EXACT
from atp.collective.layout import Layout
from atp.collective.messages import unpack
from atp.collective.reduction import Reduction
from atp.collective.shard_mean import ShardMean
from atp.collective.values import Array, item_bytes, wire_type
from train import Data, new_model

WIRE = "float16"
CHUNK_BYTES = 1_400
STEPS, MOMENTUM = 160, 0.9
SEEDS = (1, 2)
POLICIES = ("zero", "mean", "feedback", "hadamard")
ORDERS = ("first", "any")
MSRS = (0.5, 0.25, 0.1)


class Ranks:
    """The all-reduce of all ranks, with losses instead of a network."""

    def __init__(self, regions: list[Region], ranks: int, options: Options, arrives: str, seed: int):
        self.ranks, self._options, self._arrives = ranks, options, arrives
        self._random = np.random.default_rng(seed)
        self._layout = Layout(regions, ranks, CHUNK_BYTES // item_bytes(WIRE))
        self._parts = {
            (rank, owner): Contribution(shard, options, WIRE, rank)
            for owner, shard in enumerate(self._layout.shards)
            for rank in range(ranks)
            if rank != owner
        }
        whole = options.mean_share == 1
        self._means = [ShardMean(shard, WIRE, is_whole=whole) for shard in self._layout.shards]

    def mean(self, step: int, arrays: list[Array]) -> Array:
        result = np.empty_like(arrays[0])
        for owner, shard in enumerate(self._layout.shards):
            seed = chunk_seed(step, owner)
            inside = slice(shard.start, shard.stop)
            reduction = Reduction(shard, self._options, WIRE, self.ranks, seed)
            reduction.begin(arrays[owner][inside])
            for rank, array in enumerate(arrays):
                if rank != owner:
                    part = self._parts[rank, owner]
                    self._add(reduction, part, shard, array[inside], seed, step)
            _, result[inside] = self._means[owner].write(
                reduction.mean(), self._options.share_of_mean(step)
            )
        return result

    def _add(
        self,
        reduction: Reduction,
        part: Contribution,
        shard: Any,
        array: Array,
        seed: int,
        step: int,
    ) -> None:
        messages, groups = [], []
        for batch in part.batches(array, seed):
            total = len(batch.messages)
            msr = 1.0 if batch.group == EXACT else float(self._options.groups.msrs[batch.group - 1])
            order = self._random.permutation(total) if self._arrives == "any" else np.arange(total)
            needed = math.ceil(msr * total)
            messages += [Arrived(batch.messages[at]) for at in order[:needed].tolist()]
            lost = tuple(range(at, at + 1) for at in order[needed:].tolist())
            missing = len(lost)
            groups.append(
                atp.GroupReport(batch.group, total, total - missing, needed, missing, msr, lost)
            )
        rows, arrived = unpack(messages, shard, wire_type(WIRE), 0)
        reduction.add(rows, arrived)
        part.on_report(atp.WindowReport(step, True, tuple(groups)))


class Arrived:
    """A message that has arrived."""

    def __init__(self, data: bytes):
        self.data = memoryview(data)

    def __len__(self) -> int:
        return len(self.data)


def accuracy(options: Options, order: str, ranks: int, learning_rate: float, seed: int) -> float:
    """The accuracy at the end of a training."""
    data, model = Data("mlp", seed), new_model("mlp", seed)
    parameters = list(model.parameters())
    regions = [Region(p.numel(), str(at), p.dim() <= 1) for at, p in enumerate(parameters)]
    optimizer = torch.optim.SGD(parameters, lr=learning_rate, momentum=MOMENTUM)
    collective = Ranks(regions, ranks, options, order, seed)
    batches = [data.batches(rank, ranks, seed) for rank in range(ranks)]
    for step in range(STEPS):
        mean = torch.from_numpy(collective.mean(step, [gradient(model, own) for own in batches]))
        parts = mean.split([p.numel() for p in parameters])
        for p, part in zip(parameters, parts, strict=True):
            p.grad = part.view_as(p)
        optimizer.step()
    return data.accuracy(model)


def gradient(model: torch.nn.Module, batches: Iterator[Any]) -> Array:
    inputs, labels = next(batches)
    model.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()]).numpy().copy()


def main() -> None:
    torch.set_num_threads(1)
    # Where a training diverges, values overflow.
    np.seterr(all="ignore")
    cases = list(itertools.product((2, 4), (0.02, 0.1), POLICIES, ORDERS))
    say("| ranks | rate | `missing` | arrive | " + " | ".join(f"MSR {msr}" for msr in MSRS) + " |")
    say("|---|---|---|---|" + "---|" * len(MSRS))
    for number, (ranks, rate, missing, order) in enumerate(cases, start=1):
        print(f"{number} of {len(cases)}", end="\r", file=sys.stderr, flush=True)
        cells = []
        for msr in MSRS:
            options = Options(groups=Uniform(msr), missing=missing, wire=WIRE, nonfinite="propagate")
            ends = [accuracy(options, order, ranks, rate, seed) for seed in SEEDS]
            cells.append(f"{min(ends):.3f}")
        say(f"| {ranks} | {rate} | `{missing}` | {order} | " + " | ".join(cells) + " |")


def say(line: str) -> None:
    """Prints a line. If it is lost, the program ends as those in Rust do."""
    lost = "error: can't write to standard output"
    if sys.stdout is None:
        sys.exit(f"{lost}: it is closed")
    try:
        print(line, flush=True)
    except OSError as error:
        # Python flushes once more at its end, and would report the error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141 if isinstance(error, BrokenPipeError) else f"{lost}: {error.strerror}")


if __name__ == "__main__":
    main()
