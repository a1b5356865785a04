"""How ranks find each other, and tell each other's packets from those of strangers."""

from __future__ import annotations

import json
import os
import secrets
import socket
from dataclasses import dataclass
from typing import Any, TypeVar

from atp.collective.errors import CollectiveError
from atp.collective.manifest import VERSION
from atp.collective.store import Store, fetch

Parsed = TypeVar("Parsed")

_RANKS = 32
"""The number of ranks for which job ids leave room."""
_SERIALS = 1 << 16
_SENTENCE_BYTES_MAX = 1_024


@dataclass(frozen=True)
class Meeting:
    """What all ranks know of each other."""

    rank: int
    addresses: list[tuple[str, int]]
    """Where each rank receives."""
    first_job: int
    token: bytes
    """Begins the last message of a rank that failed."""

    def job(self, serial: int, rank: int) -> int:
        """The job id of a rank's streams for one channel."""
        return self.first_job + serial * _RANKS + rank

    def place(self, job: int, source: tuple[str, int]) -> tuple[int, int] | None:
        """The channel and the rank of a job; ``None`` for those of strangers."""
        serial, rank = divmod(job - self.first_job, _RANKS)
        if not (0 <= serial < _SERIALS and rank < len(self.addresses) and rank != self.rank):
            return None
        return (serial, rank) if source[0] == self.addresses[rank][0] else None

    def farewell(self, sentence: str) -> bytes:
        return self.token + sentence.encode(errors="replace")[:_SENTENCE_BYTES_MAX]

    def is_farewell(self, data: memoryview) -> bool:
        return data[: len(self.token)] == self.token

    def reason(self, data: memoryview, rank: int) -> CollectiveError:
        sentence = bytes(data[len(self.token) :][:_SENTENCE_BYTES_MAX]).decode(errors="replace")
        # A rank that names another one, or itself, says enough.
        return CollectiveError(sentence if sentence.startswith("rank ") else f"rank {rank}: {sentence}")


def meet(
    store: Store,
    prefix: str,
    rank: int,
    ranks: int,
    address: tuple[str, int],
    timeout_s: float,
) -> Meeting:
    """Tells the other ranks this rank's address, and waits for theirs."""
    if rank == 0:
        first_job = 1 + secrets.randbelow(2**32 - _SERIALS * _RANKS - 1)
        new = {"version": VERSION, "first_job": first_job, "token": secrets.token_hex(16)}
        store.set(f"{prefix}/session", json.dumps(new))
    store.set(f"{prefix}/rank/{rank}", json.dumps(address))
    told_session = fetch(store, f"{prefix}/session", "rank 0", timeout_s)
    session: dict[str, Any] = _parsed(told_session, dict)
    if session.get("version") != VERSION:
        raise CollectiveError(
            f"rank 0 has version {session.get('version')} of atp.collective, this rank {VERSION}"
        )
    addresses = []
    for other in range(ranks):
        told = _parsed(fetch(store, f"{prefix}/rank/{other}", f"rank {other}", timeout_s), list)
        if [type(part) for part in told] != [str, int]:
            raise _foreign()
        addresses.append((told[0], told[1]))
    try:
        token, first_job = bytes.fromhex(session["token"]), int(session["first_job"])
    except (KeyError, TypeError, ValueError):
        raise _foreign() from None
    return Meeting(rank, addresses, first_job, token)


def _parsed(text: str, kind: type[Parsed]) -> Parsed:
    try:
        value = json.loads(text)
    except ValueError:
        raise _foreign() from None
    if not isinstance(value, kind):
        raise _foreign()
    return value


def _foreign() -> CollectiveError:
    return CollectiveError("the store has values of another program: give the collective a name")


def own_address() -> str:
    """The address from which this host reaches ``MASTER_ADDR``, which all ranks reach."""
    master = os.environ.get("MASTER_ADDR")
    if not master:
        raise CollectiveError("MASTER_ADDR isn't set: set the option `address` to this host's")
    try:
        family, kind, _, _, where = socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(where)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise CollectiveError(f"can't reach MASTER_ADDR {master}: {error}") from error
