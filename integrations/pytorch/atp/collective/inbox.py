"""What the other ranks sent to one channel. The receiving thread fills it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import atp
from atp.collective.errors import CollectiveError

EXACT = 0
"""The group of messages that all arrive, in order."""
LOOK_S = 0.25
"""A rank that waits looks so often whether the others still answer."""


AHEAD_MAX = 8
"""Windows that a rank can be ahead, generously: it needs the others for each step."""


class Inbox:
    """Messages by rank and window."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._messages: dict[tuple[int, int], list[atp.Message]] = {}
        self._bytes: dict[tuple[int, int], int] = {}
        """Of exact messages."""
        self._ended: set[tuple[int, int]] = set()
        self._left: set[int] = set()
        self._first = 0
        """Earlier windows are over."""
        self._failure: CollectiveError | None = None

    def add(self, rank: int, message: atp.Message) -> None:
        key = rank, message.window
        if len(message) == 0:
            return  # A question: the library has answered it.
        with self._changed:
            if not self._first <= message.window < self._first + AHEAD_MAX:
                return
            self._messages.setdefault(key, []).append(message)
            if message.group == EXACT:
                self._bytes[key] = self._bytes.get(key, 0) + len(message)
                self._changed.notify_all()

    def end_window(self, rank: int, window: int) -> None:
        with self._changed:
            if self._first <= window < self._first + AHEAD_MAX:
                self._ended.add((rank, window))
                self._changed.notify_all()

    def leave(self, rank: int) -> None:
        """The rank has ended its stream."""
        with self._changed:
            self._left.add(rank)
            self._changed.notify_all()

    def has_left(self, rank: int) -> bool:
        return rank in self._left

    def fail(self, error: CollectiveError) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    @property
    def failure(self) -> CollectiveError | None:
        """Why the collective has failed, if it has."""
        return self._failure

    def check(self) -> None:
        """Raises if the collective has failed."""
        with self._changed:
            if self._failure is not None:
                raise self._failure

    def take_window(
        self, rank: int, window: int, deadline: float, what: str, look: Callable[[], None]
    ) -> list[atp.Message]:
        """The messages of a window, once it has ended. ``look`` raises if waiting is in vain."""
        key = rank, window
        while not self._wait(lambda: key in self._ended, rank, deadline, what):
            look()
        with self._changed:
            return self._messages.pop(key, [])

    def take_exact(
        self,
        rank: int,
        window: int,
        length: Callable[[list[atp.Message]], int],
        deadline: float,
        what: str,
        look: Callable[[], None],
    ) -> list[atp.Message]:
        """The exact messages of a window, once all have arrived. ``length`` tells their bytes, as
        far as those that are there say it."""
        key = rank, window

        def is_there() -> bool:
            return self._bytes.get(key, 0) >= length(self._messages.get(key, []))

        while not self._wait(is_there, rank, deadline, what):
            look()
        with self._changed:
            return self._messages.pop(key, [])

    def forget_before(self, window: int) -> None:
        with self._changed:
            self._first = window
            for kept in (self._messages, self._bytes):
                for key in [key for key in kept if key[1] < window]:
                    del kept[key]
            self._ended = {key for key in self._ended if key[1] >= window}

    def _wait(
        self, is_there: Callable[[], bool], rank: int, deadline: float, what: str
    ) -> bool:
        """Waits for a moment. Whether it is there; raises if it won't come."""
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
            self._changed.wait(min(left, LOOK_S))
            return is_there()
