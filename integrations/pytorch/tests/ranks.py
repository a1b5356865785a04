"""Ranks of one process, and the store of their rendezvous."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np

from atp.collective import Collective, Options
from atp.collective.values import Array

Outcome = TypeVar("Outcome")
LIMIT_S = 60.0
STEPS = 3
TYPES = [
    ("float64", None, 1e-15),
    ("float32", None, 1e-6),
    ("float16", None, 1e-3),
    ("float32", "float16", 1e-3),
    ("float32", "bfloat16", 1e-2),
    ("float64", "float32", 1e-6),
]
"""An array's type, that of messages, and the error that rounding may make."""


class MemoryStore:
    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: str, /) -> None:
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def get(self, key: str, /) -> bytes:
        return self._values[key].encode()

    def wait(self, keys: list[str], timeout: timedelta, /) -> None:
        with self._changed:
            there = self._changed.wait_for(
                lambda: all(key in self._values for key in keys), timeout.total_seconds()
            )
        if not there:
            raise RuntimeError("a key is missing")


def options(**changed: Any) -> Options:
    return Options(**{"address": "127.0.0.1", "control_socket": None, **changed})


def arrays(rank: int, seed: int, shape: int | tuple[int, ...], dtype: str) -> list[Array]:
    """A rank's array in each step."""
    random = np.random.default_rng([seed, rank])
    return [random.standard_normal(shape).astype(dtype) for _ in range(STEPS)]


def sums(ranks: int, seed: int, shape: int | tuple[int, ...], dtype: str) -> list[Array]:
    """The sum over all ranks in each step, as numpy has it."""
    steps = zip(*(arrays(rank, seed, shape, dtype) for rank in range(ranks)), strict=True)
    return [np.asarray(np.sum(step, axis=0, dtype=np.float64)) for step in steps]


def successes(outcomes: list[Outcome | BaseException]) -> list[Outcome]:
    """The outcomes of all ranks. Raises the first error."""
    good = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        good.append(outcome)
    return good


def run(
    ranks: int,
    each: Callable[[Collective], Outcome],
    options_of: Callable[[int], Options] = lambda rank: options(),
) -> list[Outcome | BaseException]:
    """What ``each`` returned or raised at each rank."""
    store = MemoryStore()
    outcomes: list[Any] = [TimeoutError("no outcome")] * ranks

    def one(rank: int) -> None:
        try:
            with Collective(store, rank, ranks, options_of(rank)) as collective:
                outcomes[rank] = each(collective)
        except BaseException as error:
            outcomes[rank] = error

    threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    return outcomes
