"""The warnings of answers, each once and with the keys and functions that it is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from atp._keys import key_of
from atp._printable import printable

if TYPE_CHECKING:
    from atp._answers import Answers

KEYS_NAMED_MAX = 3
NUMBER = re.compile(r"stratum \d+|(?<![\w.-])(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
"""A number of a warning. Digits of a name are none, such as ``stratum 3`` and a column ``x1``."""

Cells = list[tuple[int, int]]
"""Rows and functions."""


def warnings(answers: Answers) -> list[str]:
    """Warnings about all rows together come first. Warnings that differ in their numbers alone are
    one, with the range of each number."""
    of_all = list(dict.fromkeys(answers.warnings))
    found: dict[str, tuple[list[str], Cells]] = {}
    for at, row in enumerate(answers.rows):
        for function, estimate in enumerate(row[1:]):
            for text in () if estimate is None else estimate.warnings:
                if text in of_all:
                    continue
                texts, cells = found.setdefault(_skeleton(text), ([], []))
                texts.append(text)
                if (at, function) not in cells[-1:]:
                    cells.append((at, function))
    return of_all + [_about(answers, cells) + _joined(texts) for texts, cells in found.values()]


def _skeleton(text: str) -> str:
    """The text without its numbers."""
    return NUMBER.sub(lambda found: found[0] if found[1] is None else "\0", text)


def _joined(texts: Sequence[str]) -> str:
    """Texts with the same skeleton as one, with ranges in the place of numbers that differ."""
    numbers = [[found[1] or "0" for found in NUMBER.finditer(text)] for text in texts]
    ranges = iter([sorted(set(column), key=float) for column in zip(*numbers, strict=True)])

    def number(found: re.Match[str]) -> str:
        of = next(ranges)
        if len(of) == 1:
            return found[0]
        is_limit = texts[0].endswith("up to ", 0, found.start())
        return of[-1] if is_limit else f"{of[0]} to {of[-1]}"

    return NUMBER.sub(number, texts[0])


def _about(answers: Answers, cells: Cells) -> str:
    """The keys and functions in front of a warning; nothing if it is about all of them."""
    there = [
        (at, function)
        for at, row in enumerate(answers.rows)
        for function, estimate in enumerate(row[1:])
        if estimate is not None
    ]
    if len(cells) == len(there):
        return ""
    of: dict[str, list[str]] = {}
    for function, name in enumerate(answers.functions):
        rows = [at for at, other in cells if other == function]
        is_of_all = len(rows) == sum(other == function for _, other in there)
        keys = "" if is_of_all else _named([_key(answers, at) for at in rows])
        if rows:
            of.setdefault(keys, []).append(printable(name))
    named = []
    for keys, functions in of.items():
        # The only function, or all of them, need no name.
        is_plain = len(functions) == len(answers.functions)
        parts = [keys] if is_plain else [", ".join(functions), keys]
        named.append(" of ".join(part for part in parts if part))
    return f"{'; '.join(named)}: "


def _key(answers: Answers, at: int) -> str:
    key = [printable(part) or '""' for part in key_of(answers.rows[at])]
    return key[0] if len(key) == 1 else f"({', '.join(key)})"


def _named(keys: Sequence[str]) -> str:
    more = len(keys) - KEYS_NAMED_MAX
    return ", ".join(keys[:KEYS_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
