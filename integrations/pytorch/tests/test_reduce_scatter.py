"""The reduce-scatter beside numpy's own sums. A failing test names its seed."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from atp.collective import Collective, CollectiveError, Options, Region, Uniform, strict_ends
from atp.collective.values import Array
from ranks import STEPS, TYPES, arrays, options, run, successes, sums

EXACT = options(groups=Uniform(1.0))


def scattered(
    ranks: int,
    seed: int,
    shape: tuple[int, ...],
    dtype: str,
    each: Options,
    op: Literal["mean", "sum"] = "mean",
    shards: list[int] | None = None,
) -> list[list[Array]]:
    """The shard of each rank, for each step."""

    def one(collective: Collective) -> list[Array]:
        return [
            collective.reduce_scatter("array", array, shards=shards, op=op).result()
            for array in arrays(collective.rank, seed, shape, dtype)
        ]

    return successes(run(ranks, one, lambda rank: each))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("op", ["mean", "sum"])
@pytest.mark.parametrize("shape", [(0,), (1,), (7, 50), (3, 5, 211), (70_001,)])
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_exact_shards_are_numpy_s(
    ranks: int, shape: tuple[int, ...], op: Literal["mean", "sum"], seed: int
) -> None:
    outcomes = scattered(ranks, seed, shape, "float32", EXACT, op)
    for step, total in enumerate(sums(ranks, seed, shape, "float32")):
        expected = (total if op == "sum" else total / ranks).reshape(-1)
        together = np.concatenate([outcome[step] for outcome in outcomes])
        np.testing.assert_allclose(together, expected, rtol=1e-6, atol=2e-6)
        lengths = {len(outcome[step]) for outcome in outcomes}
        assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("seed", range(3))
def test_shards_of_any_lengths(seed: int) -> None:
    random = np.random.default_rng(seed)
    shards = [int(length) for length in random.integers(0, 9_000, 4)]
    shards[seed] = 0
    outcomes = scattered(4, seed, (sum(shards),), "float32", EXACT, shards=shards)
    for step, total in enumerate(sums(4, seed, (sum(shards),), "float32")):
        assert [len(outcome[step]) for outcome in outcomes] == shards
        together = np.concatenate([outcome[step] for outcome in outcomes])
        np.testing.assert_allclose(together, total / 4, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("dtype", "wire", "error"), TYPES)
def test_types(dtype: str, wire: str | None, error: float) -> None:
    outcomes = scattered(3, 7, (4_000,), dtype, options(groups=Uniform(1.0), wire=wire))
    for step, total in enumerate(sums(3, 7, (4_000,), dtype)):
        for outcome in outcomes:
            assert outcome[step].dtype == dtype
        together = np.concatenate([outcome[step] for outcome in outcomes])
        np.testing.assert_allclose(together, total / 3, rtol=error, atol=error)


@pytest.mark.parametrize("op", ["mean", "sum"])
def test_two_ranks_are_exact_to_the_bit(op: Literal["mean", "sum"]) -> None:
    outcomes = scattered(2, 3, (10_000,), "float32", EXACT, op)
    first, second = (arrays(rank, 3, (10_000,), "float32") for rank in range(2))
    for step in range(STEPS):
        total = first[step] + second[step]
        expected = total if op == "sum" else total / np.float32(2)
        assert np.concatenate([o[step] for o in outcomes]).tobytes() == expected.tobytes()


@pytest.mark.parametrize("op", ["mean", "sum"])
@pytest.mark.parametrize("missing", ["zero", "mean"])
def test_a_chunk_arrives_whole_or_not_at_all(
    missing: str, op: Literal["mean", "sum"]
) -> None:
    """Two ranks, so that only one part of a shard may be missing."""
    elements, width = 140_000, 350
    each = options(groups=Uniform(0.3), missing=missing)
    outcomes = scattered(2, 5, (elements,), "float32", each, op)
    lost = 0
    for rank, outcome in enumerate(outcomes):
        half = slice(rank * elements // 2, (rank + 1) * elements // 2)
        own, other = (
            [step[half] for step in arrays(of, 5, (elements,), "float32")]
            for of in (rank, 1 - rank)
        )
        for step in range(STEPS):
            scale = np.float32(1 if op == "sum" else 0.5)
            alone = own[step] * scale if missing == "zero" else 2 * own[step] * scale
            both = (own[step] + other[step]) * scale
            rows = [part.reshape(-1, width) for part in (outcome[step], both, alone)]
            is_whole = np.isclose(rows[0], rows[1], rtol=1e-6, atol=1e-7).all(axis=1)
            is_alone = np.isclose(rows[0], rows[2], rtol=1e-6, atol=1e-7).all(axis=1)
            assert (is_whole | is_alone).all()
            assert is_whole.mean() >= 0.3
            lost += int((~is_whole).sum())
    assert lost > 0, "nothing was lost: the test shows nothing"


def test_exact_regions_arrive_at_msr_0() -> None:
    """Two shards have an exact end each."""
    part = [Region(4_990, "weight"), Region(10, "bias", exact=True)]

    def one(collective: Collective) -> Array:
        array = np.full(10_000, collective.rank + 1.0, np.float32)
        return collective.reduce_scatter("array", array, [*part, *part]).result()

    for got in run(2, one, lambda rank: options(groups=Uniform(0.0))):
        assert not isinstance(got, BaseException), got
        assert (got[4_990:] == 1.5).all()


def test_what_was_lost_comes_with_a_later_step() -> None:
    """With error feedback, the sum over all steps misses no more than the last step's loss."""
    steps, elements = 20, 35_000

    def one(collective: Collective) -> tuple[Array, Array]:
        random = np.random.default_rng(collective.rank)
        got, mine = np.zeros(elements // 2), np.zeros(elements)
        for _ in range(steps):
            array = random.standard_normal(elements).astype(np.float32)
            mine += array
            got += collective.reduce_scatter("array", array).result()
        return got, mine

    def error(missing: str) -> float:
        both = successes(run(2, one, lambda rank: options(groups=Uniform(0.5), missing=missing)))
        missed = np.concatenate([both[0][0], both[1][0]]) - (both[0][1] + both[1][1]) / 2
        return float(np.sqrt(np.mean(missed**2)))

    without, with_feedback = error("zero"), error("feedback")
    assert with_feedback < 0.4 * without, (with_feedback, without)


def test_a_rank_that_is_ahead_learns_what_was_lost() -> None:
    """Rank 1 has its short shard long before its part of the long one has been confirmed. The last
    step is exact, and brings all that was lost before it."""
    shards = [100_000, 1_000]
    array = np.random.default_rng(1).standard_normal(sum(shards)).astype(np.float32)
    each = options(
        groups=Uniform(0.3),
        missing="feedback",
        msr_floor=strict_ends(STEPS, last=1),
        rate_max_bytes_per_s=100_000,
    )

    def one(collective: Collective) -> Array:
        pending = [
            collective.reduce_scatter("array", array, shards=shards, op="sum")
            for _ in range(STEPS)
        ]
        shards_of_all = [shard.result() for shard in pending]
        return np.asarray(np.sum(shards_of_all, axis=0, dtype=np.float64))

    outcomes = run(2, one, lambda rank: each)
    for outcome, part in zip(outcomes, np.split(array, [shards[0]]), strict=True):
        assert not isinstance(outcome, BaseException), outcome
        np.testing.assert_allclose(outcome, 2.0 * STEPS * part, rtol=1e-5, atol=1e-5)


def test_beside_an_all_reduce() -> None:
    def one(collective: Collective) -> tuple[float, float]:
        array = np.full(1_000, float(collective.rank), np.float32)
        shard = collective.reduce_scatter("shards", array, op="sum")
        whole = collective.all_reduce("array", array)
        return float(shard.result().mean()), float(whole.result().mean())

    assert run(3, one, lambda rank: EXACT) == [(3.0, 1.0)] * 3


def refusals(one: object) -> list[str]:
    outcomes = run(2, one, lambda rank: EXACT)  # type: ignore[arg-type]
    for outcome in outcomes:
        assert isinstance(outcome, CollectiveError), outcome
    return [str(outcome) for outcome in outcomes]


ARRAY = np.ones(1_000, np.float32)


def test_ranks_disagree_on_the_operation() -> None:
    def sum_or_mean(collective: Collective) -> object:
        op: Literal["mean", "sum"] = "sum" if collective.rank else "mean"
        return collective.reduce_scatter("array", ARRAY, op=op).result()

    def all_or_shard(collective: Collective) -> object:
        if collective.rank:
            return collective.all_reduce("array", ARRAY).result()
        return collective.reduce_scatter("array", ARRAY).result()

    for one in (sum_or_mean, all_or_shard):
        for text in refusals(one):
            assert "disagree on the operation of array, reduce-scatter of the" in text or (
                "disagree on the operation of array, all-reduce" in text
            )


def test_ranks_disagree_on_shards() -> None:
    def one(collective: Collective) -> object:
        shards = [400, 600] if collective.rank else [600, 400]
        return collective.reduce_scatter("array", ARRAY, shards=shards).result()

    for text in refusals(one):
        assert "disagree on the regions and shards" in text


def test_wrong_shards_and_names() -> None:
    def one(collective: Collective) -> None:
        for shards in ([1_000], [500, 499], [-1, 1_001]):
            with pytest.raises(CollectiveError, match="1000 elements have to be divided among 2"):
                collective.reduce_scatter("other", ARRAY, shards=shards)
        with pytest.raises(CollectiveError, match="op='max': it is one of mean, sum"):
            collective.reduce_scatter("other", ARRAY, op="max")  # type: ignore[arg-type]
        collective.all_reduce("array", ARRAY).result()
        with pytest.raises(CollectiveError, match="array is the name of another operation"):
            collective.reduce_scatter("array", ARRAY)
        collective.reduce_scatter("shards", ARRAY).result()

    assert run(2, one, lambda rank: EXACT) == [None] * 2


def test_no_number() -> None:
    def one(collective: Collective) -> object:
        array = ARRAY.copy()
        array[900] = np.nan if collective.rank else 1  # in the shard of the same rank
        return collective.reduce_scatter("array", array).result()

    for text in refusals(one):
        assert "array of rank 1 in step 0 has NaN or infinite values" in text
