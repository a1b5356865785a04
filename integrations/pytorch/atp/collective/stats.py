"""Counters of a collective."""

from __future__ import annotations

import threading
from dataclasses import dataclass

_lock = threading.Lock()


@dataclass
class Stats:
    """Counters of one rank, since the beginning."""

    reductions: int = 0
    """Arrays that were reduced: in PyTorch, a bucket of a step."""
    chunks: int = 0
    """Chunks that other ranks cut for this rank to reduce."""
    chunks_arrived: int = 0
    chunks_unknown: int = 0
    """Chunks that this rank sent and whose receiver couldn't say whether they arrived. Error
    feedback adds the share of them that was lost to the next step."""
    bytes_sent: int = 0
    """Bytes of chunks and means handed to the transport, those that it left out included. Not
    counted: manifests, and keepalives."""
    messages_refused: int = 0
    """Messages under the job id of a rank that came from a stranger. They were dropped, and so was
    the end of the stranger's job."""
    waited_s: float = 0.0
    """Time that buckets waited for other ranks, added up: buckets wait at the same time."""

    def add(
        self,
        *,
        reductions: int = 0,
        chunks: int = 0,
        chunks_arrived: int = 0,
        chunks_unknown: int = 0,
        bytes_sent: int = 0,
        messages_refused: int = 0,
        waited_s: float = 0.0,
    ) -> None:
        """Counts more. Threads of several arrays call it."""
        with _lock:
            self.reductions += reductions
            self.chunks += chunks
            self.chunks_arrived += chunks_arrived
            self.chunks_unknown += chunks_unknown
            self.bytes_sent += bytes_sent
            self.messages_refused += messages_refused
            self.waited_s += waited_s
