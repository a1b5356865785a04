"""The parts of an all-reduce by themselves: the order of chunks, and the value of a lost one."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest

import atp
from atp.collective.channel import Channel
from atp.collective.contribution import Batch, Contribution, chunk_seed
from atp.collective.groups import Chunks, Magnitude, assigned
from atp.collective import CollectiveError, Stats
from atp.collective.hadamard import rotate, rotate_back
from atp.collective.inbox import Inbox
from atp.collective.layout import Layout, Region
from atp.collective.messages import HEAD_BYTES
from atp.collective.plan import Kind, Operation, planned
from atp.collective.reduction import Reduction
from atp.collective.values import WIRES, Array, are_finite, decode, encode
from ranks import options

WIDTH = 10
ELEMENTS = 95
"""Ten chunks; the last one is short."""


def report(batch: Batch, *lost: range) -> atp.WindowReport:
    """The transport's report of a window with one batch, of which these messages were lost."""
    sent, number = len(batch.messages), sum(map(len, lost))
    group = atp.GroupReport(batch.group, sent, sent - number, 0, number, 0.0, lost)
    return atp.WindowReport(0, True, (group,))


def shard() -> Any:
    return Layout([Region(ELEMENTS)], 1, WIDTH).shards[0]


def rows_of(values: Array) -> Array:
    rows = np.zeros((10, WIDTH), np.float32)
    shard().to_rows(values, rows)
    return rows


def reduced(missing: str, arrived: Array) -> tuple[Array, Array, Array]:
    """The mean of two ranks, of which the other one's chunks arrived in part."""
    random = np.random.default_rng(1)
    own, other = (random.standard_normal(ELEMENTS).astype(np.float32) for _ in range(2))
    reduction = Reduction(shard(), options(missing=missing), "float32", 2, 0)
    reduction.begin(own)
    reduction.add(np.where(arrived[:, None], rows_of(other), 0), arrived)
    return reduction.mean(), own, other


ARRIVED = np.arange(10) % 3 != 0


@pytest.mark.parametrize("missing", ["zero", "feedback"])
def test_a_lost_chunk_is_zero(missing: str) -> None:
    mean, own, other = reduced(missing, ARRIVED)
    there = np.repeat(ARRIVED, WIDTH)[:ELEMENTS]
    np.testing.assert_allclose(mean, np.where(there, own + other, own) / 2, rtol=1e-6)


def test_a_lost_chunk_is_left_out_of_the_mean() -> None:
    mean, own, other = reduced("mean", ARRIVED)
    there = np.repeat(ARRIVED, WIDTH)[:ELEMENTS]
    np.testing.assert_allclose(mean, np.where(there, (own + other) / 2, own), rtol=1e-6)


def test_rotated_values_are_unbiased() -> None:
    """The mean over many rotations is that of all values, although a third is lost each time."""
    random = np.random.default_rng(2)
    other = random.standard_normal(ELEMENTS).astype(np.float32)
    sums = np.zeros(ELEMENTS)
    for seed in range(600):
        reduction = Reduction(shard(), options(missing="hadamard"), "float32", 2, seed)
        reduction.begin(np.zeros(ELEMENTS, np.float32))
        arrived = np.random.default_rng(seed).permutation(10) < 7
        rows = np.zeros((10, WIDTH), np.float32)
        shard().to_rows(rotate(other, seed), rows)
        reduction.add(np.where(arrived[:, None], rows, 0), arrived)
        sums += reduction.mean() * 2
    # The blocks that are longer than a chunk.
    slope = (sums[:64] / 600 @ other[:64]) / (other[:64] @ other[:64])
    assert abs(slope - 1) < 0.05, slope


def test_rotating_back_is_the_inverse() -> None:
    values = np.random.default_rng(3).standard_normal(40_001).astype(np.float32)
    turned = rotate(values, 5)
    assert np.abs(turned - values).max() > 1
    np.testing.assert_allclose(rotate_back(turned, 5), values, atol=1e-4)


