"""The received messages of one channel. The receiving thread fills it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import atp
from atp.collective.errors import CollectiveError

EXACT = 0
"""The group of messages that all arrive, in order."""
CHECK_S = 0.25
"""The interval at which a rank that waits checks whether the others still answer."""
AHEAD_MAX = 8
"""Windows that a rank can be ahead, generously: it needs the others for each step."""

Key = tuple[int, int]
"""A rank and a window."""


@dataclass(frozen=True)
class Budget:
    """What a rank may send in one window."""

    messages: int
    bytes: int


@dataclass
class Window:
    """What a rank has sent in one window."""

    messages: list[atp.Message] = field(default_factory=list)
    bytes: int = 0
    exact_bytes: int = 0
    """The bytes of exact messages."""


class Inbox:
    """Messages by rank and window.

    Any host can send to this one under a rank's job id, and may forge the rank's address. So a
    rank's job is the first run with an exact message that begins with ``hello``, which only ranks
    know. Other runs change nothing, neither their messages nor their ends: a rank sends nothing
    else before its hello has arrived (``Peers.send_hellos``).
    """

    def __init__(self, hello: bytes) -> None:
        self.hello = hello
        self.budget: Budget | None = None
        """Known as soon as this rank reduces the array."""
        self._changed = threading.Condition()
        self._runs: dict[int, int] = {}
        """The run of each rank that has sent a hello, as the receiver numbers runs."""
        self._windows: dict[Key, Window] = {}
        self._ended: set[Key] = set()
        self._left: set[int] = set()
        self._first = 0
        """Earlier windows are over."""
        self._failure: CollectiveError | None = None

    def add(self, rank: int, message: atp.Message) -> bool:
        """Keeps a message of the rank. ``False`` if it is of another run."""
        if len(message) == 0:
            return True  # A keepalive: the library has answered it.
        with self._changed:
            is_exact = message.group == EXACT
            if rank not in self._runs and is_exact and is_hello(message, self.hello):
                self._runs[rank] = message.run
            if self._runs.get(rank) != message.run:
                return False
            if self._is_near(message.window):
                self._keep(rank, message, is_exact)
        return True

    def _keep(self, rank: int, message: atp.Message, is_exact: bool) -> None:
        window = self._windows.setdefault((rank, message.window), Window())
        count, size = len(window.messages) + 1, window.bytes + len(message)
        if self.budget and (count > self.budget.messages or size > self.budget.bytes):
            self.fail(_over_budget(rank))
            return
        window.messages.append(message)
        window.bytes = size
        if is_exact:
            window.exact_bytes += len(message)
            self._changed.notify_all()

    def _is_near(self, window: int) -> bool:
        return self._first <= window < self._first + AHEAD_MAX

    def end_window(self, rank: int, run: int, window: int) -> None:
        with self._changed:
            if self._runs.get(rank) == run and self._is_near(window):
                self._ended.add((rank, window))
                self._changed.notify_all()

    def leave(self, rank: int, run: int) -> None:
        """The job has ended. Without a hello, it may be the job of a stranger."""
        with self._changed:
            if self._runs.get(rank) == run:
                self._left.add(rank)
                self._changed.notify_all()

    def has_left(self, rank: int) -> bool:
        """Whether the rank has ended its job."""
        return rank in self._left

    def fail(self, error: CollectiveError) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    @property
    def failure(self) -> CollectiveError | None:
        """Why the collective has failed, if it has."""
        return self._failure

    def take_window(
        self, rank: int, window: int, deadline: float, what: str, raise_if_lost: Callable[[], None]
    ) -> list[atp.Message]:
        """The messages of a window, once it has ended."""
        while not self._wait(
            lambda: (rank, window) in self._ended, rank, deadline, what
        ):
            raise_if_lost()
        return self._take(rank, window)

    def take_exact(
        self,
        rank: int,
        window: int,
        length: Callable[[list[atp.Message]], int],
        deadline: float,
        what: str,
        raise_if_lost: Callable[[], None],
    ) -> list[atp.Message]:
        """The exact messages of a window, once all have arrived. ``length`` is their total length
        in bytes, by the messages that have arrived so far."""

        def is_there() -> bool:
            if rank not in self._runs:
                return False
            there = self._windows.get((rank, window), Window())
            return there.exact_bytes >= length(there.messages)

        while not self._wait(is_there, rank, deadline, what):
            raise_if_lost()
        return self._take(rank, window)

    def _take(self, rank: int, window: int) -> list[atp.Message]:
        with self._changed:
            return self._windows.pop((rank, window), Window()).messages

    def forget_before(self, window: int) -> None:
        with self._changed:
            self._first = window
            for key in [key for key in self._windows if key[1] < window]:
                del self._windows[key]
            self._ended = {key for key in self._ended if key[1] >= window}

    def _wait(
        self, is_there: Callable[[], bool], rank: int, deadline: float, what: str
    ) -> bool:
        """Waits for ``CHECK_S`` at most. Whether ``is_there``. Raises if the rank has left, or is
        too late."""
        with self._changed:
            if is_there():
                return True
            if self._failure is not None:
                raise self._failure
            if rank in self._left:
                raise CollectiveError(f"rank {rank} left before {what}")
            left = deadline - time.monotonic()
            if left <= 0:
                raise CollectiveError(f"rank {rank} is too late with {what}: it may have stalled")
            self._changed.wait(min(left, CHECK_S))
            return is_there()


def is_hello(message: atp.Message, hello: bytes) -> bool:
    """Whether a rank wrote the message, as the first one of a step."""
    return message.data[: len(hello)] == hello


def _over_budget(rank: int) -> CollectiveError:
    return CollectiveError(
        f"rank {rank} sent more than the array has: all ranks need the same version"
    )
