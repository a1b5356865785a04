"""Sends a table to a receiver that answers a query of it."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atp._native import Frame, Job, Table  # type: ignore[attr-defined]  # typed in answers.pyi
from atp._stream import Stream, refuse_columns_of_polars
from atp._types import Group

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from atp._types import Address, JobOptions, MessageData, Report


def send_csv(
    peer: Address,
    csv: MessageData | str | Path,
    *,
    rows: int | None = None,
    ordered: bool = False,
    **options: Unpack[JobOptions],
) -> Report:
    """Sends a table to a receiver that answers a query of it: text, bytes, or the file at a
    ``Path``. The records are shuffled and sent without MRDF, so that those that arrive are a fair
    sample. With ``ordered`` they keep their order, and incomplete answers warn. Records with a
    value of several lines have a warning (``warnings``): a stray quote may have made one of
    several. ``options`` are those of ``Job``, such as ``msr``, without ``groups``, ``messages`` and
    ``order``. Raises ``ValueError`` for a file that changes while it is read."""
    _refuse_options_of_tables("send_csv", options)
    return _send(peer, _table_of(csv, rows, ordered), options)


def send_dataframe(
    data: Any,
    peer: Address,
    *,
    rows: int | None = None,
    ordered: bool = False,
    **options: Unpack[JobOptions],
) -> Report:
    """Sends a data frame to a receiver that answers a query of it, such as
    ``atp-user recv --query``. ``data`` is what ``atp.answers.Frame`` takes, or the path of a
    ``.csv`` or ``.parquet`` file; Parquet needs pyarrow. ``msr`` is 1 by default. The rest is as in
    ``send_csv``, with a message of ``rows`` rows, or of as many as fit a packet. With ``ordered``,
    an iterator of batches is sent as it comes; otherwise the rows of all batches are collected to
    be shuffled. Raises ``ValueError`` for a frame without rows, and for a file that changes while
    it is read."""
    if ordered and isinstance(data, Iterator):
        return _send_stream(peer, stream(data, rows, options), options)
    return _send(peer, divided(data, rows, ordered, options), options)


def stream(batches: Iterator[Any], rows: int | None, options: JobOptions) -> Stream:
    """The messages of ``send_dataframe`` for batches that are sent as they come."""
    _refuse_options_of_tables("send_dataframe", options)
    stream = Stream(batches, rows)
    stream.set_groups(options)
    return stream


def _send_stream(peer: Address, stream: Stream, options: JobOptions) -> Report:
    with Job(peer, **options) as job:
        for messages, group in stream.parts():
            job.send_many(messages, group)
        return job.finish()


def divided(data: Any, rows: int | None, ordered: bool, options: JobOptions) -> Table | Frame:
    """The messages of ``send_dataframe``, whose options are checked before."""
    _refuse_options_of_tables("send_dataframe", options)
    if isinstance(data, (str, os.PathLike)):
        path = Path(data)
        if path.suffix == ".csv":
            return _table_of(path, rows, ordered)
        data = _parquet(path)
    refuse_columns_of_polars(data)
    frame = Frame(data, rows=rows, ordered=ordered)
    if len(frame) == 0:
        raise ValueError("the frame has no row: nothing was sent")
    return frame


def _table_of(csv: MessageData | str | Path, rows: int | None, ordered: bool) -> Table:
    table = Table(_text_of(csv) if isinstance(csv, Path) else csv, rows=rows, ordered=ordered)
    if table.note is not None:
        warnings.warn(table.note, stacklevel=3)
    if len(table) == 0:
        raise ValueError("the CSV holds no record: nothing was sent")
    return table


def _refuse_options_of_tables(name: str, options: JobOptions) -> None:
    if set_by_table := {"groups", "messages", "order"} & options.keys():
        raise TypeError(f"{name} sets {' and '.join(sorted(set_by_table))} itself")


def _send(peer: Address, table: Table | Frame, options: JobOptions) -> Report:
    set_groups(table, options)
    with Job(peer, **options) as job:
        job.send_many(table.heads, Table.HEADER_GROUP)
        job.send_many(rows_of(table), Table.ROWS_GROUP)
        return job.finish()


def rows_of(table: Table | Frame) -> Frame | list[bytes]:
    """The messages with rows, for ``send_many``."""
    return table if isinstance(table, Frame) else table.messages


def set_groups(table: Table | Frame, options: JobOptions) -> None:
    """Sets the options of the job that sends a table."""
    msr = options.pop("msr", 1.0)
    options["groups"] = [
        Group(Table.ROWS_GROUP, msr, len(table), "rows", table.order),
        Group(Table.HEADER_GROUP, messages=len(table.heads), name="header"),
    ]
    # MRDF would deliver the short messages: no fair sample.
    options.setdefault("mrdf", False)


def _text_of(path: Path) -> bytes:
    """The bytes of a file that stays the same meanwhile."""
    before = _state(path)
    text = path.read_bytes()
    _refuse_change(path, before)
    return text


def _parquet(path: Path) -> Any:
    if path.suffix != ".parquet":
        raise ValueError(f"{path} must end with .csv or .parquet: read other files into a frame")
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise ImportError(f"reading {path} needs pyarrow: install it, or send a frame") from None
    before = _state(path)
    table = parquet.read_table(path, memory_map=False)
    _refuse_change(path, before)
    return table


def _state(path: Path) -> tuple[int, int, int]:
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns


def _refuse_change(path: Path, before: tuple[int, int, int]) -> None:
    if _state(path) != before:
        raise ValueError(f"{path} changed while it was read: nothing was sent")
