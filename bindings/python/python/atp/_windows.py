"""Windows of a stream's records, as a receiver gets them."""

from __future__ import annotations

import json as _json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, TypeAlias

from atp import _show
from atp._answers import Number

if TYPE_CHECKING:
    from atp._answers import Answers
    from atp._native import Record, Records
    from atp.answers import Estimate

LOG = logging.getLogger("atp.kafka")
"""Senders that are refused are warnings. Repeated and unfinished windows are information."""

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
CONFIDENCE = 0.95
VALUE = "value"
OWN = ("offset", "timestamp", "key", "headers", "group", "weight")
"""The columns of a data frame beside the value's."""

Of: TypeAlias = "str | Callable[[Record], Number]"
"""A field of the values, which are JSON objects, or a function of the record. ``None`` and NaN are
missing."""


def time_of(time_ms: int) -> datetime | None:
    """Milliseconds since 1970 as a time; ``None`` beyond the years 1 to 9999."""
    try:
        return EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return None


@dataclass(frozen=True, slots=True)
class WindowGroup:
    """The records of a group."""

    name: str
    """The name. Records without a sampling rate are in ``exact``."""
    number: int
    """The number of the group in warnings of answers, which call it a stratum."""
    msr: float
    """The minimal sampling rate of the group's records."""
    records: int
    """N, the number of records."""
    arrived: int
    """The records that arrived."""
    received: int
    """The records that arrived and were not counted before."""


