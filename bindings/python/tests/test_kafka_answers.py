"""Windows as tables, and answers about all of their records."""

from __future__ import annotations

import importlib
import json
import random
from typing import Any

import pytest

import atp
from atp.kafka import Record, Window
from ends import Call
from streams import inbox, lossy, offsets, outbox, take

pandas: Any = importlib.import_module("pandas")  # It has no types.
pyarrow: Any = importlib.import_module("pyarrow")

RECORDS = 4_000


def value(offset: int) -> dict[str, Any]:
    return {"delay": offset % 40, "carrier": ("UA", "AA")[offset % 2], "at": {"gate": offset % 3}}


def window(rng: random.Random, share: float, msr: float) -> Window:
    """A window of JSON, of which this share of packets is lost."""
    with inbox() as received, lossy(received.address, rng, share) as path:
        with outbox(path, records=RECORDS, groups={"readings": msr}) as sender:

            def send() -> None:
                for offset in range(RECORDS):
                    group = "readings" if offset % 8 else None
                    sender.send(offset, json.dumps(value(offset)), group=group, timestamp=offset)

            sending = Call(send)
            (window,) = take(received, 1)
            sending.result()
    return window


@pytest.fixture(scope="module")
def incomplete() -> Window:
    """A window of which records are lost. Loss is that of a path, and what is needed arrives."""
    for seed in range(20):
        incomplete = window(random.Random(seed), 0.2, 0.7)
        if incomplete.lost:
            return incomplete
    raise AssertionError("nothing gets lost")


def test_answers_are_about_all_records(incomplete: Window) -> None:
    """The sample is random: the interval of 1 - 1e-9 misses the truth of 19.5 in one of a billion
    runs."""
    assert 0 < len(offsets(incomplete.lost)) <= 0.3 * RECORDS
    values = [value(offset)["delay"] for offset in range(RECORDS)]
    for of in ("delay", lambda record: record.json()["delay"]):
        mean = incomplete.mean(of, 1 - 1e-9)
        assert mean.contains(sum(values) / RECORDS) and 0 < mean.half_width < 5
        total = incomplete.sum(of, 1 - 1e-9)
        assert total.contains(sum(values)) and total.half_width > 0
    late = incomplete.count(lambda record: record.json()["delay"] >= 30, 1 - 1e-9)
    assert late.contains(RECORDS / 4) and late.half_width > 0
    count = incomplete.count()
    assert (count.value, count.half_width) == (RECORDS, 0)
    assert incomplete.mean("delay").confidence == 0.95
    assert not [text for text in incomplete.mean("delay").warnings if "shuffle" in text]


def test_answers_of_a_query(incomplete: Window) -> None:
    answers = incomplete.answers("SELECT avg(delay), count(*) GROUP BY carrier")
    assert [row[0] for row in answers.rows] == ["AA", "UA"]
    for _, mean, count in answers.rows:
        assert mean.half_width > 0 and count.value == pytest.approx(RECORDS / 2, rel=0.1)
    gates = incomplete.answers("count(*) by at").rows
    assert [row[0] for row in gates] == ['{"gate": 0}', '{"gate": 1}', '{"gate": 2}']
    with pytest.raises(atp.answers.QueryError, match="speed"):
        incomplete.answers("avg(speed)")


def test_answers_of_a_complete_window_are_exact(rng: random.Random) -> None:
    complete = window(rng, 0.0, 1.0)
    assert complete.lost == () and complete.received == RECORDS
    values = [value(offset)["delay"] for offset in range(RECORDS)]
    mean, total = complete.mean("delay"), complete.sum("delay")
    late = complete.count(lambda record: record.json()["delay"] >= 30)
    assert (mean.value, mean.half_width) == (sum(values) / RECORDS, 0)
    assert (total.value, total.half_width) == (sum(values), 0)
    assert (late.value, late.half_width) == (RECORDS / 4, 0)
    assert mean.warnings == total.warnings == late.warnings == ()


def test_values_that_are_missing(incomplete: Window) -> None:
    def of(record: Record) -> float | None:
        return None if record.offset % 2 else 3.0

    mean = incomplete.mean(of)
    assert mean.value == pytest.approx(3.0)
    total = incomplete.sum(of, 1 - 1e-9)
    assert total.contains(1.5 * RECORDS)
    with pytest.raises(atp.answers.AnswerError):
        incomplete.mean(lambda _: None)
    with pytest.raises(TypeError, match="give the name of a field or a function"):
        incomplete.mean(7)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        incomplete.mean(lambda record: 1 / 0)


def test_a_value_that_is_no_object_says_so() -> None:
    with inbox() as received, outbox(received, records=3) as sender:
        for offset, text in enumerate(['{"a": 1}', None, "[2]"]):
            sender.send(offset, text)
        (window,) = take(received, 1)
        for call in (lambda: window.mean("a"), lambda: window.to_pandas(json=True)):
            with pytest.raises(ValueError, match="the value of record 2 is no JSON object"):
                call()
        assert window.mean(lambda record: len(record.value or b"")).value == pytest.approx(11 / 3)


def test_to_pandas(incomplete: Window) -> None:
    frame = incomplete.to_pandas()
    names = ["offset", "timestamp", "key", "value", "headers", "group", "weight"]
    assert list(frame.columns) == names and len(frame) == incomplete.received
    assert str(frame["timestamp"].dtype) == "datetime64[ms, UTC]"
    assert str(frame["offset"].dtype) == "uint64"
    first, record = frame.iloc[0], next(iter(incomplete))
    assert (first["offset"], first["value"]) == (record.offset, record.value)
    assert first["timestamp"] == record.timestamp and first["weight"] == record.weight
    assert set(frame["group"]) == {"exact", "readings"}
    assert frame["weight"].sum() == pytest.approx(RECORDS)
    parsed = incomplete.to_pandas(json=True)
    assert list(parsed.columns) == [*names[:3], *names[4:], "delay", "carrier", "at"]
    assert (parsed["delay"] == parsed["offset"] % 40).all()


def test_to_pandas_of_fields_with_the_names_of_columns() -> None:
    with inbox() as received, outbox(received, records=2) as sender:
        sender.send(7, '{"offset": 1, "n": 2}')
        sender.send(8, None)
        (window,) = take(received, 1)
        frame = window.to_pandas(json=True)
        assert list(frame["record_offset"]) == [7, 8] and frame["offset"][0] == 1
        assert pandas.isna(frame["n"][1]) and pandas.isna(frame["timestamp"]).all()
    with inbox() as received, outbox(received, records=1) as sender:
        sender.send(0, None, timestamp=1e14)
        (window,) = take(received, 1)
        assert len(window.to_pandas(json=True)) == 1
        assert next(iter(window)).timestamp is None


def test_to_arrow(incomplete: Window) -> None:
    table = incomplete.to_arrow()
    assert table.schema.field("timestamp").type == pyarrow.timestamp("ms", "UTC")
    assert table.schema.field("value").type == pyarrow.large_binary()
    frame = incomplete.to_pandas()
    for name in ("offset", "value", "group", "weight", "key"):
        assert table[name].to_pylist() == frame[name].tolist(), name
    with inbox() as received, outbox(received, records=1) as sender:
        sender.send(0, None, headers=[("a", b"b"), ("a", None)])
        (window,) = take(received, 1)
        headers = [{"name": "a", "value": b"b"}, {"name": "a", "value": None}]
        assert window.to_arrow()["headers"].to_pylist() == [headers]
