"""The rendezvous: ranks exchange their addresses and a secret token through the store.

The token begins a rank's hello and abort messages, so no other process can forge them.
"""

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
class Rendezvous:
    """The addresses, job ids and token that all ranks share."""

    rank: int
    addresses: list[tuple[str, int]]
    """The address of each rank's receiver."""
    first_job: int
    token: bytes
    """Secret: only the ranks of this session can send it."""

    def job(self, serial: int, rank: int) -> int:
        """The id of a rank's jobs for one channel."""
        return self.first_job + serial * _RANKS + rank

    def place(self, job: int, source: tuple[str, int]) -> tuple[int, int] | None:
        """The channel and the rank of a job; ``None`` for those of strangers."""
        serial, rank = divmod(job - self.first_job, _RANKS)
        if not (0 <= serial < _SERIALS and rank < len(self.addresses) and rank != self.rank):
            return None
        return (serial, rank) if source[0] == self.addresses[rank][0] else None

    @property
    def hello(self) -> bytes:
        """Begins the first message of a step."""
        return self.token + b"G"

    @property
    def _abort_prefix(self) -> bytes:
        """Begins the last message of a rank that failed."""
        return self.token + b"F"

    def abort_message(self, reason: str) -> bytes:
        """The last message of a rank that failed, with the reason."""
        return self._abort_prefix + reason.encode(errors="replace")[:_SENTENCE_BYTES_MAX]

    def is_abort(self, data: memoryview) -> bool:
        return data[: len(self._abort_prefix)] == self._abort_prefix

    def abort_reason(self, data: memoryview, rank: int) -> CollectiveError:
        """The error for an abort message of ``rank``."""
        reason = bytes(data[len(self._abort_prefix) :][:_SENTENCE_BYTES_MAX])
        sentence = one_line(reason.decode(errors="replace"))
        # A rank may blame one rank, itself included.
        return CollectiveError(sentence if sentence.startswith("rank ") else f"rank {rank}: {sentence}")


def join(
    store: Store,
    prefix: str,
    rank: int,
    ranks: int,
    address: tuple[str, int],
    timeout_s: float,
) -> Rendezvous:
    """Publishes this rank's address, and waits for those of the other ranks."""
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
        # All ranks see the version, so none waits for a rank that has left.
        if version != VERSION:
            raise CollectiveError(
                f"rank {other} has version {version} of atp.collective, rank {rank} has {VERSION}"
            )
        addresses.append((host, port))
        try:
            ip = ipaddress.ip_address(host)
        except ValueError:
            raise _foreign() from None
        # A link-local address needs an interface, which each host numbers by itself.
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
    return Rendezvous(rank, addresses, first_job, token)


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
