"""Data frames as messages: what arrives is an Arrow stream of the same rows."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import atp
from atp.answers import Frame, Table, send_csv, send_dataframe
from ends import bind

# They have no types.
pandas: Any = importlib.import_module("pandas")
pa: Any = importlib.import_module("pyarrow")
polars: Any = importlib.import_module("polars")
parquet: Any = importlib.import_module("pyarrow.parquet")

ROWS = 2_000


def table() -> Any:
    """A table of many types, some of whose values are missing."""
    rows = range(ROWS)
    return pa.table(
        {
            "i": pa.array(rows, pa.int64()),
            "x": pa.array([None if row % 7 == 0 else row / 8 for row in rows], pa.float64()),
            "text": [None if row % 5 == 0 else f"text {row}" for row in rows],
            "name": pa.array([["UA", "AA", "DL"][row % 3] for row in rows]).dictionary_encode(),
            "when": pa.array(
                [datetime(2026, 1, 1, row % 24, tzinfo=timezone.utc) for row in rows],
                pa.timestamp("us", tz="Europe/Berlin"),
            ),
            "day": [date(2026, 1, 1 + row % 28) for row in rows],
            "money": pa.array([Decimal(row) / 100 for row in rows], pa.decimal128(12, 2)),
            "flag": [row % 2 == 0 for row in rows],
            "list": [list(range(row % 4)) for row in rows],
            "nested": [{"a": row, "b": [str(row)]} for row in rows],
        }
    )


def received(receiver: atp.Receiver) -> tuple[bytes, list[bytes]]:
    """The header and the messages with rows of one sender."""
    header, messages = b"", []
    for event in receiver:
        if isinstance(event, atp.Finished):
            break
        if isinstance(event, atp.Message):
            if event.group == Table.ROWS_GROUP:
                messages.append(bytes(event.data))
            elif event.message == Table.HEADER_MESSAGE:
                header = bytes(event.data)
    return header, messages


def sent_through(data: Any, **options: Any) -> Any:
    """The rows that a receiver gets of a frame."""
    with bind() as receiver:
        got: list[tuple[bytes, list[bytes]]] = []
        thread = threading.Thread(target=lambda: got.append(received(receiver)), daemon=True)
        thread.start()
        report = send_dataframe(data, receiver.address, control_socket=None, **options)
        assert report.groups[0].delivered >= report.groups[0].needed
        thread.join(60)
    header, messages = got[0]
    return pa.ipc.open_stream(header + b"".join(messages)).read_all()


def test_a_table_arrives_with_its_types() -> None:
    whole = table()
    arrived = sent_through(whole)
    assert arrived.schema == whole.schema
    assert arrived["i"].to_pylist() != whole["i"].to_pylist()
    back = arrived.sort_by("i")
    assert back.to_pylist() == whole.to_pylist()


def test_frames_streams_and_batches_arrive() -> None:
    whole = table().select(["i", "x", "text"])
    frame = whole.to_pandas()
    reader = pa.RecordBatchReader.from_batches(whole.schema, whole.to_batches(max_chunksize=300))

    def batches() -> Iterator[Any]:
        yield from whole.to_batches(max_chunksize=300)

    for data in (frame, reader, batches(), whole.to_batches(max_chunksize=300)):
        back = sent_through(data, ordered=True, rows=100)
        assert back["i"].to_pylist() == list(range(ROWS))
        assert back["x"].null_count == sum(row % 7 == 0 for row in range(ROWS))
    # A part of the rows is a fair sample: some are missing, and none is there twice.
    some = sent_through(frame, msr=0.5, rows=10)["i"].to_pylist()
    assert len(set(some)) == len(some) >= ROWS // 2


def test_files_arrive(tmp_path: Path) -> None:
    whole = table()
    file = tmp_path / "a.parquet"
    parquet.write_table(whole, file)
    assert sent_through(file).sort_by("i").to_pylist() == whole.to_pylist()
    with pytest.raises(ValueError, match=r"must end with \.csv or \.parquet"):
        send_dataframe(tmp_path / "a.txt", "127.0.0.1:9")
    with pytest.raises(FileNotFoundError):
        send_dataframe(tmp_path / "none.parquet", "127.0.0.1:9")
    csv = tmp_path / "a.csv"
    csv.write_text("a\n1\n")
    before = csv.stat()

    class Changing(type(csv)):  # type: ignore[misc]
        def read_bytes(self) -> bytes:
            text = super().read_bytes()
            csv.write_text("a\n1\n2\n")
            return bytes(text)

    with pytest.raises(ValueError, match="changed while it was read"):
        send_csv("127.0.0.1:9", Changing(csv), control_socket=None)
    assert csv.stat().st_size > before.st_size


def test_bad_frames_are_refused() -> None:
    with pytest.raises(TypeError, match="data must be a data frame"):
        Frame(7)
    with pytest.raises(TypeError, match="batch 0 must have Arrow's interface"):
        Frame([7])
    with pytest.raises(ValueError, match="has no batch"):
        Frame([])
    with pytest.raises(ValueError, match="no column"):
        Frame(pandas.DataFrame())
    with pytest.raises(ValueError, match="no row: nothing was sent"):
        send_dataframe(table().slice(0, 0), "127.0.0.1:9")
    with pytest.raises(ValueError, match="batch 1 has other columns"):
        Frame([pa.record_batch({"a": [1]}), pa.record_batch({"b": [1]})])
    runs = pa.RunEndEncodedArray.from_arrays([2], ["a"])
    with pytest.raises(TypeError, match='column "runs" is of type'):
        Frame(pa.table({"runs": runs}))
    with pytest.raises(TypeError, match="send_dataframe sets groups itself"):
        send_dataframe(table(), "127.0.0.1:9", groups=[])
    with pytest.raises(ValueError, match="rows must be 1 at least"):
        Frame(table(), rows=0)

    def failing() -> Iterator[Any]:
        yield pa.record_batch({"a": [1]})
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        Frame(failing())


def of_stream(returned: object) -> Any:
    return type("OfStream", (), {"__arrow_c_stream__": lambda _: returned})()


def of_array(returned: object) -> Any:
    return type("OfArray", (), {"__arrow_c_array__": lambda _: returned})()


def test_wrong_capsules_are_refused() -> None:
    other = importlib.import_module("datetime").datetime_CAPI
    batch = pa.record_batch({"a": [1, 2]})
    schema, array = batch.__arrow_c_array__()
    for returned in (None, 7, other, array):
        with pytest.raises(TypeError, match='must return a capsule "arrow_array_stream", not'):
            Frame(of_stream(returned))
    for pair in ((schema, other), (other, array), (array, schema), (schema, None)):
        with pytest.raises(TypeError, match='must return a capsule "arrow_(schema|array)", not'):
            Frame(of_array(pair))
    for returned in (None, schema, (schema,), (schema, array, array)):
        with pytest.raises(TypeError, match="must return two capsules, not"):
            Frame(of_array(returned))
    # Refused capsules are still whole.
    assert len(Frame(of_array((schema, array)))) == 1


def test_consumed_capsules_are_refused() -> None:
    batch = pa.record_batch({"a": [1, 2]})
    stream = batch.__arrow_c_stream__()
    schema, array = batch.__arrow_c_array__()
    assert len(Frame(of_stream(stream))) == len(Frame(of_array((schema, array)))) == 1
    other_schema, other_array = batch.__arrow_c_array__()
    with pytest.raises(ValueError, match="returned what was read before"):
        Frame(of_stream(stream))
    for pair in ((schema, array), (schema, other_array)):
        with pytest.raises(ValueError, match="returned what was read before"):
            Frame(of_array(pair))


def test_arrays_without_columns_are_refused() -> None:
    for data in (pa.array([1]), pa.chunked_array([["a"]]), pandas.Series([1.5])):
        with pytest.raises(TypeError, match="data must have columns, not be of type"):
            Frame(data)
    with pytest.raises(ValueError, match="a row is missing as a whole"):
        Frame(pa.array([{"a": 1}, None]))
    assert len(Frame(pa.array([{"a": 1}, {"a": None}]).slice(1))) == 1


def test_streams_that_fail_are_refused() -> None:
    offsets, text = pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")
    broken = pa.StringArray.from_buffers(1, offsets, text)
    with pytest.raises(ValueError, match="reading the frame: .*UTF-?8"):
        Frame(pa.table({"text": broken}))

    def failing() -> Iterator[Any]:
        yield pa.record_batch({"a": [1]})
        raise ValueError("the disk is gone")

    with pytest.raises(ValueError, match=r"reading the frame: Invalid: the disk is gone\Z"):
        Frame(pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), failing()))


UNTYPED = {
    "Object": polars.Series([Path()], dtype=polars.Object),
    "Null": polars.Series([None]),
    "List.Null.": polars.Series([[]]),
    "Struct.*Null.*": polars.Series([{"text": "", "nothing": None}]),
}


@pytest.mark.parametrize("ordered", [False, True], ids=["", "ordered"])
@pytest.mark.parametrize("dtype", UNTYPED)
def test_polars_columns_without_a_type_of_arrow_are_refused(dtype: str, ordered: bool) -> None:
    """polars exports objects as their addresses in memory."""
    data = polars.DataFrame({"v": [1]}).with_columns(UNTYPED[dtype].alias("un\nknown"))
    wanted = rf"the column 'un\\nknown' has the type {dtype} of polars, .*: cast it"
    with bind() as receiver, pytest.raises(ValueError, match=wanted):
        batches = iter([data]) if ordered else data
        send_dataframe(batches, receiver.address, ordered=ordered, control_socket=None)
    # The other columns are sent, also where names and values look like those types.
    looks = polars.Series(["Null"], dtype=polars.Enum(["Null", "Object"])).alias("Object")
    assert sent_through(data.drop("un\nknown").with_columns(looks)).num_rows == 1
