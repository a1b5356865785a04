"""The keys of answers in the types of the columns that were sent. Answers have them as texts, as
the messages of all languages do."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from atp._answers import Answers

Row: TypeAlias = tuple[Any, ...]

TEXT = "str"
"""The type of text, and of every column whose values stay text."""

FRACTION = re.compile(r"\.(\d+)")
"""The fraction of a time's seconds."""


def key_names(answers: Answers) -> tuple[str, ...]:
    """The columns of the keys. Those of a ``top`` are in its function."""
    has_keys = answers.key_types or any(row[0] is not None for row in answers.rows)
    return answers.by or (("key",) if has_keys else ())


def key_of(row: Row) -> tuple[str, ...]:
    return row[0] if isinstance(row[0], tuple) else () if row[0] is None else (row[0],)


def _parser(kind: str) -> Callable[[str], Any]:
    """Reads a value from its text."""
    if kind == "bool":
        return {"false": False, "true": True}.__getitem__
    if kind == "date":
        return lambda text: date.fromisoformat(text.partition("T")[0])
    if kind == "decimal":
        return Decimal
    if kind.startswith(("int", "uint")):
        return int
    return float if kind.startswith("float") else str  # Times stay the texts of ISO 8601.


def parsed(kind: str, texts: Sequence[str]) -> list[Any]:
    """The values of a column; ``None`` for those that were missing. Raises ``ValueError`` or
    ``KeyError`` for a text of another kind, such as a date with a year beyond 9999."""
    read = _parser(kind)
    # A missing key arrives as an empty text. In a column of texts an empty text is a value.
    return [read(text) if text or kind == TEXT else None for text in texts]


def _instant(text: str) -> tuple[timedelta, int]:
    """A time for comparisons: whole seconds and nanoseconds. Texts have another order where the
    offset from UTC changes, and where only some have a fraction. Raises ``ValueError`` for years
    that Python doesn't know."""
    seconds, fraction, offset = FRACTION.split(text) if "." in text else (text, "", "")
    time = datetime.fromisoformat(seconds + offset)
    first = datetime(1, 1, 1, tzinfo=time.tzinfo and timezone.utc)
    return time - first, int(fraction.ljust(9, "0"))


def in_order(
    rows: tuple[Row, ...], types: tuple[str | None, ...]
) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """The rows in the order of their keys, the missing ones first; and the types that all keys of a
    column can be read as. A type ``None`` becomes text."""
    kinds, columns = [kind or TEXT for kind in types], []
    for at, kind in enumerate(kinds):
        texts = [key_of(row)[at] for row in rows]
        try:
            values = parsed(kind, texts)
            if kind.startswith("datetime"):
                values = [text and _instant(text) for text in values]
            columns.append(values)
        except (ArithmeticError, KeyError, ValueError):
            kinds[at] = TEXT
            columns.append(texts)

    def rank(place: int) -> list[tuple[bool, Any]]:
        return [(column[place] is not None, column[place]) for column in columns]

    places = sorted(range(len(rows)), key=rank)
    return tuple(rows[place] for place in places), tuple(kinds)
