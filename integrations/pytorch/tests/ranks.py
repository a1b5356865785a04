"""Ranks of one process, and the store in which they meet."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from atp.collective import AllReduce, Options

Outcome = TypeVar("Outcome")
LIMIT_S = 60.0


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


def run(
    ranks: int,
    each: Callable[[AllReduce], Outcome],
    options_of: Callable[[int], Options] = lambda rank: options(),
) -> list[Outcome | BaseException]:
    """What ``each`` returned or raised at each rank."""
    store = MemoryStore()
    outcomes: list[Any] = [TimeoutError("no outcome")] * ranks

    def one(rank: int) -> None:
        try:
            with AllReduce(store, rank, ranks, options_of(rank)) as collective:
                outcomes[rank] = each(collective)
        except BaseException as error:
            outcomes[rank] = error

    threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    return outcomes
