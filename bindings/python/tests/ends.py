"""Both ends of jobs, for tests: on loopback, without a daemon, and with bounded times."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import atp

LIMIT_S = 20.0


def bind(**options: Any) -> atp.Receiver:
    return atp.Receiver("127.0.0.1:0", control_socket=None, **options)


def connect(receiver: atp.Receiver | tuple[str, int], **options: Any) -> atp.Job:
    peer = receiver.address if isinstance(receiver, atp.Receiver) else receiver
    return atp.Job(peer, control_socket=None, **options)


def receive(receiver: atp.Receiver) -> tuple[list[atp.Message], list[atp.WindowEnded], atp.Summary]:
    """All events of one job."""
    messages: list[atp.Message] = []
    windows: list[atp.WindowEnded] = []
    while True:
        match receiver.recv(LIMIT_S):
            case atp.Message() as message:
                messages.append(message)
            case atp.WindowEnded() as ended:
                windows.append(ended)
            case atp.Finished(summary=summary):
                return messages, windows, summary
            case None:
                raise TimeoutError(f"no event for {LIMIT_S} s")


class Call:
    """A call on a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._outcome: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            self._outcome = call()
        except BaseException as error:
            self._error = error

    def result(self, limit_s: float = LIMIT_S) -> Any:
        self._thread.join(limit_s)
        assert not self._thread.is_alive(), f"not finished after {limit_s} s"
        if self._error is not None:
            raise self._error
        return self._outcome


def silent_peer() -> socket.socket:
    """A port that takes packets and answers none."""
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind(("127.0.0.1", 0))
    return silent
