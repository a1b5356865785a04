"""Batches that are sent as they come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from atp._native import Frame, Table  # type: ignore[attr-defined]  # typed in answers.pyi
from atp._types import Group

if TYPE_CHECKING:
    from atp._types import JobOptions


class Stream:
    """The messages of an iterator of batches, in their order and with a few batches in memory.
    The sender doesn't know their number before the end, and says it then."""

    def __init__(self, batches: Iterator[Any], rows: int | None) -> None:
        self._batches, self._rows = map(_checked, batches), rows
        frames = (Frame(batch, rows=rows, ordered=True) for batch in self._batches)
        first = next((frame for frame in frames if len(frame) > 0), None)
        if first is None:
            raise ValueError("the iterator has no row: nothing was sent")
        self._first = first

    def set_groups(self, options: JobOptions) -> None:
        """Sets the options of the job."""
        rows = Group(Table.ROWS_GROUP, options.pop("msr", 1.0), name="rows", order="ordered")
        options["groups"] = [rows, Group(Table.HEADER_GROUP, messages=2, name="header")]
        options.setdefault("mrdf", False)

    def parts(self) -> Iterator[tuple[list[bytes] | Frame, int]]:
        """Messages, and their group. Raises ``ValueError`` for a batch of another table."""
        first = self._first
        frame: Frame | None = first
        yield first.heads[:1], Table.HEADER_GROUP
        totals: dict[str, int] = {}
        while frame is not None:
            if len(frame) > 0:
                yield frame, Table.ROWS_GROUP
            for line in frame.heads[1].decode().splitlines():
                name, number = line.split()
                totals[name] = totals.get(name, 0) + int(number)
            following = (first.followed_by(batch, rows=self._rows) for batch in self._batches)
            frame = next(following, None)
        text = "".join(f"{name} {number}\n" for name, number in totals.items())
        yield [text.encode()], Table.HEADER_GROUP


def _checked(batch: Any) -> Any:
    refuse_columns_of_polars(batch)
    return batch


def refuse_columns_of_polars(data: Any) -> None:
    """Raises ``ValueError`` for a column of a type that polars exports otherwise than Arrow has
    it: of Python's objects it gives the addresses in memory, and nulls without a type have a
    buffer."""
    if not any(base.__module__.startswith("polars.dataframe") for base in type(data).__mro__):
        return
    for name, dtype in data.schema.items():
        if {"Object", "Null"} & set(_types(dtype)):
            raise ValueError(
                f"the column {name!r} has the type {dtype} of polars, which can't be sent: cast it "
                "to another one, such as String, or leave it out"
            )


def _types(dtype: Any) -> Iterator[str]:
    """The type, and those that it is made of."""
    yield str(dtype)
    inner = [dtype.inner] if hasattr(dtype, "inner") else []
    for part in inner + [field.dtype for field in getattr(dtype, "fields", ())]:
        yield from _types(part)
