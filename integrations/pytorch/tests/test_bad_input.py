"""A rank does something wrong: every rank gets one sentence, and none hangs."""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from atp.collective import (
    ByLayer,
    Collective,
    CollectiveError,
    Custom,
    Magnitude,
    Options,
    Region,
    Uniform,
)
from atp.collective.groups import Chunks
from atp.collective.values import Array
from ranks import options, run

RANKS = 3
LATE_S = 20.0


def ones(elements: int = 1_000, dtype: str = "float32") -> Array:
    return np.ones(elements, dtype)


def reduce_once(collective: Collective) -> object:
    return collective.all_reduce("array", ones()).result()


def sentences(
    each: Callable[[Collective], object],
    options_of: Callable[[int], Options] = lambda rank: options(),
) -> list[str]:
    """The error of each rank, after a check that none is missing or late."""
    before = threading.active_count()
    began = time.monotonic()
    outcomes = run(RANKS, each, options_of)
    assert time.monotonic() - began < LATE_S
    assert threading.active_count() == before, "a thread is left"
    texts = []
    for rank, outcome in enumerate(outcomes):
        assert isinstance(outcome, CollectiveError), f"rank {rank}: {outcome!r}"
        assert "\n" not in str(outcome)
        texts.append(str(outcome))
    return texts


def test_ranks_disagree_on_lengths() -> None:
    def each(collective: Collective) -> object:
        return collective.all_reduce("array", ones(1_000 + collective.rank // 2)).result()

    for text in sentences(each):
        assert "disagree on the number of elements of array" in text


def test_ranks_disagree_on_types() -> None:
    def each(collective: Collective) -> object:
        dtype = "float64" if collective.rank == 1 else "float32"
        return collective.all_reduce("array", ones(dtype=dtype)).result()

    for text in sentences(each):
        assert "disagree on the type of" in text


def test_ranks_disagree_on_sampling_rates() -> None:
    def of(rank: int) -> Options:
        return options(groups=Uniform(0.5 + rank / 10))

    for text in sentences(reduce_once, of):
        assert "disagree on the sampling rates" in text


def test_ranks_disagree_on_options() -> None:
    def of(rank: int) -> Options:
        return options(missing="mean" if rank else "zero")

    for text in sentences(reduce_once, of):
        assert "disagree on the option missing" in text


def test_ranks_disagree_on_regions() -> None:
    def each(collective: Collective) -> object:
        regions = [Region(500, exact=collective.rank == 1), Region(500)]
        return collective.all_reduce("array", ones(), regions).result()

    for text in sentences(each):
        assert "disagree on the regions" in text


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_number(value: float) -> None:
    def each(collective: Collective) -> object:
        array = ones()
        array[7] = value if collective.rank == 1 else 1
        return collective.all_reduce("array", array).result()

    for text in sentences(each):
        assert "array of rank 1 in step 0 has NaN or infinite values: lower the" in text


def test_no_number_may_arrive_everywhere() -> None:
    def each(collective: Collective) -> Array:
        array = ones(50_000)
        array[40_000] = np.nan if collective.rank == 1 else 1
        return collective.all_reduce("array", array).result()

    for got in run(RANKS, each, lambda rank: options(groups=Uniform(0.1), nonfinite="propagate")):
        assert not isinstance(got, BaseException), got
        assert np.isnan(got[40_000])
        assert np.isnan(got).sum() == 1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda chunks: np.zeros(len(chunks) - 1, int), "it has to give each chunk one"),
        (lambda chunks: np.full(len(chunks), 2), "a group outside of 0 to 1"),
        (lambda chunks: np.full(len(chunks), -1), "a group outside of 0 to 1"),
        (lambda chunks: np.full(len(chunks), 0.5), "a group outside of 0 to 1"),
        (lambda chunks: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda chunks: None, "groups of shape ()"),
    ],
)
@pytest.mark.parametrize("wrong", [1, None])
def test_a_group_function_is_wrong(
    function: Callable[[object], Array], words: str, wrong: int | None
) -> None:
    """At one rank, or at all."""

    def of(rank: int) -> Options:
        good = Custom(lambda chunks: np.zeros(len(chunks), int), (0.5, 1.0))
        bad = Custom(function, (0.5, 1.0))
        return options(groups=bad if wrong in (rank, None) else good)

    for text in sentences(reduce_once, of):
        assert words in text


