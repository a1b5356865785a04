"""Shows answers: as a text, as HTML, as the columns of a data frame, and as a picture."""

from __future__ import annotations

import importlib
from html import escape
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atp._answers import Answers
    from atp.answers import Estimate

ROWS_MAX = 60
"""The rows that a text and a table of HTML show."""
PLOTTED_KEYS_MAX = 40
WARNINGS_MAX = 10
VERDICTS = {"in_doubt": "The answers are in doubt.", "not_met": "The accepted error isn't met."}


def module(name: str, call: str) -> Any:
    """A package that isn't needed otherwise."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise ImportError(f"{call} needs {package}: install it with pip") from None


def key_names(answers: Answers) -> tuple[str, ...]:
    """The columns of the keys. Those of a ``top`` are in its function."""
    has_keys = any(row[0] is not None for row in answers.rows)
    return answers.by or (("key",) if has_keys else ())


def key_of(row: tuple[Any, ...]) -> tuple[str, ...]:
    return row[0] if isinstance(row[0], tuple) else () if row[0] is None else (row[0],)


def printable(text: str, limit: int = 40) -> str:
    """A text of another host, without characters that move the cursor."""
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def notes(answers: Answers) -> list[str]:
    """Sentences below the answers: the verdict, and each warning once."""
    said = [VERDICTS[answers.verdict]] if answers.verdict in VERDICTS else []
    if answers.report is not None:
        said = [f"{answers.report}"]
    if answers.missing:
        said.append(f"{answers.missing} rows lack a number of the query.")
    of_rows = (one for row in answers.rows for of in row[1:] if of is not None for one in of.warnings)
    warnings = list(dict.fromkeys([*answers.warnings, *of_rows]))
    said += [f"warning: {printable(warning, 600)}" for warning in warnings[:WARNINGS_MAX]]
    if len(warnings) > WARNINGS_MAX:
        said.append(f"{len(warnings) - WARNINGS_MAX} more warnings")
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


def columns(answers: Answers) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """The columns of a data frame with a row for each key and function: those of the key, and those
    of the answer."""
    cells = [
        (key_of(row), function, estimate)
        for row in answers.rows
        for function, estimate in zip(answers.functions, row[1:], strict=True)
        if estimate is not None
    ]
    names = key_names(answers)
    keys: dict[str, list[Any]] = {
        name: [key[at] for key, _, _ in cells] for at, name in enumerate(names)
    }
    of: dict[str, list[Any]] = {"function": [function for _, function, _ in cells]}
    for name in ("value", "low", "high", "bound", "messages", "messages_sent"):
        of[name] = [getattr(estimate, name) for _, _, estimate in cells]
    of["warnings"] = ["\n".join(estimate.warnings) for _, _, estimate in cells]
    # A column of the keys may have one of these names.
    return keys, {f"answer_{name}" if name in keys else name: values for name, values in of.items()}


def to_pandas(answers: Answers) -> Any:
    keys, of = columns(answers)
    return module("pandas", "to_pandas").DataFrame(keys | of)


def to_arrow(answers: Answers) -> Any:
    pa = module("pyarrow", "to_arrow")
    kinds = {
        **dict.fromkeys(("value", "low", "high"), pa.float64()),
        **dict.fromkeys(("messages", "messages_sent"), pa.int64()),
    }
    keys, of = columns(answers)
    arrays = [pa.array(values, pa.string()) for values in keys.values()]
    for name, values in of.items():
        arrays.append(pa.array(values, kinds.get(name.removeprefix("answer_"), pa.string())))
    return pa.table(arrays, names=[*keys, *of])


def plot(answers: Answers, ax: Any = None) -> Any:
    pyplot = module("matplotlib.pyplot", "plot")
    functions = answers.functions
    if not answers.rows:
        raise ValueError("there are no answers to plot")
    if ax is not None and len(functions) != 1:
        raise ValueError(f"ax is one panel, and the answers need {len(functions)}: leave it out")
    shown = answers.rows[:PLOTTED_KEYS_MAX]
    if ax is None:
        height = 1.4 + 0.28 * len(shown)
        figure, panels = pyplot.subplots(
            1,
            len(functions),
            figsize=(1.5 + 4.2 * len(functions), height),
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        axes = list(panels[0])
        figure.suptitle(printable(answers.query, 100), fontsize="medium", parse_math=False)
        figure.supxlabel(_below(answers), fontsize="small", parse_math=False)
    else:
        figure, axes = ax.figure, [ax]
    for at, (panel, function) in enumerate(zip(axes, functions, strict=True)):
        for place, row in enumerate(shown):
            if row[at + 1] is not None:
                _point(panel, row[at + 1], place)
        panel.set_xlabel(printable(function), parse_math=False)
        panel.grid(axis="x", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    names = [", ".join(map(printable, key_of(row))) for row in shown]
    axes[0].set_yticks(range(len(shown)), names, parse_math=False)
    axes[0].set_ylim(len(shown) - 0.5, -0.5)
    if by := key_names(answers):
        axes[0].set_ylabel(printable(", ".join(by)), parse_math=False)
    return figure


def _point(panel: Any, estimate: Estimate, place: int) -> None:
    """An answer with its interval: an end that nothing bounds is an arrow."""
    value, low, high = estimate.value, estimate.low, estimate.high
    color = "tab:orange" if estimate.warnings else "tab:blue"
    ends = [value - low if isfinite(low) else 0.0, high - value if isfinite(high) else 0.0]
    panel.errorbar(
        value,
        place,
        xerr=[[ends[0]], [ends[1]]],
        fmt="none" if low == high == inf else "o",
        color=color,
        capsize=3,
        markersize=4,
    )
    for end, marker in ((low, 0), (high, 1)):  # matplotlib's carets to the left and to the right
        if not isfinite(end):
            panel.plot(value, place, marker=("<", ">")[marker], color=color, markersize=8)


def _below(answers: Answers) -> str:
    more = len(answers.rows) - PLOTTED_KEYS_MAX
    parts = [from_messages(answers)]
    if more > 0:
        parts.append(f"{more} more keys")
    warnings = sum(note.startswith("warning") for note in notes(answers))
    if warnings:
        parts.append("orange: has a warning, see print(answers)")
    if answers.verdict in VERDICTS:
        parts.append(VERDICTS[answers.verdict])
    return "\n".join(parts)
