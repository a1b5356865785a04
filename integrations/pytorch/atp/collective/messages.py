"""Chunks as messages: the chunk's number (u32, little-endian), then its elements."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import atp
from atp.collective.errors import CollectiveError
from atp.collective.layout import Shard
from atp.collective.values import Array

HEAD_BYTES = 4
_NUMBER = np.dtype("<u4")


class Packer:
    """Makes the messages of a shard's chunks. Its buffer is used again for each step."""

    def __init__(self, shard: Shard, wire: np.dtype[np.generic]):
        self._shard = shard
        row_bytes = shard.width * wire.itemsize
        self._item_bytes = wire.itemsize
        self._buffer = np.zeros((shard.chunks, HEAD_BYTES + row_bytes), np.uint8)
        numbers = np.arange(shard.chunks, dtype=_NUMBER)
        self._buffer[:, :HEAD_BYTES] = numbers.view(np.uint8).reshape(-1, HEAD_BYTES)

    def fill(self, rows: Array) -> None:
        """Takes in the elements of all chunks."""
        self._buffer[:, HEAD_BYTES:] = _as_bytes(rows)

    def messages(self, chunks: Array) -> list[bytes]:
        """The messages of these chunks, in their order."""
        data = self._buffer[chunks].tobytes()
        size = self._buffer.shape[1]
        messages = [data[at : at + size] for at in range(0, len(data), size)]
        lengths = self._shard.lengths[chunks]
        for at in np.flatnonzero(lengths < self._shard.width).tolist():
            messages[at] = messages[at][: HEAD_BYTES + int(lengths[at]) * self._item_bytes]
        return messages


def unpack(
    messages: Iterable[atp.Message], shard: Shard, wire: np.dtype[np.generic], rank: int
) -> tuple[Array, Array]:
    """The elements of all chunks, zeros for those missing, and which chunks arrived."""
    rows = np.zeros((shard.chunks, shard.width), wire)
    flat = _as_bytes(rows)
    arrived = np.zeros(shard.chunks, bool)
    full_bytes = HEAD_BYTES + shard.width * wire.itemsize
    full = []
    for message in messages:
        if len(message) == full_bytes:
            full.append(message.data)
            continue
        data = message.data
        number = int.from_bytes(data[:HEAD_BYTES], "little")
        length = len(data) - HEAD_BYTES
        fits = number < shard.chunks and shard.lengths[number] * wire.itemsize == length
        if length < 0 or not fits:
            raise _wrong(rank)
        flat[number, :length] = np.frombuffer(data[HEAD_BYTES:], np.uint8)
        arrived[number] = True
    if full:
        table = np.frombuffer(b"".join(full), np.uint8).reshape(len(full), full_bytes)
        numbers = np.ascontiguousarray(table[:, :HEAD_BYTES]).view(_NUMBER)[:, 0]
        if numbers.max() >= shard.chunks or (shard.lengths[numbers] != shard.width).any():
            raise _wrong(rank)
        flat[numbers] = table[:, HEAD_BYTES:]
        arrived[numbers] = True
    return rows, arrived


def _as_bytes(rows: Array) -> Array:
    """The memory of the rows, as bytes. There may be no rows."""
    return rows.view(np.uint8).reshape(len(rows), rows.shape[1] * rows.itemsize)


def _wrong(rank: int) -> CollectiveError:
    return CollectiveError(
        f"rank {rank} sent a chunk that isn't in the layout: all ranks need the same version"
    )