@dataclass(frozen=True, slots=True)
class WindowStats:
    """Counters of a receiver of windows."""

    windows: int
    """Windows that were confirmed and have counted, in whole or in part."""
    repeated: int
    """Windows all of whose records had been counted. The loop doesn't get them."""
    unfinished: int
    """Windows that a sender didn't finish: it failed, or another one has replaced it."""
    malformed: int
    """Senders that were refused, because their bytes are no window."""
    no_memory: int
    """Senders that have to send again, because windows needed more than ``memory_bytes_max``."""
    received: int
    """Records of confirmed windows that arrived."""
    lost: int
    """Records of confirmed windows that didn't arrive."""
    records_repeated: int
    """Records that had been counted before."""
    skipped: int
    """Offsets that no window has brought."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Window:
    """A window of a topic's partition that has ended. Iterates over its records.

    ``received`` records, the ``lost`` ones, the ``refused`` ones and those that are ``repeated``
    are all of the window's ``records``."""

    cluster: str
    """The id of the cluster."""
    topic: str
    """The topic."""
    partition: int
    """The partition of the topic."""
    group: str
    """The group of consumers that the sender belongs to. Each counts a partition once."""
    number: int
    """The number of the window. By event time it is the time divided by the windows' length."""
    part: int
    """The part of the window, from 0 on. A window beyond its sender's memory has several."""
    is_last_part: bool
    """Whether no part follows."""
    start: datetime | None
    """The beginning in event time (UTC); ``None`` for windows by number."""
    end: datetime | None
    """The end in event time, which the window excludes."""
    epoch: int
    """How often the partition was assigned to a sender, this time included."""
    first_offset: int | None
    """The first offset of the window."""
    next_offset: int
    """This window and earlier ones have all records below this offset."""
    offsets: tuple[range, ...]
    """The offsets of all its records, as ascending ranges."""
    records: int
    """N, the number of its records."""
    received: int
    """The number of records that arrived and were not counted before."""
    lost: tuple[range, ...]
    """The offsets that didn't arrive and were not counted before, as ascending ranges."""
    refused: tuple[range, ...]
    """The offsets of records that are too long to be sent, and were not counted before."""
    repeated: int
    """The number of its records that were counted before: 0, unless a restarted sender has cut its
    windows differently. They aren't among the records here."""
    late: int
    """The number of records whose own window had ended before they came."""
    skipped: int
    """Offsets before the window that no window has brought: records have expired, or somebody has
    moved the sender's offset."""
    groups: dict[str, WindowGroup]
    """The groups of records by name."""
    _records: Records = field(repr=False)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.all())

    def __repr__(self) -> str:
        lost = sum(part.stop - part.start for part in self.lost)
        part = "" if self.part == 0 and self.is_last_part else f", part {self.part + 1}"
        return (
            f"<atp.kafka.Window {self.number}{part} of {self.topic} [{self.partition}]: "
            f"{self.received} of {self.records} records, {lost} lost>"
        )

    def mean(self, of: Of, confidence: float = CONFIDENCE) -> Estimate:
        """The mean of a field, or of a function of the record, over all records of the window, lost
        ones included. Records without a value are left out."""
        return self._estimate(f"avg({VALUE})", _function(of), confidence)

    def sum(self, of: Of, confidence: float = CONFIDENCE) -> Estimate:
        """The sum over all records of the window, lost ones included. Records without a value add
        nothing."""
        return self._estimate(f"sum({VALUE})", _function(of), confidence)

    def count(
        self, of: Callable[[Record], object] | None = None, confidence: float = CONFIDENCE
    ) -> Estimate:
        """The number of records for which the function is true, lost ones included; without one,
        the number of all records, which is known."""
        if of is None:
            return self._estimate("count(*)", lambda _: 1, confidence)
        return self._estimate(f"count({VALUE})", lambda record: 1 if of(record) else None, confidence)

    def answers(self, query: str, confidence: float = CONFIDENCE) -> Answers:
        """The answers of a query, such as ``"avg(delay) by carrier"``, over all records of the
        window, lost ones included. Its columns are the fields of the values, which are JSON
        objects. A field that is a list or an object is a text."""
        fields = {record.offset: _fields(record) for record in self}
        columns = list(dict.fromkeys(name for row in fields.values() for name in row))

        def row(record: Record) -> list[Any]:
            values = fields[record.offset]
            return [_cell(values.get(name)) for name in columns]

        return self._answers(query, columns, row, confidence)

    def to_pandas(self, *, json: bool = False) -> Any:
        """A data frame of pandas with the columns ``offset``, ``timestamp``, ``key``, ``value``,
        ``headers``, ``group`` and ``weight``. With ``json`` it has a column for each field of the
        values, which are JSON objects, in the place of ``value``; a column whose name a field has
        is called ``record_offset``, and so on."""
        pandas = _show.module("pandas", "to_pandas")
        columns = self._records.columns()
        times = pandas.array(columns["timestamp"], dtype="Int64")
        columns["timestamp"] = _times(pandas, times)
        columns["offset"] = pandas.array(columns["offset"], dtype="uint64")
        columns["group"] = pandas.Categorical(columns["group"], categories=list(self.groups))
        if not json:
            return pandas.DataFrame(columns)
        fields = pandas.DataFrame([_fields(record) for record in self])
        if fields.empty:
            fields = pandas.DataFrame(index=range(self.received))
        del columns["value"]
        named = {f"record_{name}" if name in fields else name: of for name, of in columns.items()}
        return pandas.concat([pandas.DataFrame(named), fields], axis="columns")

    def to_arrow(self) -> Any:
        """A table of pyarrow with the columns of ``to_pandas``."""
        return _show.module("pyarrow", "to_arrow").table(self._records.batches())

    def _estimate(
        self, query: str, of: Callable[[Record], Number], confidence: float
    ) -> Estimate:
        answers = self._answers(query, [VALUE], lambda record: [of(record)], confidence)
        estimate: Estimate = answers.rows[0][1]
        return estimate

    def _answers(
        self,
        query: str,
        columns: Sequence[str],
        row: Callable[[Record], list[Any]],
        confidence: float,
    ) -> Answers:
        """The records of a group are a simple random sample: each is a message of its own. Those
        that were counted before have no row."""
        answering = self._records.answering(query, columns)
        for group, record in self._records.sample():
            answering.push_message(group, [] if record is None else [row(record)])
        return answering.answers(confidence)


def _function(of: Of) -> Callable[[Record], Number]:
    if callable(of):
        return of
    if not isinstance(of, str):
        raise TypeError(f"give the name of a field or a function of the record, not {of!r}")
    return lambda record: _fields(record).get(of)


def _fields(record: Record) -> dict[str, Any]:
    """The fields of a value; none of a record without a value."""
    value = record.json()
    if value is None and record.value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(
            f"the value of record {record.offset} is no JSON object: give a function of the "
            "record, such as lambda record: float(record.value)"
        )
    return value


def _cell(value: Any) -> Any:
    return _json.dumps(value) if isinstance(value, dict | list) else value


def _times(pandas: Any, times_ms: Any) -> Any:
    """Times of the unit ms. Those beyond pandas' range are missing."""
    return pandas.to_datetime(times_ms, unit="ms", utc=True, errors="coerce").as_unit("ms")
