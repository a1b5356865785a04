"""What another program may send or store. It gets one sentence, and nothing else."""

from __future__ import annotations

import json
import threading
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest

import atp
from atp.collective import Collective, CollectiveError, Region, Uniform, manifest, rendezvous
from atp.collective.inbox import AHEAD_MAX, EXACT, Budget, Inbox
from atp.collective.layout import Layout, Shard
from atp.collective.rendezvous import Rendezvous, join
from atp.collective.messages import unpack
from ranks import LIMIT_S, MemoryStore, options, run, successes

WIDTH = 10
OWN = manifest.pack(step=3, msrs=[0.9], unfit=None, wire="float16")


class Sent:
    """A message as the library hands it over."""

    def __init__(self, data: bytes, window: int = 0, group: int = 1, run: int = 9):
        self.data, self.window, self.group, self.run = memoryview(data), window, group, run

    def __len__(self) -> int:
        return len(self.data)


def shard(elements: int = 25) -> Shard:
    """Chunks of 10, 10 and 5 elements."""
    return Layout([Region(elements)], 1, WIDTH).shards[0]


def chunk(number: int, elements: int) -> bytes:
    return number.to_bytes(4, "little") + bytes(4 * elements)


@pytest.mark.parametrize("elements", [25, 0])
@pytest.mark.parametrize(
    "data",
    [
        b"\x01",
        chunk(3, 10),
        chunk(2**32 - 1, 10),
        chunk(2**32 - 1, 5),
        chunk(2, 10),  # The short one is full.
        chunk(0, 5),  # A full one is short.
        chunk(2, 4),
        chunk(0, 11),
        chunk(0, 0),
    ],
)
def test_chunks_that_are_not_in_the_layout(data: bytes, elements: int) -> None:
    with pytest.raises(CollectiveError, match="rank 1 sent a chunk that isn't in the layout"):
        unpack([Sent(data)], shard(elements), np.dtype("<f4"), 1)  # type: ignore[list-item]


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"7", b"[]", b"[" * 8_000, b"{" + b" " * 9_000 + b"}"],
)
def test_no_manifest(data: bytes) -> None:
    with pytest.raises(CollectiveError, match="rank 1 sent no manifest"):
        manifest.check(data, 1, OWN, 0, "array")


@pytest.mark.parametrize(
    "unfit",
    ["yes", True, [], [1], [1, 2], ["1", "a"], [10**400, "a"], [1.5, None], {"value": 1.5}, ...],
)
def test_a_manifest_without_a_word_about_its_values(unfit: object) -> None:
    """It doesn't follow that they are fit."""
    fields = json.loads(OWN)
    del fields["unfit"]
    if unfit is not ...:
        fields["unfit"] = unfit
    with pytest.raises(CollectiveError, match="rank 1 sent no manifest"):
        manifest.check(json.dumps(fields).encode(), 1, OWN, 0, "array")


def test_a_hostile_name_of_a_parameter() -> None:
    unfit = json.dumps({**json.loads(OWN), "unfit": [1e5, "\x1b[2J\n" * 500]}).encode()
    with pytest.raises(CollectiveError, match="array of rank 1 in step 3 has the value") as caught:
        manifest.check(unfit, 1, OWN, 0, "array")
    assert str(caught.value).isprintable() and len(str(caught.value)) < 800


@pytest.mark.parametrize(
    "changed",
    [{"step": "\x1b[2J\n" * 500}, {"step": {"a": [None]}}, {"new\n": 1}, {"msrs": 7}],
)
def test_a_manifest_of_other_values(changed: dict[str, Any]) -> None:
    data = json.dumps({**json.loads(OWN), **changed}).encode()
    with pytest.raises(CollectiveError, match="rank 1 and rank 0 disagree on") as caught:
        manifest.check(data, 1, OWN, 0, "array")
    assert str(caught.value).isprintable() and len(str(caught.value)) < 1_200


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("session", "no JSON"),
        ("session", "[" * 100_000),
        ("session", "[]"),
        ("session", '{"first_job": Infinity, "token": "00112233445566778899aabbccddeeff"}'),
        ("session", '{"first_job": -1, "token": "00112233445566778899aabbccddeeff"}'),
        ("session", '{"first_job": 7, "token": ""}'),
        ("session", '{"first_job": 7, "token": "zz"}'),
        ("rank/0", "7"),
        ("rank/0", '["127.0.0.1"]'),
        ("rank/0", '["127.0.0.1", "x", 1]'),
    ],
)
def test_a_store_with_values_of_another_program(key: str, value: str) -> None:
    store = MemoryStore()
    store.set("here/session", '{"first_job": 7, "token": "00112233445566778899aabbccddeeff"}')
    store.set("here/rank/0", json.dumps(["127.0.0.1", 9, manifest.VERSION]))
    join(store, "here", 1, 2, ("127.0.0.1", 9), 0.1)
    store.set(f"here/{key}", value)
    with pytest.raises(CollectiveError, match="the store has values of another program"):
        join(store, "here", 1, 2, ("127.0.0.1", 9), 0.1)


def test_every_rank_sees_a_rank_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    class Newer(MemoryStore):
        def set(self, key: str, value: str, /) -> None:
            told = json.loads(value)
            if key.endswith("rank/2"):
                told[2] += 1
            super().set(key, json.dumps(told))

    monkeypatch.setattr("ranks.MemoryStore", Newer)
    for outcome in run(3, lambda collective: None, lambda rank: options(timeout_s=5.0)):
        assert isinstance(outcome, CollectiveError)
        assert "rank 2 has version" in str(outcome)


