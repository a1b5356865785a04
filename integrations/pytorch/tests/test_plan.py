"""How arrays are cut, and which steps of a name are alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from atp.collective import ByLayer, CollectiveError, Region
from atp.collective.plan import CHUNKS_MAX, Kind, Operation, planned
from ranks import options


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
    if is_long:
        assert all(shard.chunks > CHUNKS_MAX // 2 for shard in layout.shards)


def test_regions_that_are_more_than_that() -> None:
    regions = [Region(1, f"layer {at}") for at in range(3 * CHUNKS_MAX)]
    array = np.zeros(len(regions), np.float32)
    by_layer = options(groups=ByLayer({"layer*": 0.5}))
    assert planned("array", kind(array, regions=regions), by_layer, 2).layout.elements == array.size


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"array": np.zeros(7, np.float32)}, "has 7 elements, and had 6"),
        ({"array": np.zeros(6)}, "is of float64, and was of float32"),
        ({"array": np.zeros(6, np.int64)}, "is of int64, and was of float32"),
        ({"regions": [Region(6)]}, "has other regions"),
        ({"shards": [2, 4]}, "has other regions, shards"),
        ({"wire": "float16"}, "has other regions, shards or types"),
        ({"operation": Operation.SUM_OF_SHARD}, "the name of another operation"),
    ],
)
def test_a_name_stands_for_the_same(changed: dict[str, Any], words: str) -> None:
    kind().require_like(kind(), "array")
    with pytest.raises(CollectiveError, match=f"array {words}|array is {words}"):
        kind(**changed).require_like(kind(), "array")


def test_a_mean_may_follow_a_sum() -> None:
    shards = {"shards": [2, 4]}
    mean = kind(operation=Operation.MEAN_OF_SHARD, **shards)
    mean.require_like(kind(operation=Operation.SUM_OF_SHARD, shards=np.array([2, 4])), "array")
