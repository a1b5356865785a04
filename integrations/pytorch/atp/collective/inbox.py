"""The received messages of one channel. The receiving thread fills it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import atp
from atp.collective.errors import CollectiveError

EXACT = 0
"""The group of messages that all arrive, in order."""
CHECK_S = 0.25
"""The interval at which a rank that waits checks whether the others still answer."""
AHEAD_MAX = 8
"""Windows that a rank can be ahead, generously: it needs the others for each step."""

Source = tuple[str, int]
"""The address of a job: host and port."""
Key = tuple[int, Source, int]
"""A rank, its job and a window."""


class Inbox:
    """Messages by rank and window.

    Any process of a rank's host can send to this one, under a rank's job id. So a rank's job is
    the first one with an exact message that begins with ``hello``, which only ranks know.
    Messages of other jobs are never handed out.
    """

    def __init__(self, hello: bytes) -> None:
        self.hello = hello
        self._changed = threading.Condition()
        self._sources: dict[int, Source] = {}
        """The job of each rank that has sent a hello."""
        self._messages: dict[Key, list[atp.Message]] = {}
        self._bytes: dict[Key, int] = {}
        """The bytes of exact messages."""
        self._ended: set[Key] = set()
        self._left: set[int] = set()
        self._first = 0
        """Earlier windows are over."""
        self._failure: CollectiveError | None = None

    def add(self, rank: int, message: atp.Message) -> None:
        key = rank, message.source, message.window
        if len(message) == 0:
            return  # A keepalive: the library has answered it.
        with self._changed:
            if not self._may_be_of(rank, message.source, message.window):
                return
            self._messages.setdefault(key, []).append(message)
            if message.group == EXACT:
                if rank not in self._sources and self._is_hello(message):
                    self._sources[rank] = message.source
                    self._forget(lambda key: key[0] == rank and key[1] != message.source)
                self._bytes[key] = self._bytes.get(key, 0) + len(message)
                self._changed.notify_all()

    def _may_be_of(self, rank: int, source: Source, window: int) -> bool:
        is_near = self._first <= window < self._first + AHEAD_MAX
        return is_near and self._sources.get(rank, source) == source

    def _is_hello(self, message: atp.Message) -> bool:
        return message.data[: len(self.hello)] == self.hello

    def end_window(self, rank: int, source: Source, window: int) -> None:
        with self._changed:
            if self._may_be_of(rank, source, window):
                self._ended.add((rank, source, window))
                self._changed.notify_all()

    def leave(self, rank: int, source: Source) -> None:
        """The job has ended. Without a hello, it may be the job of another process."""
        with self._changed:
            if self._sources.get(rank) == source:
                self._left.add(rank)
                self._changed.notify_all()

    def has_left(self, rank: int) -> bool:
        """Whether the rank has ended its job."""
        return rank in self._left

    def _key(self, rank: int, window: int) -> Key | None:
        source = self._sources.get(rank)
        return None if source is None else (rank, source, window)

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
            lambda: self._key(rank, window) in self._ended, rank, deadline, what
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
            key = self._key(rank, window)
            if key is None:
                return False
            return self._bytes.get(key, 0) >= length(self._messages.get(key, []))

        while not self._wait(is_there, rank, deadline, what):
            raise_if_lost()
        return self._take(rank, window)

    def _take(self, rank: int, window: int) -> list[atp.Message]:
        with self._changed:
            key = self._key(rank, window)
            return [] if key is None else self._messages.pop(key, [])

    def forget_before(self, window: int) -> None:
        with self._changed:
            self._first = window
            self._forget(lambda key: key[2] < window)

    def _forget(self, is_over: Callable[[Key], bool]) -> None:
        for kept in (self._messages, self._bytes):
            for key in [key for key in kept if is_over(key)]:
                del kept[key]
        self._ended = {key for key in self._ended if not is_over(key)}

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