def test_the_largest_chunks_are_sent_first() -> None:
    values = np.zeros(ELEMENTS, np.float32)
    values[::WIDTH] = [3, 9, 1, 7, 5, 0, 2, 8, 4, 6]
    (batch,) = Contribution(shard(), options(), "float32", 0).batches(values, 0)
    assert batch.chunks.tolist() == [1, 7, 3, 9, 4, 8, 0, 6, 2, 5]
    full, short = HEAD_BYTES + 40, HEAD_BYTES + 20
    assert [len(message) for message in batch.messages] == [full] * 3 + [short] + [full] * 6


def test_a_large_short_chunk_is_sent_first() -> None:
    values = np.ones(ELEMENTS, np.float32)
    values[-5:] = [8, 9, 10, 11, 12]
    (batch,) = Contribution(shard(), options(), "float32", 0).batches(values, 0)
    assert batch.chunks.tolist() == [9, 0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert batch.messages[0] == (9).to_bytes(HEAD_BYTES, "little") + values[-5:].tobytes()


def test_feedback_sends_short_chunks_too() -> None:
    """A good network leaves out the last chunks of a group."""
    contribution = Contribution(shard(), options(missing="feedback"), "float32", 0)
    arrived: set[int] = set()
    for step in range(10):
        (batch,) = contribution.batches(np.ones(ELEMENTS, np.float32), step)
        arrived.update(batch.chunks[:5].tolist())
        assert contribution.on_report(report(batch, range(5, 10))) == 0
    assert arrived == set(range(10))


def test_seeds_differ_between_steps_and_owners() -> None:
    seeds = [chunk_seed(step, owner) for step in range(3) for owner in range(16)]
    assert len({seed + use for seed in seeds for use in (0, 1)}) == 3 * 16 * 2


def test_a_layout_takes_numbers_of_numpy() -> None:
    """Also numpy 2, which writes them in another way."""
    plain = Layout([Region(60, "a", True), Region(40)], 2, 10, [70, 30])
    first: Any = (np.int64(60), np.str_("a"), np.True_)
    shards: Any = np.array([70, 30])
    layout = Layout([Region(*first), Region(40)], 2, 10, shards)
    assert layout.digest == plain.digest
    assert json.dumps([layout.elements, *((shard.start, shard.stop) for shard in layout.shards)])
    kinds = [type(part) for of in layout.regions for part in (of.elements, of.name, of.exact)]
    assert kinds == [int, str, bool] * 2


def test_the_order_goes_by_the_sum_of_squares() -> None:
    values = np.zeros(ELEMENTS, np.float32)
    values[0], values[WIDTH : 2 * WIDTH] = 3, 1  # A sum of 9, and one of 10.
    (batch,) = Contribution(shard(), options(), "float32", 0).batches(values, 0)
    assert batch.chunks.tolist()[:2] == [1, 0]


def test_feedback_adds_what_was_lost() -> None:
    contribution = Contribution(shard(), options(missing="feedback"), "float32", 0)
    values = np.arange(ELEMENTS, dtype=np.float32)
    (batch,) = contribution.batches(values, 0)
    assert contribution.on_report(report(batch, range(0, 2))) == 0
    (again,) = contribution.batches(np.zeros(ELEMENTS, np.float32), 1)
    owed = set(batch.chunks[:2].tolist())
    for chunk, message in zip(again.chunks.tolist(), again.messages, strict=True):
        sent = np.frombuffer(bytes(message[HEAD_BYTES:]), np.float32)
        expected = rows_of(values)[chunk][: len(sent)] if chunk in owed else np.zeros(len(sent))
        assert sent.tolist() == expected.tolist()


def test_feedback_adds_what_rounding_took() -> None:
    contribution = Contribution(shard(), options(missing="feedback", wire="float16"), "float16", 0)
    values = np.full(ELEMENTS, 1 + 2**-12, np.float32)  # 1 as half precision.
    (batch,) = contribution.batches(values, 0)
    assert contribution.on_report(report(batch, range(2, 3))) == 0
    (again,) = contribution.batches(np.zeros(ELEMENTS, np.float32), 1)
    for chunk, message in zip(again.chunks.tolist(), again.messages, strict=True):
        sent = np.frombuffer(message[HEAD_BYTES:], np.float16)
        assert set(sent.tolist()) == {1.0 if chunk == batch.chunks[2] else 2**-12}


UNKNOWN = atp.UnknownIds("names_missing", "the ids of lost messages are not known: no receipt came")


def unknown(batch: Batch, lost: int) -> atp.WindowReport:
    """As ``report``, if receipts named too few messages."""
    sent = len(batch.messages)
    group = atp.GroupReport(batch.group, sent, sent - lost, 0, lost, 0.0, UNKNOWN)
    return atp.WindowReport(0, True, (group,))


@pytest.mark.parametrize("wire", ["float32", "float16"])
def test_feedback_owes_the_share_that_was_lost_if_no_rank_knows_which(wire: str) -> None:
    contribution = Contribution(shard(), options(missing="feedback", wire=wire), wire, 0)
    values = np.random.default_rng(7).standard_normal(ELEMENTS).astype(np.float32)
    (batch,) = contribution.batches(values, 0)
    assert contribution.on_report(unknown(batch, 3)) == 10
    sent = decode(encode(values, wire), wire)
    (again,) = contribution.batches(np.zeros(ELEMENTS, np.float32), 1)
    expected = rows_of(values - sent + np.float32(0.3) * sent)
    for chunk, message in zip(again.chunks.tolist(), again.messages, strict=True):
        owed = np.frombuffer(message[HEAD_BYTES:], np.dtype(wire))
        np.testing.assert_allclose(owed, expected[chunk][: len(owed)], rtol=1e-3, atol=1e-4)


def test_feedback_needs_no_ids_if_nothing_was_lost() -> None:
    contribution = Contribution(shard(), options(missing="feedback"), "float32", 0)
    (batch,) = contribution.batches(np.ones(ELEMENTS, np.float32), 0)
    assert contribution.on_report(unknown(batch, 0)) == 0
    (again,) = contribution.batches(np.zeros(ELEMENTS, np.float32), 1)
    assert all(not any(message[HEAD_BYTES:]) for message in again.messages)


def test_the_user_learns_of_losses_that_no_report_names() -> None:
    stats = Stats()
    plan = planned("array", Kind.of(Operation.ALL_REDUCE, np.ones(95), None, None, None), options(), 2)
    channel = Channel(plan, 0, options(), Inbox(b"G"), lambda *_: None, stats, CollectiveError)
    channel.stop()
    part = Contribution(plan.layout.shards[1], options(missing="feedback"), "float64", 0)
    channel._parts[1] = part
    for _ in range(2):
        (batch,) = part.batches(np.ones(plan.layout.shards[1].elements), 0)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            channel._on_report(1, unknown(batch, 1))
        first = stats.chunks_unknown == len(batch.messages)
        texts = [str(warning.message) for warning in told]
        assert [text.startswith("rank 1 didn't tell which of") for text in texts] == [True] * first
    assert stats.chunks_unknown == 2 * len(batch.messages) > 0


def test_groups_by_magnitude_are_the_papers() -> None:
    chunks = Chunks(np.array([[0.0005], [-0.001], [0.002], [0.0025], [1.0]]), [])
    assert assigned(Magnitude(), chunks).tolist() == [0, 1, 1, 2, 2]


@pytest.mark.parametrize("wire", WIRES)
def test_finite_values_are_those_that_are_finite_on_the_wire(wire: str) -> None:
    edges = [65_519.99, 65_520.0, 3.3895e38, 3.39617752e38, 3.3961777e38, 3.4028234e38, 0.0]
    single = np.array([*edges, *np.negative(edges), np.nan, np.inf, -np.inf], np.float32)
    double = np.array([3.4028235677973362e38, 3.4028235677973366e38, 1e308], np.float64)
    for value in (*single, *(double if wire in ("float32", "float64") else ())):
        row = np.array([[1.0, value, 0.0]])
        expected = np.isfinite(decode(encode(row, wire), wire)).all(axis=1)
        assert are_finite(row, wire).tolist() == expected.tolist(), value


def test_bfloat16_rounds_to_the_nearest_even() -> None:
    values = np.array([1.0, 1.00390625, 1.01171875, -2.5, np.nan, np.inf, 1e-40], np.float32)
    got = decode(encode(values, "bfloat16"), "bfloat16")
    assert got[:4].tolist() == [1.0, 1.0, 1.015625, -2.5]
    assert np.isnan(got[4]) and np.isinf(got[5])