def test_a_rank_stalls() -> None:
    over = threading.Event()

    def each(collective: Collective) -> object:
        reduce_once(collective)
        if collective.rank == 1:
            over.wait(6)
        return reduce_once(collective)

    for text in sentences(each, lambda rank: options(timeout_s=3.0)):
        assert "rank 1 is too late with its part of step 1 of array" in text


def test_a_rank_leaves() -> None:
    def each(collective: Collective) -> object:
        reduce_once(collective)
        if collective.rank == 1:
            raise CollectiveError("no more data")
        return reduce_once(collective)

    for text in sentences(each):
        assert "no more data" in text


def test_a_rank_fails_before_its_first_step() -> None:
    def each(collective: Collective) -> object:
        if collective.rank == 1:
            raise CollectiveError("no such file: \udcff")
        return reduce_once(collective)

    texts = sentences(each)
    for text in (texts[0], texts[2]):
        assert text.startswith("rank 1: CollectiveError: no such file")


def test_ranks_reduce_arrays_in_another_order() -> None:
    def each(collective: Collective) -> object:
        names = ["weights", "biases"] if collective.rank else ["biases", "weights"]
        return [collective.all_reduce(name, ones()).result() for name in names]

    for text in sentences(each):
        assert "disagree on the order of the arrays" in text


TOO_LARGE = "messages of float16 hold 65504 at most: set wire='bfloat16' or wire='float32'"


@pytest.mark.parametrize("missing", ["zero", "mean", "feedback", "hadamard"])
@pytest.mark.parametrize("operation", ["all_reduce", "reduce_scatter"])
def test_values_too_large_for_messages(operation: str, missing: str) -> None:
    """They are finite: the error names the type of messages, the value and the parameter."""

    def each(collective: Collective) -> object:
        array = ones()
        array[700] = -1e5 if collective.rank == 1 else 1
        regions = [Region(500, "first"), Region(300, "second"), Region(200, "third")]
        return getattr(collective, operation)("array", array, regions).result()

    for text in sentences(each, lambda rank: options(wire="float16", missing=missing)):
        told = f"array of rank 1 in step 0 has the value -100000 (parameter second), and {TOO_LARGE}"
        assert told in text
        assert "NaN" not in text and "learning rate" not in text


def test_a_rotation_may_get_too_large_for_messages() -> None:
    """A rotated value is a mix of parameters, so the error names none."""

    def each(collective: Collective) -> object:
        regions = [Region(512, "first"), Region(512, "second")]
        array = np.full(1_024, 6e4, np.float32)
        return collective.all_reduce("array", array, regions).result()

    for text in sentences(each, lambda rank: options(wire="float16", missing="hadamard")):
        assert "in step 0, rotated by 'hadamard', has the value" in text and TOO_LARGE in text
        assert "(parameter" not in text


def test_values_too_large_for_the_array_alone() -> None:
    """The sum stays at its owner, in single precision, and the array is of half precision."""

    def each(collective: Collective) -> object:
        array = np.full(1_000, 6e4, np.float16)
        return collective.reduce_scatter("array", array, op="sum", wire="float32").result()

    for text in sentences(each):
        assert "the result of step 0 of array is too large for float16, which holds 65504" in text


def test_a_rank_closes() -> None:
    def each(collective: Collective) -> object:
        reduce_once(collective)
        if collective.rank == 1:
            collective.close()
        return reduce_once(collective)

    texts = sentences(each)
    assert texts[1] == "the collective is closed"
    for text in (texts[0], texts[2]):
        assert re.search("rank 1 left before (its part of )?step 1 of array", text), text


def test_a_rank_is_missing() -> None:
    def of(rank: int) -> Options:
        if rank == 1:
            raise CollectiveError("not started")
        return options(timeout_s=2.5)

    texts = sentences(reduce_once, of)
    for text in (texts[0], texts[2]):
        assert "rank 1 hasn't joined after 2.5 s" in text


