"""What people see of answers."""

from __future__ import annotations

import importlib
import itertools
import re
from dataclasses import replace
from typing import Any

import pytest

from atp.answers import Answering, Answers, Delivery

# They have no types.
matplotlib: Any = importlib.import_module("matplotlib")
matplotlib.use("agg")
pyplot: Any = importlib.import_module("matplotlib.pyplot")


def answered(query: str, messages: dict[str, int]) -> Answers:
    """The answers of a shuffled job of 1,000 messages; each that arrived has a row of one key."""
    answering = Answering(query, ["k", "v"])
    answering.set_messages_sent(0, 1_000)
    answering.set_delivery(0, Delivery(order="shuffled"))
    for key, number in messages.items():
        for at in range(number):
            answering.push_message(0, [[key, at % 7]])
    return answering.answers()


def warnings(answers: Answers) -> list[str]:
    lines = [line for line in repr(answers).splitlines() if line.startswith("warning: ")]
    page = answers._repr_html_()
    assert page.count("<p>warning: ") == len(lines)
    return [line.removeprefix("warning: ") for line in lines]


def starts(answers: Answers, text: str) -> bool:
    """Whether one warning, and no other, begins so."""
    return [line.startswith(text) for line in warnings(answers)].count(True) == 1


def test_warnings_name_their_keys() -> None:
    few = "messages carry this answer, and an interval needs 30: raise the MSR"
    keys = {"large": 100, "b": 5, "a": 9}
    assert starts(answered("avg(v) by k", keys), f"a, b: only 5 to 9 {few}")
    # Many keys are one line. An empty key and one of two columns show where they end.
    keys |= {f"k{number}": 6 for number in range(13)} | {"": 3}
    assert starts(answered("avg(v) by k", keys), f'"", a, b and 13 more: only 3 to 9 {few}')
    keys = {"large": 100, "b": 5}
    assert starts(answered("avg(v) by k, k", keys), f"(b, b): only 5 {few}")


def test_a_warning_about_all_keys_names_none() -> None:
    assert starts(answered("avg(v) by k", {"a": 8, "b": 9}), "only 17 messages")
    assert starts(answered("avg(v)", {"a": 8}), "only 8 messages")


def test_warnings_name_their_functions() -> None:
    query = "SELECT quantile(v, 0.999), avg(v) GROUP BY k"
    answers = answered(query, {"a": 100, "b": 100, "c": 9})
    said = warnings(answers)
    functions = answers.functions
    assert starts(answers, "c: only 9 messages")
    ends = [line for line in said if "too close to an end" in line]
    assert [line.partition(": ")[0] for line in ends] == [functions[0]], said
    # A key of which one function has no answer.
    rows = [(key, one, None if key == "b" else other) for key, one, other in answers.rows]
    assert starts(replace(answers, rows=tuple(rows)), "c: only 9 messages")


def test_numbers_of_joined_warnings_are_ranges() -> None:
    from atp._warnings import _joined

    texts = [f"stratum 3 has {n} rows, up to {p} % of 2^53" for n, p in ((7, 10.5), (-20, 9.0))]
    assert _joined(texts) == "stratum 3 has -20 to 7 rows, up to 10.5 % of 2^53"
    assert _joined(texts[:1]) == texts[0] and re.search("up to 10.5", texts[0])


def test_digits_of_names_are_no_numbers() -> None:
    from atp._warnings import _joined, _skeleton

    texts = [f"{n} rows of k-1 lack x1, below -{n}.5 (2^53)" for n in (3, 2)]
    assert _joined(texts) == "2 to 3 rows of k-1 lack x1, below -3.5 to -2.5 (2^53)"
    assert _skeleton(texts[0]) == _skeleton(texts[1])
    # Warnings about two columns are two.
    for name in ("x2", "x_1", "x.1", "x-1"):
        assert _skeleton(texts[0].replace("x1", name)) != _skeleton(texts[0])


def test_a_warning_about_all_rows_hides_no_other() -> None:
    """They differ in a number alone."""
    answers = answered("avg(v) by k", {"large": 100, "a": 5, "b": 9})
    (of_a,) = answers.rows[0][1].warnings
    said = warnings(replace(answers, warnings=(of_a,)))
    assert of_a in said and said.count(f"b: {of_a.replace('5', '9')}") == 1, said
    assert f"a: {of_a}" not in said, said


FUNCTIONS = ["avg", "sum", "max", "min", "stddev", "variance", "median", "count"]


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text)]


@pytest.mark.parametrize("functions", [1, 4, 8])
@pytest.mark.parametrize("keys", [1, 50])
def test_labels_of_a_plot_do_not_overlap(functions: int, keys: int) -> None:
    names = {f"a key that only its end tells from others, {key:02}": 2 for key in range(keys)}
    asked = ", ".join(f"{name}(v)" for name in FUNCTIONS[:functions])
    answers = answered(f"SELECT {asked} GROUP BY k", names)
    figure = answers.plot()
    figure.canvas.draw()
    assert all(inches < 32 for inches in figure.get_size_inches())
    panels = figure.axes
    assert [panel.get_xlabel() for panel in panels] == list(answers.functions)
    shown = len(panels[0].get_yticks())
    statement = f"the first {shown} of {keys} keys: to_pandas() has them all"
    assert any(statement in text for text in texts(figure)) == (shown < keys)
    for panel in panels:
        for labels in (panel.get_xticklabels(), panel.get_yticklabels()):
            boxes = [label.get_window_extent() for label in labels if label.get_visible()]
            both = itertools.combinations([box for box in boxes if box.width > 0], 2)
            assert not [pair for pair in both if pair[0].overlaps(pair[1])], labels
    labels = [label.get_text() for label in panels[0].get_yticklabels()]
    assert len(set(labels)) == shown == len(labels)
    pyplot.close(figure)


def test_a_panel_of_the_caller_gets_the_keys_that_fit() -> None:
    answers = answered("avg(v) by k", {f"k{key}": 2 for key in range(30)})
    figure, ax = pyplot.subplots(figsize=(4, 3))
    assert answers.plot(ax) is figure
    shown = len(ax.get_yticks())
    assert 5 < shown < 15 and ax.get_ylabel() == f"k ({shown} of 30)"
    pyplot.close(figure)
