"""Means of which the owner sends the largest chunks only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from atp.collective import Collective, CollectiveError, Options, Region, Uniform, strict_ends
from atp.collective.layout import Layout
from atp.collective.shard_mean import ShardMean
from atp.collective.values import WIRES, Array
from ranks import options, run

WIDTH = 10


def shard_of(*regions: Region) -> Any:
    return Layout(regions, 1, WIDTH).shards[0]


def received(data: bytes) -> Any:
    """A message that has arrived."""
    return SimpleNamespace(data=memoryview(data))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("wire", WIRES)
def test_what_is_read_is_what_the_owner_keeps(wire: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 60, 5).tolist()
    shard = shard_of(*(Region(n, str(at), exact=at == 2) for at, n in enumerate(lengths)))
    kind = np.float64 if wire == "float64" else np.float32
    owner, other = (ShardMean(shard, wire, is_whole=seed % 5 == 0) for _ in range(2))
    for _ in range(3):
        mean = random.standard_normal(shard.elements).astype(kind)
        written, kept = owner.write(mean, random.uniform(0.01, 1))
        data = bytes(written)
        # The bits may come alone at first.
        cut = min(len(data), -(-shard.chunks // 8))
        assert other.length([]) <= len(data)
        if data:
            assert other.length([received(data[:cut])]) == len(data)
        assert other.read(data).tobytes() == kept.tobytes()


def test_the_largest_chunks_come_first_and_the_exact_ones_always() -> None:
    shard = shard_of(Region(100, "weight"), Region(5, "bias", exact=True))
    mean = np.repeat(np.arange(1.0, 12.0), 10)[:105].astype(np.float32)
    mean[100:] = 0.5
    _, kept = ShardMean(shard, "float32", is_whole=False).write(mean, 0.2)
    assert np.flatnonzero(kept).tolist() == [*range(80, 105)]


@pytest.mark.parametrize("wire", ["float32", "float16", "bfloat16"])
def test_no_value_is_lost_for_good(wire: str) -> None:
    """What was read so far and what is owed are the sum of all means."""
    random = np.random.default_rng(3)
    shard = shard_of(Region(500))
    owner, total, read = ShardMean(shard, wire, is_whole=False), np.zeros(500), np.zeros(500)
    for step in range(30):
        mean = random.standard_normal(500).astype(np.float32)
        total += mean
        read += owner.write(mean, 0.1)[1]
    assert np.abs(total - read).max() > 1
    # A share of one sends all that is owed.
    read += owner.write(np.zeros(500, np.float32), 1.0)[1]
    np.testing.assert_allclose(read, total, atol=0.1 if wire == "bfloat16" else 1e-2)


def test_infinity_is_always_sent_and_never_owed() -> None:
    shard = shard_of(Region(100))
    owner = ShardMean(shard, "float16", is_whole=False)
    mean = np.ones(100, np.float32)
    mean[[3, 57]] = np.inf, np.nan
    _, kept = owner.write(mean, 0.01)
    assert np.isinf(kept[3]) and np.isnan(kept[57])
    _, kept = owner.write(np.zeros(100, np.float32), 1.0)
    assert np.isfinite(kept).all()


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xff\xff" + bytes(7)])
def test_bits_that_are_cut_off_or_lie(data: bytes) -> None:
    """The receiver waits for more, or gets an error: never other values."""
    mean = ShardMean(shard_of(Region(100)), "float32", is_whole=False)
    try:
        length = mean.length([received(data)])
    except CollectiveError:
        return
    assert length > len(data)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("wire", [None, "float16"])
def test_replicas_are_the_same(ranks: int, wire: str | None) -> None:
    """And the last, strict step makes up for all that was left out."""
    steps, elements = 8, 40_000
    each: Options = options(
        groups=Uniform(0.2), missing="feedback", mean_share=0.1, wire=wire,
        msr_floor=strict_ends(steps, last=1),
    )  # fmt: skip

    def one(collective: Collective) -> tuple[bytes, Array, Array]:
        random = np.random.default_rng(collective.rank)
        got, mine, bits = np.zeros(elements), np.zeros(elements), b""
        for _ in range(steps):
            array = random.standard_normal(elements).astype(np.float32)
            mine += array
            mean = collective.all_reduce("array", array).result()
            bits, got = bits + mean.tobytes(), got + mean
        return bits, got, mine

    outcomes: list[Any] = run(ranks, one, lambda rank: each)
    for outcome in outcomes:
        assert not isinstance(outcome, BaseException), outcome
        assert outcome[0] == outcomes[0][0]
    exact = sum(outcome[2] for outcome in outcomes) / ranks
    np.testing.assert_allclose(outcomes[0][1], exact, atol=1e-5 if wire is None else 2e-2)


@pytest.mark.parametrize("elements", [0, 1, 2, 15])
def test_small_and_empty_shards(elements: int) -> None:
    each = options(groups=Uniform(1.0), missing="feedback", mean_share=0.5)

    def one(collective: Collective) -> Array:
        return collective.all_reduce("array", np.ones(elements, np.float32)).result()

    for got in run(3, one, lambda rank: each):
        assert not isinstance(got, BaseException), got
        assert got.tolist() == [1.0] * elements


@pytest.mark.parametrize(
    ("share", "missing", "sentence"),
    [(0.0, "feedback", "more than 0"), (1.5, "feedback", "1 at most"), (0.5, "zero", "needs missing")],
)
def test_options_that_make_no_sense(share: float, missing: str, sentence: str) -> None:
    with pytest.raises(CollectiveError, match=sentence):
        options(mean_share=share, missing=missing)