def test_a_stranger_s_job_has_no_place() -> None:
    known = Rendezvous(0, [("10.0.0.1", 5), ("10.0.0.2", 5)], 1_000, bytes(16))
    assert known.place(known.job(3, 1), ("10.0.0.2", 7)) == (3, 1)
    for job, address in (
        (known.job(3, 1), "10.0.0.9"),
        (known.job(3, 0), "10.0.0.1"),
        (known.job(3, 2), "10.0.0.2"),
        (known.job(-1, 1), "10.0.0.2"),
        (known.job(rendezvous._SERIALS, 1), "10.0.0.2"),
    ):
        assert known.place(job, (address, 7)) is None


def test_an_abort_message_is_one_line() -> None:
    known = Rendezvous(0, [("10.0.0.1", 5), ("10.0.0.2", 5)], 1_000, bytes(16))
    data = memoryview(known.abort_message("") + b"a\nb\x1b[2J\xff" + b"c" * 5_000)
    assert known.is_abort(data)
    assert str(known.abort_reason(data, 1)).startswith("rank 1: a b [2J")
    assert str(known.abort_reason(data, 1)).isprintable()


def test_another_run_of_a_rank_s_job_changes_nothing() -> None:
    """A stranger knows the job id, which is in every packet, but not the hello. It may forge the
    rank's address and port."""
    inbox = Inbox(b"hello")
    stranger, rank = 7, 8
    for data in (b"llo", b"hell", b"HELLO and more"):
        inbox.add(1, Sent(data, 0, EXACT, stranger))  # type: ignore[arg-type]
    inbox.add(1, Sent(chunk(0, 10), 0, 1, stranger))  # type: ignore[arg-type]
    inbox.end_window(1, stranger, 0)
    inbox.leave(1, stranger)
    with pytest.raises(CollectiveError, match="rank 1 is too late with it"):
        inbox.take_window(1, 0, 0.0, "it", lambda: None)
    inbox.add(1, Sent(b"hello: a manifest", 0, EXACT, rank))  # type: ignore[arg-type]
    inbox.add(1, Sent(chunk(1, 10), 0, 1, rank))  # type: ignore[arg-type]
    inbox.end_window(1, rank, 0)
    inbox.leave(1, stranger)
    assert not inbox.has_left(1)
    taken = inbox.take_window(1, 0, time.monotonic() + 9, "it", lambda: None)
    assert [message.run for message in taken] == [rank, rank]
    # The first hello counts.
    inbox.add(1, Sent(b"hello", 1, EXACT, stranger))  # type: ignore[arg-type]
    inbox.end_window(1, stranger, 1)
    with pytest.raises(CollectiveError, match="rank 1 is too late with it"):
        inbox.take_window(1, 1, 0.0, "it", lambda: None)


def test_strangers_take_no_memory() -> None:
    inbox = Inbox(b"hello")
    tracemalloc.start()
    try:
        for number in range(200_000):
            data = number.to_bytes(4, "little") + bytes(1_500)
            sent = Sent(data, number % AHEAD_MAX, number % 3, run=number)
            inbox.add(number % 15, sent)  # type: ignore[arg-type]
            inbox.end_window(number % 15, sent.run, number % AHEAD_MAX)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1 << 20


def test_windows_of_the_future_take_no_memory() -> None:
    inbox = Inbox(b"hello")
    inbox.add(1, Sent(b"hello", 0, EXACT))  # type: ignore[arg-type]
    for window in range(AHEAD_MAX + 50):
        inbox.add(1, Sent(b"12345", window, EXACT))  # type: ignore[arg-type]
        inbox.end_window(1, 9, window)
    assert len(inbox._windows) == len(inbox._ended) == AHEAD_MAX


@pytest.mark.parametrize("data", [b"12345", bytes(100)])
def test_a_rank_that_sends_more_than_an_array_has(data: bytes) -> None:
    """It has another version, or a host on the path adds messages."""
    inbox = Inbox(b"hello")
    inbox.budget = Budget(messages=9, bytes=300)
    inbox.add(1, Sent(b"hello", 0, EXACT))  # type: ignore[arg-type]
    for _ in range(1_000):
        inbox.add(1, Sent(data, 1, 1))  # type: ignore[arg-type]
    assert "rank 1 sent more than the array has" in str(inbox.failure)
    assert inbox._windows[1, 1].bytes <= 300 and len(inbox._windows[1, 1].messages) <= 9


def test_a_stranger_that_floods_a_rank() -> None:
    """It knows the job ids of all arrays, also of those that don't exist."""
    step_over = threading.Barrier(3)

    def one(collective: Collective) -> tuple[float, int]:
        known = collective._rendezvous
        if collective.rank == 2:
            for serial in (0, 1, 700):
                group = atp.Group(1, msr=0.5)
                job = atp.Job(known.addresses[0], id=known.job(serial, 1), groups=[group])
                job.send_many([bytes(1_200)] * 2_000, 1)
                assert job.finish().groups[0].delivered >= 1_000
        step_over.wait(LIMIT_S)
        got = [collective.all_reduce("array", np.full(500, float(step))) for step in range(3)]
        error = max(float(abs(each.result() - step).max()) for step, each in enumerate(got))
        assert error == 0.0 and set(collective._inboxes) == {0}
        # All have read the last mean.
        step_over.wait(LIMIT_S)
        return error, collective.stats.messages_refused

    outcomes = successes(run(3, one, lambda rank: options(groups=Uniform(1.0))))
    refused = [count for _, count in outcomes]
    assert refused[0] >= 3_000 and refused[1:] == [0, 0]
