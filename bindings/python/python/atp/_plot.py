"""Draws answers with their intervals, by matplotlib."""

from __future__ import annotations

import textwrap
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from atp._keys import key_names, key_of
from atp._printable import printable
from atp._show import VERDICTS, from_messages, module, notes

if TYPE_CHECKING:
    from atp._answers import Answers
    from atp.answers import Estimate

KEYS_MAX = 40
KEY_INCHES = 0.24
"""The height of a key, whose label has 0.14 inches."""
PANEL_INCHES = 0.75
"""The height of a panel beside its keys."""
HEIGHT_INCHES_MAX = 30.0
PANELS_PER_ROW = 3
CHARS_PER_INCH = 13


def plot(answers: Answers, ax: Any = None) -> Any:
    pyplot = module("matplotlib.pyplot", "plot")
    functions = answers.functions
    if not answers.rows:
        raise ValueError("there are no answers to plot")
    if ax is not None and len(functions) != 1:
        raise ValueError(f"ax is one panel, and the answers need {len(functions)}: leave it out")
    if ax is None:
        columns = 2 if len(functions) == 4 else min(len(functions), PANELS_PER_ROW)
        rows = -(-len(functions) // columns)
        room = HEIGHT_INCHES_MAX / rows - PANEL_INCHES
        shown = answers.rows[: min(KEYS_MAX, int(room / KEY_INCHES))]
        width = 1.5 + 4.2 * columns
        figure, panels = pyplot.subplots(
            rows,
            columns,
            figsize=(width, 0.9 + rows * (PANEL_INCHES + KEY_INCHES * len(shown))),
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        axes = list(panels.flat)
        for unused in axes[len(functions) :]:
            unused.remove()
        _texts(figure, answers, len(shown), int(width * CHARS_PER_INCH))
        first = [row[0] for row in panels]
    else:
        figure, axes, first = ax.figure, [ax], [ax]
        inches = ax.get_window_extent().height / figure.dpi
        shown = answers.rows[: min(KEYS_MAX, max(int(inches / KEY_INCHES), 1))]
    for at, (panel, function) in enumerate(zip(axes, functions, strict=False)):
        points = [(place, row[at + 1]) for place, row in enumerate(shown) if row[at + 1] is not None]
        for color, has_warnings in (("tab:blue", False), ("tab:orange", True)):
            of = [(place, one) for place, one in points if bool(one.warnings) == has_warnings]
            _points(panel, color, of)
        panel.set_xlabel(printable(function), parse_math=False)
        panel.locator_params(axis="x", nbins=5)
        panel.grid(axis="x", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    names = [", ".join(map(printable, key_of(row))) for row in shown]
    for panel in first:
        _keys(panel, names, _label(answers, len(shown)))
    return figure


def _keys(panel: Any, names: list[str], label: str) -> None:
    """The axis of the keys."""
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.set_yticks(range(len(names)) if any(names) else [], names if any(names) else [])
    for name in panel.get_yticklabels():
        name.set(parse_math=False, fontsize="small")
    panel.set_ylabel(label, parse_math=False)


def _label(answers: Answers, shown: int) -> str:
    columns = printable(", ".join(key_names(answers)))
    return f"{columns} ({shown} of {len(answers.rows)})" if shown < len(answers.rows) else columns


def _texts(figure: Any, answers: Answers, shown: int, width: int) -> None:
    """The texts above and below the panels."""
    query = printable(answers.query, 200)
    if query != answers.functions[0]:
        title = textwrap.fill(query, width)
        figure.suptitle(title, fontsize="medium", parse_math=False)
    below = [textwrap.fill(line, width) for line in _below(answers, shown)]
    figure.supxlabel("\n".join(below), fontsize="small", parse_math=False)


def _points(panel: Any, color: str, points: list[tuple[int, Estimate]]) -> None:
    """Answers with their intervals: an end that nothing bounds is an arrow."""
    # matplotlib's carets to the left and to the right are the markers of arrows.
    for end, marker in (("low", "<"), ("high", ">")):
        open_ends = [(of.value, at) for at, of in points if not isfinite(getattr(of, end))]
        if open_ends:
            panel.plot(*zip(*open_ends), marker, color=color, markersize=8)
    closed = [(at, of) for at, of in points if not of.low == of.high == inf]
    if closed:
        values = [of.value for _, of in closed]
        ends = [[of.value - of.low for _, of in closed], [of.high - of.value for _, of in closed]]
        panel.errorbar(
            values,
            [at for at, _ in closed],
            xerr=[[length if isfinite(length) else 0.0 for length in side] for side in ends],
            fmt="o",
            color=color,
            capsize=3,
            markersize=4,
        )


def _below(answers: Answers, shown: int) -> list[str]:
    parts = [from_messages(answers)]
    if shown < len(answers.rows):
        parts.append(f"the first {shown} of {len(answers.rows)} keys: to_pandas() has them all")
    warnings = sum(note.startswith("warning") for note in notes(answers))
    if warnings:
        parts.append("orange: has a warning, see print(answers)")
    if answers.verdict in VERDICTS:
        parts.append(VERDICTS[answers.verdict])
    return parts
