"""Both ends of windows of records, for tests: on loopback and without a daemon."""

from __future__ import annotations

import random
import select
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import atp
from atp.kafka import Window, Windows, WindowSender
from ends import LIMIT_S


def inbox(address: Any = "127.0.0.1:0", **options: Any) -> Windows:
    options = {"linger": 0.1, "timeout": LIMIT_S, "control_socket": None} | options
    return atp.kafka.windows(address, **options)


def outbox(peer: Any, **options: Any) -> WindowSender:
    peer = peer.address if isinstance(peer, Windows) else peer
    options = {"topic": "readings", "control_socket": None} | options
    return WindowSender(peer, **options)


def take(received: Windows, number: int) -> list[Window]:
    """This number of windows, all of which are confirmed."""
    windows = []
    for window in received:
        windows.append(window)
        if len(windows) == number:
            received.confirm()
            break
    return windows


def offsets(ranges: Iterable[range]) -> list[int]:
    return [offset for part in ranges for offset in part]


def check(window: Window) -> None:
    """Each record of a window is received, lost, refused or repeated, and groups have their
    shares."""
    seen = [record.offset for record in window]
    assert len(seen) == len(set(seen)) == window.received
    parts = seen + offsets(window.lost) + offsets(window.refused)
    assert len(parts) == len(set(parts)) == window.records - window.repeated
    assert set(parts) <= set(offsets(window.offsets))
    assert window.records == len(offsets(window.offsets))
    for group in window.groups.values():
        assert group.arrived >= group.msr * group.records, group


@contextmanager
def lossy(receiver: tuple[str, int], rng: random.Random, share: float) -> Iterator[tuple[str, int]]:
    """The address of a path to a receiver that loses this share of the sender's long packets."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as path:
        path.bind(("127.0.0.1", 0))
        path.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        ended = threading.Event()

        def forward() -> None:
            sender = None
            while not ended.is_set():
                if not select.select([path], [], [], 0.05)[0]:
                    continue
                packet, source = path.recvfrom(65_535)
                if source == receiver:
                    if sender is not None:
                        path.sendto(packet, sender)
                    continue
                sender = source
                if len(packet) < 500 or rng.random() >= share:
                    path.sendto(packet, receiver)

        thread = threading.Thread(target=forward, daemon=True)
        thread.start()
        try:
            host, port = path.getsockname()
            yield host, port
        finally:
            ended.set()
            thread.join(LIMIT_S)


def numbers(sender: WindowSender, begin: int, end: int) -> None:
    """Sends short records, and waits until all are confirmed."""
    for offset in range(begin, end):
        sender.send(offset, str(offset))
    sender.flush()
