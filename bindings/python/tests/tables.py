"""Both ends of a table, for tests: on loopback and without a daemon."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import secrets
import socket
from typing import Any

import atp
from ends import LIMIT_S, Call

pandas: Any = importlib.import_module("pandas")  # It has no types.

ROWS = 6_000
# Another run beside this one begins elsewhere.
PORTS = itertools.count(secrets.randbelow(20_000))


def address() -> tuple[str, int]:
    """A port that is free now. No socket gets it by chance: those that don't ask for a port have
    larger ones."""
    for port in PORTS:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            try:
                free.bind(("127.0.0.1", 10_000 + port % 20_000))
            except OSError:
                continue
            host, number = free.getsockname()
            return str(host), int(number)
    raise AssertionError("the ports have no end")


def frame(rows: int = ROWS) -> Any:
    return pandas.DataFrame(
        {
            "carrier": [("UA", "AA", "DL")[row % 3] for row in range(rows)],
            "delay": [float(row % 10) for row in range(rows)],
        }
    )


def both(send: Any, **wanted: Any) -> Any:
    """What a receiver returns, and what a sender does meanwhile."""
    peer = address()
    receiving = Call(lambda: atp.receive(peer, control_socket=None, timeout=LIMIT_S, **wanted))
    send(peer)
    return receiving.result(2 * LIMIT_S)


def refused(send: Any, **wanted: Any) -> Any:
    """As ``both``, where the receiver may leave before the sender's end."""

    def send_some(peer: tuple[str, int]) -> None:
        with contextlib.suppress(atp.ShortError):
            send(peer)

    return both(send_some, **wanted)


def send(data: Any, **options: Any) -> Any:
    return lambda peer: atp.send_dataframe(data, peer, control_socket=None, **options)
