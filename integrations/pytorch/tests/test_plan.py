"""How arrays are cut, and which steps of a name are alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from atp.collective import ByLayer, Collective, CollectiveError, Region, Uniform
from atp.collective.plan import CHUNKS_MAX, Kind, Operation, planned
from atp.collective.values import Array
from ranks import options, run, successes


def kind(array: Any = None, **changed: Any) -> Kind:
    whole: dict[str, Any] = {
        "operation": Operation.ALL_REDUCE,
        "array": np.zeros(6, np.float32) if array is None else array,
        "regions": None,
        "shards": None,
        "wire": None,
    }
    return Kind.of(**{**whole, **changed})


@pytest.mark.parametrize("elements", [0, 1, 1_000_000, 2_100_000, 9_000_000])
def test_no_part_has_more_chunks_than_the_library_holds(elements: int) -> None:
    array = np.broadcast_to(np.float32(0), elements)
    layout = planned("array", kind(array), options(chunk_bytes=128), 2).layout
    assert all(shard.chunks <= CHUNKS_MAX for shard in layout.shards)
    # No chunk is longer than that takes.
    is_long = elements / 2 / 32 > CHUNKS_MAX
    assert is_long == any(shard.width > 32 for shard in layout.shards)
    assert not is_long or layout.chunks > 0.9 * CHUNKS_MAX


@pytest.mark.parametrize("last", [0, 3_000_000])
def test_regions_that_are_more_than_that(last: int) -> None:
    """A wide chunk for each of many short regions would take memory, and save nothing."""
    regions = [Region(1, f"layer {at}") for at in range(3 * CHUNKS_MAX)] + [Region(last, "last")]
    array = np.broadcast_to(np.float32(0), len(regions) - 1 + last)
    by_layer = options(groups=ByLayer({"la*": 0.5}))
    layout = planned("array", kind(array, regions=regions), by_layer, 2).layout
    assert layout.elements == array.size
    assert sum(shard.chunks * shard.width for shard in layout.shards) < 500 * array.size


def test_an_array_of_more_chunks_than_that() -> None:
    elements = 2 * 16 * (CHUNKS_MAX + 1)

    def one(collective: Collective) -> Array:
        array = np.full(elements, collective.rank, np.float32)
        return collective.all_reduce("array", array).result()

    for got in successes(run(2, one, lambda rank: options(groups=Uniform(1.0), chunk_bytes=64))):
        assert (got == 0.5).all()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"array": np.zeros(7, np.float32)}, "has 7 elements, and had 6"),
        ({"array": np.zeros(6)}, "array is of float64, and was of float32"),
        ({"array": np.zeros(6, np.int64)}, "is of int64, and was of float32"),
        ({"regions": [Region(6)]}, "has other regions"),
        ({"shards": [2, 4]}, "has other regions, shards"),
        ({"array": np.zeros(7, np.float32), "shards": [7.0]}, "shard is 7.0"),
        ({"array": [1.0]}, "list isn't an array"),
        ({"wire": "float16"}, "has other regions, shards or types"),
        ({"operation": Operation.SUM_OF_SHARD}, "the name of another operation"),
    ],
)
def test_a_name_stands_for_the_same(changed: dict[str, Any], words: str) -> None:
    kind().require_like(kind(), "array")
    with pytest.raises(CollectiveError, match=words):
        kind(**changed).require_like(kind(), "array")


def test_a_mean_may_follow_a_sum() -> None:
    shards = {"shards": [2, 4]}
    mean = kind(operation=Operation.MEAN_OF_SHARD, **shards)
    mean.require_like(kind(operation=Operation.SUM_OF_SHARD, shards=np.array([2, 4])), "array")