def test_wrong_arrays() -> None:
    def each(collective: Collective) -> None:
        reduce_once(collective)
        for name, array, regions, words in (
            ("array", ones(999), None, "give an array of another length another name"),
            ("array", ones(), [Region(500), Region(500, "b")], "array has other regions"),
            ("other", ones(dtype="int64"), None, "other is of int64"),
            ("other", ones(), [Region(999)], "regions of other have 999 elements, the array 1000"),
            ("other", ones(), [Region(1_001), Region(-1)], "-1 elements"),
        ):
            with pytest.raises(CollectiveError, match=words):
                collective.all_reduce(name, array, regions)
        reduce_once(collective)

    assert run(RANKS, each) == [None] * RANKS


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"missing": "guess"}, "missing='guess'"),
        ({"wire": "int8"}, "wire='int8'"),
        ({"groups": Uniform(1.5)}, r"sampling rates \[1.5\]"),
        ({"chunk_bytes": 3}, "chunk_bytes=3"),
        ({"timeout_s": 0}, "more than 0"),
        ({"timeout_s": None}, "timeout_s=None: it is a number"),
        ({"nonfinite": "Error"}, "nonfinite='Error': it is one of error, propagate"),
        ({"chunk_bytes": None}, "chunk_bytes=None: it is an integer"),
        ({"chunk_bytes": 1_400.5}, "chunk_bytes=1400.5: it is an integer"),
        ({"rate_max_bytes_per_s": 999}, "rate_max_bytes_per_s=999: it is at least 1,000"),
        ({"missing": "hadamard", "groups": Magnitude()}, "mixes the values of all groups"),
        ({"missing": "hadamard", "groups": ByLayer({"a": 0.5})}, r"\[0.5, 1.0\] have to be equal"),
    ],
)
def test_wrong_options(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(CollectiveError, match=words):
        options(**wrong)


def test_a_rotation_takes_groups_of_one_rate() -> None:
    options(missing="hadamard", groups=ByLayer({"a": 0.5}, default=0.5))
    options(missing="hadamard", groups=Magnitude((0.1,), (0.25, 0.25)))


def test_ranks_agree_on_equal_options_of_other_types() -> None:
    """Numbers of numpy beside Python's, lists beside tuples, and arrays beside lists."""

    def of(rank: int) -> Options:
        if rank == 0:
            return options(
                groups=Magnitude([0.25, 0.5], [0, 0.5, 1]),
                missing="feedback",
                chunk_bytes=1_400,
                mean_share=0.5,
                timeout_s=30,
                peer_timeout_s=10,
                rate_max_bytes_per_s=100_000_000,
            )
        bounds: Any = np.array([0.25, 0.5], np.float32)
        msrs: Any = (0, np.float16(0.5), np.int8(1))
        return options(
            groups=Magnitude(bounds, msrs),
            missing=np.str_("feedback"),
            chunk_bytes=np.int64(1_400),
            mean_share=np.float32(0.5),
            timeout_s=np.float32(30),
            peer_timeout_s=np.int64(10),
            rate_max_bytes_per_s=np.int64(100_000_000),
        )

    assert json.dumps(of(0).agreement()) == json.dumps(of(1).agreement())

    def each(collective: Collective) -> None:
        number: type = np.int64 if collective.rank else int
        regions = [Region(number(500), exact=True), Region(number(500))]
        shards: Any = np.array([600, 400]) if collective.rank else [600, 400]
        collective.all_reduce("array", ones(), regions).result()
        collective.reduce_scatter("other", ones(), regions, shards=shards).result()

    assert run(2, each, of) == [None] * 2


@pytest.mark.parametrize("dtype", ["int64", "complex64", ">f4"])
def test_wrong_types_with_a_type_for_messages(dtype: str) -> None:
    def each(collective: Collective) -> None:
        with pytest.raises(CollectiveError, match="array is of .*, not of float64"):
            collective.all_reduce("array", ones(dtype=dtype))

    assert run(2, each, lambda rank: options(wire="float32")) == [None] * 2


def test_sums_that_are_too_large() -> None:
    """Finite values of every rank, whose sum isn't."""

    def each(collective: Collective) -> object:
        array = np.full(1_000, 3e38, np.float32)
        return collective.all_reduce("array", array).result()

    for text in sentences(each):
        assert "the result of step 0 of array is too large for float32" in text


def test_lost_values_that_get_too_large() -> None:
    """Half precision holds each step's values, but not those of two steps."""

    def each(collective: Collective) -> None:
        for _ in range(3):
            collective.all_reduce("array", np.full(40_000, 40_000.0, np.float32)).result()

    few = options(groups=Uniform(0.0), missing="feedback", wire="float16", mean_share=0.05)
    for text in sentences(each, lambda rank: few):
        # The sender's sum, or the owner's.
        own = "array of rank \\d in step [12], with lost values of earlier steps,"
        assert re.search(f"({own}|the mean of step [12] of array) has the value \\d+, and", text)
        assert TOO_LARGE in text


def test_a_group_function_is_not_asked_about_nothing() -> None:
    """All values are exact, and a list that has no elements has no type."""
    groups = Custom(lambda chunks: [0] * len(chunks), [0.5])

    def each(collective: Collective) -> Array:
        return collective.all_reduce("array", ones(), [Region(1_000, exact=True)]).result()

    for outcome in run(2, each, lambda rank: options(groups=groups)):
        assert isinstance(outcome, np.ndarray), outcome


@pytest.mark.parametrize("step", [0, 1, 5])
def test_the_reason_reaches_every_rank_from_any_step(step: int) -> None:
    """Also if windows of earlier steps still wait for their confirmation."""

    def of(rank: int) -> Options:
        calls = itertools.count()

        def assign(chunks: Chunks) -> list[int]:
            # The second of the two jobs of a step.
            if rank == 1 and next(calls) == 2 * step + 1:
                raise ValueError("no\nidea")
            return [0] * len(chunks)

        return options(groups=Custom(assign, [0.5]))

    def each(collective: Collective) -> None:
        for _ in range(step + 1):
            collective.all_reduce("array", ones(40_000)).result()

    for text in sentences(each, of):
        assert "rank 1 failed: ValueError: no idea" in text


def test_an_address_of_all_interfaces() -> None:
    for outcome in run(2, reduce_once, lambda rank: options(address="0.0.0.0", timeout_s=0.5)):
        assert "address='0.0.0.0' stands for all addresses of this host" in str(outcome)


def test_ranks_disagree_on_the_order_of_layers() -> None:
    def of(rank: int) -> Options:
        names = ["a", "b"] if rank == 0 else ["b", "a"]
        return options(groups=ByLayer(dict(zip(names, (0.5, 0.8), strict=True))))

    for text in sentences(reduce_once, of):
        assert "disagree on the option patterns of array" in text


def test_wrong_bounds() -> None:
    with pytest.raises(CollectiveError, match="3 sampling rates need 2 bounds"):
        Magnitude((0.1,), (0.0, 0.5, 1.0))
    with pytest.raises(CollectiveError, match="ascending"):
        Magnitude((0.2, 0.1), (0.0, 0.5, 1.0))


def test_wrong_ranks() -> None:
    with pytest.raises(CollectiveError, match="there are 2 to 16 ranks"):
        Collective(None, 0, 17)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"step": -1}, "step=-1: steps count from 0"),
        ({"step": 1.5}, "step is 1.5: give an integer"),
        ({"regions": [Region(2.5)]}, "region '' is 2.5: give an integer"),  # type: ignore[arg-type]
    ],
)
def test_arguments_that_are_wrong_change_nothing(arguments: dict[str, Any], words: str) -> None:
    def one(collective: Collective) -> float:
        with pytest.raises(CollectiveError, match=words):
            collective.all_reduce("array", np.ones(3, np.float32), **arguments)
        return float(collective.all_reduce("array", np.ones(3, np.float32)).result().sum())

    assert run(2, one) == [3.0, 3.0]
