"""Ranks whose packets others forge, and ranks whose sockets have no room for the first packets."""

from __future__ import annotations

import json
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pytest

from atp.collective import Collective, Uniform
from atp.collective.inbox import EXACT
from atp.collective.stats import Stats
from ranks import STEPS, MemoryStore, options, run, successes

Address = tuple[str, int]
Forge = Callable[[int, int], list[bytes]]
"""The packets of a run, by job and cookie."""

HEADER = struct.Struct(">BBBBIII3s3sHII")
DATA, ACK, FIN = 1, 2, 5
FORCED, MORE, NAMES_WINDOW = 8, 16, 64 | 128
WINDOWS = 2 * STEPS + 1
"""The windows of a rank's job: the hello, then two for each step."""


def packet(kind: int, flags: int, job: int, cookie: int, slot: int, message: int) -> bytes:
    one = (1).to_bytes(3, "big")
    index = one if kind == FIN else bytes(3)
    numbers = (job, cookie, message, index, one, 0, slot, 0)
    return HEADER.pack(0xA7, 1 << 4 | kind, flags, 1, *numbers)


def data(job: int, cookie: int) -> bytes:
    return packet(DATA, NAMES_WINDOW, job, cookie, 0, 0) + b"forged"


def fin(job: int, cookie: int, window: int, flags: int) -> bytes:
    messages = int(window == 0)
    body = struct.pack(">IB3xIII", window, 1, messages, 0, 0)
    return packet(FIN, FORCED | flags, job, cookie, 1 + window, messages) + body


def windows_that_end(job: int, cookie: int) -> list[bytes]:
    return [data(job, cookie), *(fin(job, cookie, window, MORE) for window in range(WINDOWS))]


def a_job_that_ends(job: int, cookie: int) -> list[bytes]:
    return [data(job, cookie), fin(job, cookie, 0, 0)]


class Path:
    """Forwards the packets between ranks."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._far: dict[tuple[socket.socket, Address], socket.socket] = {}
        self._is_over = threading.Event()

    def to(self, receiver: Address) -> int:
        """The port at which the path to a receiver begins."""
        near = self._socket(lambda: self._forward(near, receiver))
        return int(near.getsockname()[1])

    def run(self) -> None:
        while not self._is_over.is_set():
            for key, _ in self._selector.select(0.05):
                with suppress(OSError):  # The receiver has ended.
                    key.data()

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self.run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()
            for key in list(self._selector.get_map().values()):
                self._selector.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]

    def _socket(self, on_packet: Callable[[], None]) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind(("127.0.0.1", 0))
        self._selector.register(made, selectors.EVENT_READ, on_packet)
        return made

    def _forward(self, near: socket.socket, receiver: Address) -> None:
        sent, sender = near.recvfrom(65_536)
        far = self._far.get((near, sender))
        if far is None:
            far = self._socket(lambda: self._back(near, sender))
            far.connect(receiver)
            self._far[near, sender] = far
        self.deliver(sent, far.send, lambda answer: near.sendto(answer, sender))

    def deliver(
        self, sent: bytes, send: Callable[[bytes], object], answer: Callable[[bytes], object]
    ) -> None:
        send(sent)

    def _back(self, near: socket.socket, sender: Address) -> None:
        near.sendto(self._far[near, sender].recv(65_536), sender)


class Forging(Path):
    """A host sends forged packets behind each packet of DATA, from its address and port and of its
    job. It doesn't know the cookies."""

    def __init__(self, forge: Forge):
        super().__init__()
        self._forge, self._cookie = forge, 0

    def deliver(
        self, sent: bytes, send: Callable[[bytes], object], answer: Callable[[bytes], object]
    ) -> None:
        send(sent)
        _, kind, _, _, job, *_ = HEADER.unpack_from(sent)
        if kind & 15 == DATA:
            self._cookie += 1
            for forged in self._forge(job, self._cookie):
                send(forged)


class FullSockets(Path):
    """The ranks' sockets have no room for exact messages, before another one has come or for a
    while. Their hosts have acknowledged the packets before: the daemon's programs do so."""

    def __init__(self) -> None:
        super().__init__()
        self._full_until: dict[int, float] = {}

    def deliver(
        self, sent: bytes, send: Callable[[bytes], object], answer: Callable[[bytes], object]
    ) -> None:
        magic, kind, _, group, _, cookie, *_ = HEADER.unpack_from(sent)
        now = time.monotonic()
        until = self._full_until.setdefault(cookie, now + 0.2)
        if kind & 15 == DATA and group == EXACT and now < until:
            answer(bytes([magic, 1 << 4 | ACK]) + sent[2 : HEADER.size])
            return
        if kind & 15 == DATA:
            self._full_until[cookie] = now
        send(sent)


def over(path: Path, monkeypatch: pytest.MonkeyPatch, groups: Uniform) -> list[Stats]:
    """The counters of two ranks after their steps over a path. At MSR 1 their means are right."""

    class Forwarding(MemoryStore):
        def set(self, key: str, value: str, /) -> None:
            if "/rank/" in key:
                host, port, version = json.loads(value)
                value = json.dumps([host, path.to((host, port)), version])
            super().set(key, value)

    def one(collective: Collective) -> Stats:
        for step in range(STEPS):
            own = np.full(20_000, float(step + collective.rank))
            got = collective.all_reduce("array", own).result()
            assert groups.msr < 1 or (got == step + 0.5).all()
        return collective.stats

    monkeypatch.setattr("ranks.MemoryStore", Forwarding)
    with path.running():
        return successes(run(2, one, lambda rank: options(groups=groups)))


@pytest.mark.parametrize("forge", [windows_that_end, a_job_that_ends])
def test_forged_ends_change_no_mean(forge: Forge, monkeypatch: pytest.MonkeyPatch) -> None:
    for stats in over(Forging(forge), monkeypatch, Uniform(1.0)):
        assert stats.messages_refused > 0 and stats.chunks == stats.chunks_arrived


def test_no_chunk_comes_before_the_hello(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would count as delivered, and the rank would drop it."""
    for stats in over(FullSockets(), monkeypatch, Uniform(0.5)):
        assert stats.messages_refused == 0
