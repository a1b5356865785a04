"""How an array is cut: into a shard for each rank, and each shard into chunks.

A chunk is what one message of phase 1 carries. No chunk crosses the border of a region, so that
exact values never share a message with others. All chunks of a shard are rows of one matrix, filled
up with zeros at their ends.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from atp.collective.errors import CollectiveError
from atp.collective.values import Array


@dataclass(frozen=True)
class Region:
    """Neighboring elements of an array that belong together, such as those of a parameter."""

    elements: int
    name: str = ""
    exact: bool = False
    """Whether all of them must arrive."""


@dataclass(frozen=True)
class _Piece:
    """The part of a region in a shard."""

    at: int
    """The first element, counted from the shard's first one."""
    elements: int
    row: int
    """The first chunk."""
    rows: int


class Shard:
    """The elements that one rank reduces, and their chunks."""

    def __init__(self, start: int, stop: int, regions: list[tuple[int, Region]], width: int):
        self.start, self.stop, self.width = start, stop, width
        """``width``: the elements of a full chunk."""
        self._pieces: list[_Piece] = []
        names: list[str] = []
        exact: list[bool] = []
        lengths: list[int] = []
        for at, region in regions:
            begin, end = max(at, start), min(at + region.elements, stop)
            if begin >= end:
                continue
            rows = -(-(end - begin) // width)
            self._pieces.append(_Piece(begin - start, end - begin, len(lengths), rows))
            lengths += [width] * (rows - 1) + [end - begin - width * (rows - 1)]
            names += [region.name] * rows
            exact += [region.exact] * rows
        self.names = names
        """The region's name of each chunk."""
        self.exact = np.array(exact, bool)
        self.lengths = np.array(lengths, np.int64)
        """Elements of each chunk."""

    @property
    def elements(self) -> int:
        return self.stop - self.start

    @property
    def chunks(self) -> int:
        return len(self.lengths)

    def to_rows(self, values: Array, rows: Array) -> None:
        """Copies the shard's elements into the matrix of chunks, whose padding stays."""
        for piece in self._pieces:
            part = values[piece.at : piece.at + piece.elements]
            full = piece.elements // self.width
            rows[piece.row : piece.row + full] = part[: full * self.width].reshape(full, self.width)
            if full < piece.rows:
                rest = part[full * self.width :]
                rows[piece.row + full, : len(rest)] = rest

    def to_values(self, rows: Array, values: Array) -> None:
        """Copies the chunks back."""
        for piece in self._pieces:
            part = values[piece.at : piece.at + piece.elements]
            flat = rows[piece.row : piece.row + piece.rows].reshape(-1)
            part[:] = flat[: piece.elements]


def integer(value: object, what: str) -> int:
    """``value`` as an integer of Python: ranks compare texts, and numpy's integers have others.
    ``what`` names it in the error."""
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise CollectiveError(f"{what} is {value!r}: give an integer") from None


class Layout:
    """An array's shards. All ranks of a collective have the same layout."""

    def __init__(
        self,
        regions: Sequence[Region],
        ranks: int,
        width: int,
        shards: Sequence[int] | None = None,
    ):
        """``shards``: the elements of each rank's shard. Default: equal ones, as far as can be."""
        self.regions = _merge(regions)
        self.elements = sum(region.elements for region in self.regions)
        starts = np.cumsum([0] + [region.elements for region in self.regions]).tolist()
        placed = list(zip(starts, self.regions, strict=False))
        borders = _borders(self.elements, ranks, shards)
        self.shards = [
            Shard(start, stop, placed, width)
            for start, stop in zip(borders, borders[1:], strict=False)
        ]
        of_regions = [(region.elements, region.name, region.exact) for region in self.regions]
        told = repr((of_regions, borders))
        self.digest = hashlib.blake2b(told.encode(), digest_size=8).hexdigest()
        """Equal for equal layouts."""
        self.chunks = max(shard.chunks for shard in self.shards)
        """The number of chunks of the shard that has most."""


def _borders(elements: int, ranks: int, shards: Sequence[int] | None) -> list[int]:
    """The first element of each shard, then the number of elements."""
    if shards is None:
        return [elements * rank // ranks for rank in range(ranks + 1)]
    shards = [integer(shard, "a shard") for shard in shards]
    if len(shards) != ranks or any(shard < 0 for shard in shards) or sum(shards) != elements:
        raise CollectiveError(
            f"shards of {shards} elements: {elements} elements have to be divided among "
            f"{ranks} ranks"
        )
    return [sum(shards[:rank]) for rank in range(ranks + 1)]


def _merge(regions: Sequence[Region]) -> list[Region]:
    """Makes one region of neighbors that are treated alike: fewer chunks are short then."""
    merged: list[Region] = []
    for given in regions:
        elements = integer(given.elements, f"the length of region {given.name!r}")
        region = Region(elements, str(given.name), bool(given.exact))
        if region.elements < 0:
            raise CollectiveError(f"region {region.name!r} has {region.elements} elements")
        last = merged[-1] if merged else None
        if last is not None and (last.name, last.exact) == (region.name, region.exact):
            elements = last.elements + region.elements
            merged[-1] = Region(elements, region.name, region.exact)
        elif region.elements > 0:
            merged.append(region)
    return merged
