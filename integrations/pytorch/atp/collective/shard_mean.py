"""The mean of a shard, as its owner sends it to all ranks: whole, or its largest chunks only.

The owner leaves chunks out before it sends, so all ranks lack the same ones and stay equal to the
bit. It adds them to its next mean. The format: a bit for each chunk (none if the mean is whole),
then the elements of the chunks that were sent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

import atp
from atp.collective import limits, values
from atp.collective.errors import CollectiveError
from atp.collective.layout import Shard
from atp.collective.values import Array


class ShardMean:
    """Writes or reads the means of one shard, step by step."""

    def __init__(self, shard: Shard, wire: str, *, is_whole: bool, is_strict: bool = False):
        """``is_strict``: values that messages can't hold are an error."""
        self._shard, self._wire, self._is_whole = shard, wire, is_whole
        self._is_strict = is_strict
        self._mask_bytes = 0 if is_whole else -(-shard.chunks // 8)
        self._begins = np.cumsum(shard.lengths) - shard.lengths
        """The first element of each chunk."""
        self._owed = np.zeros(0 if is_whole else shard.elements, values.accumulator(wire))
        """Values that weren't sent, and belong to the next mean."""

    def write(self, mean: Array, share: float) -> tuple[Array, Array]:
        """The bytes of a mean, and the values that all ranks read from them. ``share`` of the
        chunks are sent. Raises ``TooLarge`` if messages can't hold it with what is owed."""
        if self._is_strict:
            limits.require_fit(mean if self._is_whole else mean + self._owed, self._wire)
        if self._is_whole:
            encoded = values.encode(mean, self._wire)
            return _as_bytes(encoded), values.decode(encoded, self._wire)
        mean = mean + self._owed
        sent = self._largest(mean, share)
        places = self._places(sent)
        encoded = values.encode(mean[places], self._wire)
        rounded = values.decode(encoded, self._wire)
        # The rounding of half precision is owed, too.
        with np.errstate(invalid="ignore"):
            rest = mean[places] - rounded
        mean[places] = np.where(np.isfinite(rest), rest, 0)
        self._owed = mean
        return np.concatenate((np.packbits(sent), _as_bytes(encoded))), self._spread(places, rounded)

    def length(self, messages: Sequence[atp.Message]) -> int:
        """The bytes of a mean, as far as these messages of it tell: the first one has the bits."""
        if self._is_whole:
            return self._shard.elements * values.item_bytes(self._wire)
        if not messages:
            return self._mask_bytes
        sent = self._mask(bytes(messages[0].data[: self._mask_bytes]))
        elements = int(self._shard.lengths[sent].sum())
        return self._mask_bytes + elements * values.item_bytes(self._wire)

    def read(self, data: bytes) -> Array:
        """The values of a mean, zeros for those that weren't sent."""
        elements = np.frombuffer(data, values.wire_type(self._wire), offset=self._mask_bytes)
        decoded = values.decode(elements, self._wire)
        if self._is_whole:
            return decoded
        return self._spread(self._places(self._mask(data[: self._mask_bytes])), decoded)

    def _largest(self, mean: Array, share: float) -> Array:
        """Which chunks are sent: those that must arrive, and the largest of the others."""
        if self._shard.chunks == 0:
            return np.zeros(0, bool)
        with np.errstate(over="ignore", invalid="ignore"):
            energies = np.add.reduceat(mean * mean, self._begins)
        # Every rank has to see NaN and infinity.
        sent: Array = self._shard.exact | ~np.isfinite(energies)
        others = np.flatnonzero(~sent)
        order = others[np.argsort(-energies[others], kind="stable")]
        sent[order[: math.ceil(share * len(order))]] = True
        return sent

    def _mask(self, data: bytes) -> Array:
        if len(data) != self._mask_bytes:
            raise CollectiveError(f"a mean begins with {len(data)} bytes, not {self._mask_bytes}")
        bits = np.unpackbits(np.frombuffer(data, np.uint8), count=self._shard.chunks)
        return bits.astype(bool)

    def _places(self, sent: Array) -> Array:
        """Where the elements of these chunks are in the shard."""
        begins, lengths = self._begins[sent], self._shard.lengths[sent]
        ends = np.cumsum(lengths)
        places: Array = np.repeat(begins - (ends - lengths), lengths)
        places += np.arange(len(places))
        return places

    def _spread(self, places: Array, elements: Array) -> Array:
        spread: Array = np.zeros(self._shard.elements, elements.dtype)
        spread[places] = elements
        return spread


def _as_bytes(elements: Array) -> Array:
    whole: Array = np.ascontiguousarray(elements).view(np.uint8)
    return whole
