"""What people see of answers."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from typing import Any

from atp.answers import Answering, Answers, Delivery

matplotlib: Any = importlib.import_module("matplotlib")  # It has no types.
matplotlib.use("agg")


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
