"""Where a rank's jobs end: its own receiver, and those of the other ranks."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from typing import Any

import atp
from atp.collective.errors import CollectiveError
from atp.collective.inbox import EXACT
from atp.collective.options import Options
from atp.collective.rendezvous import Rendezvous, join, own_address
from atp.collective.store import Store

JOBS_MAX = 16_384
"""Jobs that a receiver takes. One host may have three quarters of them."""
MESSAGE_BYTES_MAX = 2 << 20
"""The longest messages are pieces of means, and chunks."""
BUFFER_BYTES = 4 << 20
REFUSED_S = 1.0
"""A rank is lost if its host says for so long that nothing listens at its port. Each rank opens its
port before others learn it, and never another one. Ranks that wait send a keepalive each second."""


class Ends:
    """A rank's receiver, and jobs to the other ranks."""

    def __init__(self, store: Store, prefix: str, rank: int, ranks: int, options: Options):
        """Waits until all ranks have published their addresses."""
        self._rank, self._ranks, self._options = rank, ranks, options
        self.receiver = self._bind()
        try:
            self.rendezvous: Rendezvous = join(
                store, prefix, rank, ranks, self.receiver.address, options.timeout_s
            )
        except BaseException:
            self.receiver.close()
            raise

    @property
    def arrays_max(self) -> int:
        """Each array has a job from every other rank."""
        return JOBS_MAX * 3 // 4 // (self._ranks - 1)

    def open(
        self,
        jobs: dict[int, atp.Job],
        serial: int,
        part_bytes: int,
        without: Collection[int] = (),
    ) -> None:
        """Opens a job to each rank that isn't in ``without``, and adds it to ``jobs``.

        ``serial``: the number of the array. ``part_bytes``: the length of the longest part.
        """
        msrs = self._options.groups.msrs
        groups = [atp.Group(EXACT, name="exact")]
        groups += [atp.Group(at, msr=msr) for at, msr in enumerate(msrs, start=1)]
        options: dict[str, Any] = self._daemon()
        if self._options.rate_max_bytes_per_s is not None:
            options["rate_max_bytes_per_s"] = self._options.rate_max_bytes_per_s
        # The next rank first: not all ranks begin with the same one.
        for distance in range(1, self._ranks):
            peer = (self._rank + distance) % self._ranks
            if peer in without:
                continue
            jobs[peer] = atp.Job(
                self.rendezvous.addresses[peer],
                id=self.rendezvous.job(serial, self._rank),
                groups=groups,
                overlap_windows=True,
                name_lost=self._options.missing == "feedback",
                # Both phases of two steps: no rank waits for its own library.
                buffer_bytes=BUFFER_BYTES + 4 * part_bytes,
                peer_timeout=self._options.peer_timeout_s,
                refused_timeout=min(REFUSED_S, self._options.peer_timeout_s),
                requests="refuse",
                **options,
            )

    def _bind(self) -> atp.Receiver:
        host = self._options.address or own_address()
        try:
            receiver = atp.Receiver(
                (host, 0),
                sources_max=JOBS_MAX,
                message_bytes_max=MESSAGE_BYTES_MAX,
                **self._daemon(),
            )
        except atp.Error as error:
            raise CollectiveError(f"can't receive at {host}: {error}; set the address") from error
        if ipaddress.ip_address(receiver.address[0]).is_unspecified:
            receiver.close()
            raise CollectiveError(
                f"address={host!r} stands for all addresses of this host: give the one that the "
                "other ranks reach"
            )
        return receiver

    def _daemon(self) -> dict[str, Any]:
        socket_path = self._options.control_socket
        return {} if socket_path == "default" else {"control_socket": socket_path}
