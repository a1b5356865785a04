"""Both ends of a table, for tests: on loopback and without a daemon."""

from __future__ import annotations

import importlib
import socket
from typing import Any

import atp
from ends import LIMIT_S, Call

pandas: Any = importlib.import_module("pandas")  # It has no types.

ROWS = 6_000


def address() -> tuple[str, int]:
    """A port that is free now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        host, port = free.getsockname()
        return str(host), int(port)


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


def send(data: Any, **options: Any) -> Any:
    return lambda peer: atp.send_dataframe(data, peer, control_socket=None, **options)
