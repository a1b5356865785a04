"""What is done with an array, the same in all of its steps, and how its values travel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from atp.collective import values
from atp.collective.errors import CollectiveError
from atp.collective.layout import Layout, Region, integer
from atp.collective.options import Options
from atp.collective.values import Array

CHUNKS_MAX = 1 << 15
"""Chunks of a part, that is, for one rank. A job holds 65,536 messages (``MESSAGES_HELD_MAX``
of the library), which is room for the parts of two steps. With more chunks it waits until some
arrive, also some that may be lost."""
CHUNK_BYTES_MAX = 1 << 20
WORTH_IT = 0.9
"""Wider chunks have to be fewer by a tenth. Short regions have a chunk each, however wide."""


class Operation(Enum):
    """What a step gives each rank."""

    ALL_REDUCE = "all-reduce"
    """The mean of the array."""
    MEAN_OF_SHARD = "reduce-scatter of the mean"
    """The mean of the rank's own shard."""
    SUM_OF_SHARD = "reduce-scatter of the sum"

    @property
    def windows(self) -> int:
        """Windows of a step."""
        return 2 if self is Operation.ALL_REDUCE else 1


@dataclass(frozen=True)
class Kind:
    """What a caller asks for."""

    operation: Operation
    elements: int
    type: str
    """That of the array's elements."""
    regions: tuple[Region, ...] | None
    shards: tuple[int, ...] | None
    wire: str | None

    @classmethod
    def of(
        cls,
        operation: Operation,
        array: Array,
        regions: Sequence[Region] | None,
        shards: Sequence[int] | None,
        wire: str | None,
    ) -> Kind:
        if not isinstance(array, np.ndarray):
            raise CollectiveError(f"a {type(array).__name__} isn't an array of numpy")
        return cls(
            operation,
            array.size,
            str(array.dtype),
            None if regions is None else tuple(regions),
            None if shards is None else tuple(integer(shard, "a shard") for shard in shards),
            wire,
        )

    def require_like(self, before: Kind, name: str) -> None:
        """Raises if this step of an array differs from an earlier one. A mean may follow a sum."""
        if self.operation.windows != before.operation.windows:
            raise CollectiveError(
                f"{name} is the name of another operation: give this {self.operation.value} another "
                "name"
            )
        if self.elements != before.elements:
            raise CollectiveError(
                f"{name} has {self.elements} elements, and had {before.elements}: give an array of "
                "another length another name"
            )
        if self.type != before.type:
            raise CollectiveError(
                f"{name} is of {self.type}, and was of {before.type}: give an array of another type "
                "another name"
            )
        if replace(self, operation=before.operation) != before:
            raise CollectiveError(
                f"{name} has other regions, shards or types than before: give it another name"
            )


@dataclass(frozen=True)
class Plan:
    """How the values of an array travel."""

    name: str
    layout: Layout
    wire: str
    """The type of elements in messages."""
    windows: int
    """Windows of a step: the same in all steps, so that a window's number says what it has."""
    regions: tuple[Region, ...]
    """The regions that the caller gave, with their names. The layout merges them."""


def planned(name: str, kind: Kind, options: Options, ranks: int) -> Plan:
    """The plan for an array, the same at all ranks."""
    if kind.type not in values.TYPES:
        raise CollectiveError(f"{name} is of {kind.type}, not of {', '.join(values.TYPES)}")
    wire = options.wire or kind.wire or kind.type
    if wire not in values.WIRES:
        raise CollectiveError(f"{name} is of {wire}, not of {', '.join(values.WIRES)}")
    regions: Sequence[Region] = kind.regions or ()
    if kind.regions is None:
        regions = [Region(kind.elements)]
    if not options.groups.by_name:
        regions = [Region(region.elements, "", region.exact) for region in regions]
    width = max(1, options.chunk_bytes // values.item_bytes(wire))
    layout = Layout(regions, ranks, width, kind.shards)
    if layout.elements != kind.elements:
        raise CollectiveError(
            f"the regions of {name} have {layout.elements} elements, the array {kind.elements}"
        )
    width_max = max(width, CHUNK_BYTES_MAX // values.item_bytes(wire))
    while (chunks := layout.chunks) > CHUNKS_MAX and width < width_max:
        width = min(math.ceil(width * chunks / CHUNKS_MAX), width_max)
        wider = Layout(regions, ranks, width, kind.shards)
        if wider.chunks > max(CHUNKS_MAX, WORTH_IT * chunks):
            break
        layout = wider
    return Plan(name, layout, wire, kind.operation.windows, kind.regions or ())
