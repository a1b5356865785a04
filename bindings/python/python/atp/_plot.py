"""Draws answers with their intervals, by matplotlib."""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from atp._keys import key_names, key_of
from atp._printable import printable
from atp._show import VERDICTS, from_messages, module, notes

if TYPE_CHECKING:
    from atp._answers import Answers
    from atp.answers import Estimate

PLOTTED_KEYS_MAX = 40


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
