"""One rank of a measured training: ``python train.py JSON``. `cargo xtask bench training` starts it
in a host of its own. It prints a JSON line for each evaluation, and one for its end.

Only training time counts. While rank 0 evaluates, all ranks wait at the store.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import atp.torch

TRAINING_SAMPLES = 1_437
PIXELS = 8
CONV_PIXELS = 16
BATCH = 64
"""Samples of a step, over all ranks."""
LEARNING_RATES = {"mlp": 0.02, "conv": 0.01}
"""At twice the rate the accuracy of the convolutional network goes up and down, with gloo too."""
MOMENTUM = 0.9
TIMEOUT = timedelta(seconds=60)
"""A rank that waits for another one longer gives up."""
BUCKET_BYTES = 4 << 20
"""All gradients are one bucket. With several, PowerSGD over gloo breaks: it begins exchanges in
callbacks, whose order differs between ranks."""
POWER_SGD_FROM_STEP = 2
"""The earliest that PyTorch allows. The default, 1,000 steps, is longer than these trainings."""


class Data:
    """The digits of scikit-learn, split by a seed."""

    def __init__(self, model: str, seed: int):
        digits = load_digits()
        inputs = torch.tensor(digits.data, dtype=torch.float32)
        inputs = (inputs - inputs.mean()) / inputs.std()
        if model == "conv":
            size = (CONV_PIXELS, CONV_PIXELS)
            inputs = inputs.view(-1, 1, PIXELS, PIXELS)
            inputs = torch.nn.functional.interpolate(inputs, size, mode="bilinear")
        order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(seed))
        self.inputs, self.labels = inputs[order], torch.tensor(digits.target)[order]

    def batches(self, rank: int, ranks: int, seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Batches of a rank's share, in a new order in each epoch."""
        share = torch.arange(rank, TRAINING_SAMPLES, ranks)
        random = torch.Generator().manual_seed(1_000 * seed + rank)
        while True:
            order = share[torch.randperm(len(share), generator=random)]
            for batch in order.split(BATCH // ranks):
                if len(batch) == BATCH // ranks:
                    yield self.inputs[batch], self.labels[batch]

    @torch.no_grad()
    def accuracy(self, model: torch.nn.Module) -> float:
        guesses = model(self.inputs[TRAINING_SAMPLES:]).argmax(1)
        return float((guesses == self.labels[TRAINING_SAMPLES:]).float().mean())


def new_model(name: str, seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    if name == "mlp":
        model = torch.nn.Sequential(
            torch.nn.Linear(PIXELS * PIXELS, 256),
            torch.nn.ReLU(),
            torch.nn.Linear(256, 256),
            torch.nn.ReLU(),
            torch.nn.Linear(256, 10),
        )
    else:
        model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 16, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(16, 32, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(32 * (CONV_PIXELS // 4) ** 2, 560),
            torch.nn.ReLU(),
            torch.nn.Linear(560, 10),
        )
    # With a larger last layer, some seeds of the convolutional network stay below 95 % with gloo.
    scaled = list(model) if name == "mlp" else list(model)[:-1]
    for module in scaled:
        if hasattr(module, "weight"):
            torch.nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    return model


def atp_options(told: dict[str, Any], control_socket: str) -> atp.torch.Options:
    options = dict(told)
    msr = options.pop("msr", None)
    groups = atp.torch.Magnitude() if msr is None else atp.torch.Uniform(msr)
    return atp.torch.Options(groups=groups, control_socket=control_socket, **options)


@contextlib.contextmanager
def hooked(ddp: DistributedDataParallel, told: dict[str, Any]) -> Iterator[dict[str, float]]:
    """Registers the scheme's hook. Its counters are there when the training has ended."""
    counters: dict[str, float] = {}
    hook = told["hook"]
    if hook == "atp":
        options = atp_options(told["options"], told["control_socket"])
        with atp.torch.State(ddp.module, options) as state:
            ddp.register_comm_hook(state, atp.torch.allreduce_hook)
            yield counters
        counters.update(vars(state.stats))
        return
    if hook == "noop":
        ddp.register_comm_hook(None, debugging_hooks.noop_hook)
    elif hook == "fp16":
        ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif hook == "power-sgd":
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=1, start_powerSGD_iter=POWER_SGD_FROM_STEP
        )
        ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    yield counters


def sent_bytes(device: str) -> int:
    """Bytes that an interface of this host has sent."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == device:
            return int(numbers.split()[8])
    raise ValueError(f"this host has no interface {device}")


class Barrier:
    """The barrier of all ranks: a socket of this machine, apart from the network.

    Requests to PyTorch's store are held up by up to 0.2 s: Nagle's algorithm waits for an ACK.
    """

    def __init__(self, rank: int, ranks: int, path: str):
        self._is_first = rank == 0
        if self._is_first:
            with Listener(path, "AF_UNIX", backlog=ranks) as listener:
                dist.barrier()
                self._others = [listener.accept() for _ in range(1, ranks)]
        else:
            dist.barrier()
            self._others = [Client(path, "AF_UNIX")]

    def word(self, word: str = "") -> str:
        """Waits for all ranks. Every rank returns the word of rank 0."""
        try:
            if self._is_first:
                for other in self._others:
                    self._received(other)
            for other in self._others:
                other.send(word)
            return word if self._is_first else self._received(self._others[0])
        except (EOFError, ConnectionError):
            raise ConnectionError("another rank ended") from None

    def _received(self, other: Connection) -> str:
        if not other.poll(TIMEOUT.total_seconds()):
            raise TimeoutError(f"another rank didn't come within {TIMEOUT.total_seconds():g} s")
        return str(other.recv())


def say(kind: str, told: dict[str, Any]) -> None:
    print(json.dumps({kind: told}), flush=True)


def train(told: dict[str, Any]) -> None:
    rank, ranks, seed = told["rank"], told["ranks"], told["seed"]
    data = Data(told["model"], seed)
    model = new_model(told["model"], seed)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATES[told["model"]], momentum=MOMENTUM)
    barrier = Barrier(rank, ranks, told["barrier"])
    batches = data.batches(rank, ranks, seed)
    windows: list[tuple[int, int]] = []
    step_ns: list[int] = []
    with hooked(ddp, told) as counters:
        barrier.word()
        sent_before = sent_bytes(told["device"])
        while True:
            begun_ns = time.monotonic_ns()
            until = min(len(step_ns) + told["evaluate_every"], told["steps"])
            while len(step_ns) < until:
                step_begun_ns = time.monotonic_ns()
                inputs, labels = next(batches)
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(ddp(inputs), labels).backward()
                optimizer.step()
                step_ns.append(time.monotonic_ns() - step_begun_ns)
            windows.append((begun_ns, time.monotonic_ns()))
            sent = sent_bytes(told["device"]) - sent_before
            seconds = sum(end - begin for begin, end in windows) / 1e9
            ends = until == told["steps"] or seconds >= told["limit_s"]
            if rank == 0:
                evaluation = {"step": until, "seconds": seconds, "accuracy": data.accuracy(model)}
                say("evaluation", evaluation)
            if barrier.word("end" if ends else "go on") == "end":
                break
    say(
        "end",
        {
            "seconds": seconds,
            "windows_ns": windows,
            "step_ns": step_ns,
            "sent_bytes": sent,
            "counters": counters,
        },
    )
    # The store is a part of rank 0.
    barrier.word()


def main(told: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    # PyTorch leaves this to its users, in this form.
    dist._DEFAULT_FIRST_BUCKET_BYTES = BUCKET_BYTES
    os.environ["GLOO_SOCKET_IFNAME"] = told["device"]
    os.environ.update(MASTER_ADDR=told["master"], MASTER_PORT=str(told["port"]))
    try:
        dist.init_process_group(
            "gloo", rank=told["rank"], world_size=told["ranks"], timeout=TIMEOUT
        )
        train(told)
    except Exception as error:
        say("error", {"sentence": f"{type(error).__name__}: {error}".splitlines()[0]})
        # Threads of a broken process group may wait forever.
        sys.stdout.flush()
        os._exit(1)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
