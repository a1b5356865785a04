"""The sum of what arrived for the shard of this rank."""

from __future__ import annotations

import numpy as np

from atp.collective import hadamard, values
from atp.collective.contribution import lossy_elements, rotate_rows
from atp.collective.layout import Shard
from atp.collective.options import Options
from atp.collective.values import Array


class Reduction:
    """Adds up one step's parts of a shard."""

    def __init__(self, shard: Shard, options: Options, wire: str, ranks: int, seed: int):
        self._shard, self._options, self._wire, self._seed = shard, options, wire, seed
        self._ranks = ranks
        self._kind = values.accumulator(wire)
        self._sum = np.zeros((shard.chunks, shard.width), self._kind)
        self._arrived = np.zeros(shard.chunks, np.int64)

    def begin(self, part: Array) -> None:
        """Begins with this rank's own values, all of which count."""
        self._shard.to_rows(part, self._sum)
        if self._options.missing == "hadamard":
            rotate_rows(self._sum, self._shard, self._seed)
        self._arrived += 1

    def add(self, rows: Array, arrived: Array) -> None:
        """Adds what arrived of another rank's."""
        if self._options.missing == "hadamard":
            self._sum += self._unbiased(values.decode(rows, self._wire), arrived)
        else:
            here = slice(None) if arrived.all() else arrived
            with np.errstate(over="ignore", invalid="ignore"):  # An error follows, if it is one.
                self._sum[here] += values.decode(rows[here], self._wire)
        self._arrived += arrived

    def sum(self) -> Array:
        """The sum of all ranks' values, in the shard's order."""
        if self._options.missing == "mean":
            scaled: Array = self.mean() * self._kind.type(self._ranks)
            return scaled
        return self._values(self._rotated_back())

    def mean(self) -> Array:
        """The mean of all ranks' values, in the shard's order."""
        total = self._rotated_back()
        if self._options.missing == "mean":
            total = total / self._arrived[:, None].astype(self._kind)
        else:
            total = total / self._kind.type(self._ranks)
        return self._values(total)

    def _rotated_back(self) -> Array:
        if self._options.missing == "hadamard":
            rotate_rows(self._sum, self._shard, self._seed, back=True)
        return self._sum

    def _values(self, rows: Array) -> Array:
        values = np.empty(self._shard.elements, self._kind)
        self._shard.to_values(rows, values)
        return values

    def _unbiased(self, rows: Array, arrived: Array) -> Array:
        """Scales each block of the rotation to what it would be if all of it had arrived."""
        inside = lossy_elements(self._shard)
        flat = np.array(rows[inside])
        here = np.repeat(arrived[:, None], self._shard.width, axis=1)[inside]
        for begin, end in hadamard.blocks(len(flat)):
            share = here[begin:end].mean()
            if 0 < share < 1:
                flat[begin:end] /= flat.dtype.type(share)
        scaled: Array = np.array(rows)
        scaled[inside] = flat
        return scaled
