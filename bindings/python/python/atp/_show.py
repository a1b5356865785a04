"""Shows answers as a text and as HTML."""

from __future__ import annotations

import importlib
from html import escape
from typing import TYPE_CHECKING, Any

from atp._keys import key_names, key_of
from atp._printable import printable
from atp._warnings import warnings

if TYPE_CHECKING:
    from atp._answers import Answers

ROWS_MAX = 60
"""The rows that a text and a table of HTML show."""
WARNINGS_MAX = 10
VERDICTS = {"in_doubt": "The answers are in doubt.", "not_met": "The accepted error isn't met."}


def module(name: str, call: str) -> Any:
    """A package that isn't needed otherwise."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise ImportError(f"{call} needs {package}: install it with pip") from None


def notes(answers: Answers) -> list[str]:
    """Sentences below the answers: the verdict and the warnings."""
    said = [VERDICTS[answers.verdict]] if answers.verdict in VERDICTS else []
    if answers.report is not None:
        said = [f"{answers.report}"]
    if answers.missing:
        said.append(f"{answers.missing} rows lack a number of the query.")
    found = warnings(answers)
    said += [f"warning: {printable(warning, 600)}" for warning in found[:WARNINGS_MAX]]
    if len(found) > WARNINGS_MAX:
        said.append(f"{len(found) - WARNINGS_MAX} more warnings: to_pandas() has them all")
    return said


def from_messages(answers: Answers) -> str:
    """Such as ``from 420 of 1000 messages (95 %)``."""
    first = next((of for row in answers.rows for of in row[1:] if of is not None), None)
    if first is None:
        return "no answers"
    sent = "" if first.messages_sent is None else f" of {first.messages_sent}"
    return f"from {first.messages}{sent} messages, {100 * first.confidence:.6g} % intervals"


def grid(answers: Answers) -> tuple[list[str], list[list[str]], int]:
    """The head and the rows of a table, and the number of rows that are left out."""
    head = [printable(name) for name in (*key_names(answers), *answers.functions)]
    rows = [
        [
            *(printable(part) for part in key_of(row)),
            *("" if of is None else of.brief for of in row[1:]),
        ]
        for row in answers.rows[:ROWS_MAX]
    ]
    return head, rows, max(len(answers.rows) - ROWS_MAX, 0)


def text(answers: Answers) -> str:
    """A table, and the warnings below."""
    head, rows, more = grid(answers)
    keys = len(head) - len(answers.functions)
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [printable(answers.query, 200)] if answers.query else []
    for row in (head, *rows):
        cells = (
            cell.ljust(width) if at < keys else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    if more:
        lines.append(f"{more} more rows: to_pandas() has them all")
    return "\n".join([*lines, from_messages(answers), *notes(answers)])


def html(answers: Answers) -> str:
    """A table for notebooks."""
    head, rows, more = grid(answers)
    keys = len(head) - len(answers.functions)

    def line(cells: list[str], tag: str) -> str:
        align = ("left" if at < keys else "right" for at in range(len(cells)))
        parts = zip(cells, align, strict=True)
        row = (f'<{tag} style="text-align: {side}">{escape(cell)}</{tag}>' for cell, side in parts)
        return f"<tr>{''.join(row)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    below = [f"{more} more rows: to_pandas() has them all"] if more else []
    below += [from_messages(answers), *notes(answers)]
    caption = f"<caption>{escape(answers.query)}</caption>" if answers.query else ""
    said = "".join(f"<p>{escape(note)}</p>" for note in below)
    return f"<table>{caption}<thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>{said}"
