"""How ranks find each other, and tell each other's packets from those of strangers."""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import socket
from dataclasses import dataclass
from typing import Any, TypeVar

from atp.collective.errors import CollectiveError, one_line
from atp.collective.manifest import VERSION
from atp.collective.store import Store, fetch, publish

Parsed = TypeVar("Parsed")

_RANKS = 32
"""The number of ranks for which job ids leave room."""
_SERIALS = 1 << 16
_FIRST_JOB_END = 2**32 - _SERIALS * _RANKS
_TOKEN_BYTES = 16
_SENTENCE_BYTES_MAX = 1_024


@dataclass(frozen=True)
class Meeting:
    """What all ranks know of each other."""

    rank: int
    addresses: list[tuple[str, int]]
    """Where each rank receives."""
    first_job: int
    token: bytes
    """Secret: who sends it is a rank of this session."""

    def job(self, serial: int, rank: int) -> int:
        """The job id of a rank's streams for one channel."""
        return self.first_job + serial * _RANKS + rank

    def place(self, job: int, source: tuple[str, int]) -> tuple[int, int] | None:
        """The channel and the rank of a job; ``None`` for those of strangers."""
        serial, rank = divmod(job - self.first_job, _RANKS)
        if not (0 <= serial < _SERIALS and rank < len(self.addresses) and rank != self.rank):
            return None
        return (serial, rank) if source[0] == self.addresses[rank][0] else None

    @property
    def greeting(self) -> bytes:
        """Begins the first message of a step."""
        return self.token + b"G"

    @property
    def _goodbye(self) -> bytes:
        """Begins the last message of a rank that failed."""
        return self.token + b"F"

    def farewell(self, sentence: str) -> bytes:
        return self._goodbye + sentence.encode(errors="replace")[:_SENTENCE_BYTES_MAX]

    def is_farewell(self, data: memoryview) -> bool:
        return data[: len(self._goodbye)] == self._goodbye

    def reason(self, data: memoryview, rank: int) -> CollectiveError:
        told = bytes(data[len(self._goodbye) :][:_SENTENCE_BYTES_MAX]).decode(errors="replace")
        sentence = one_line(told)
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
        first_job = 1 + secrets.randbelow(_FIRST_JOB_END - 1)
        new = {"first_job": first_job, "token": secrets.token_hex(_TOKEN_BYTES)}
        publish(store, f"{prefix}/session", json.dumps(new))
    publish(store, f"{prefix}/rank/{rank}", json.dumps([*address, VERSION]))
    told_session = fetch(store, f"{prefix}/session", "rank 0", timeout_s)
    first_job, token = _session(told_session)
    addresses, is_loopback = [], []
    for other in range(ranks):
        told = _parsed(fetch(store, f"{prefix}/rank/{other}", f"rank {other}", timeout_s), list)
        if [type(part) for part in told] != [str, int, int]:
            raise _foreign()
        host, port, version = told
        # All ranks see it, so none waits for one that has gone.
        if version != VERSION:
            raise CollectiveError(
                f"rank {other} has version {version} of atp.collective, rank {rank} has {VERSION}"
            )
        addresses.append((host, port))
        try:
            ip = ipaddress.ip_address(host)
        except ValueError:
            raise _foreign() from None
        # It needs an interface, which each host numbers and names by itself.
        if ip.version == 6 and ip.is_link_local:
            raise CollectiveError(
                f"rank {other} gave {host}, which is an address of one link only: set its option "
                "`address`"
            )
        is_loopback.append(ip.is_loopback)
    # Debian maps a host's own name to 127.0.1.1, which every host takes for itself.
    if any(is_loopback) and not all(is_loopback):
        wrong = is_loopback.index(True)
        raise CollectiveError(
            f"rank {wrong} gave {addresses[wrong][0]}, which other hosts can't reach: set its "
            "option `address`"
        )
    return Meeting(rank, addresses, first_job, token)


def _session(text: str) -> tuple[int, bytes]:
    """The first job id and the token."""
    session: dict[str, Any] = _parsed(text, dict)
    first_job, token = session.get("first_job"), session.get("token")
    if type(first_job) is not int or not 0 < first_job < _FIRST_JOB_END or type(token) is not str:
        raise _foreign()
    try:
        parsed = bytes.fromhex(token)
    except ValueError:
        raise _foreign() from None
    # Every message begins with an empty token.
    if len(parsed) != _TOKEN_BYTES:
        raise _foreign()
    return first_job, parsed


def _parsed(text: str, kind: type[Parsed]) -> Parsed:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
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
