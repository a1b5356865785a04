"""Samples and answers in other processes: pickled, copied, and as bytes that merge."""

from __future__ import annotations

import copy
import json
import pickle
import random
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from atp.answers import (
    AnswerError,
    Answering,
    Answers,
    Delivery,
    Estimate,
    GroupBy,
    Planner,
    Quantiles,
    Ranking,
    Report,
    Sample,
    Top,
)

STORED = Path(__file__).parents[3] / "approx-answers/tests/data/sample-1.json"


def part(seed: int) -> Sample:
    """The part of a job that one process receives."""
    rng, sample = random.Random(seed), Sample()
    sample.set_messages_sent(0, 300)
    sample.set_delivery(0, Delivery(order="shuffled"))
    for _ in range(50):
        sample.push(0, rng.randrange(1, 9), rng.gauss(10, 3))
    sample.push(seed, 1, None)
    sample.set_messages_sent(seed, 3)
    return sample


def told(estimate: Estimate) -> tuple[Any, ...]:
    names = [name for name in dir(Estimate) if not name.startswith("_")]
    values = [getattr(estimate, name) for name in names]
    return tuple(value for value in values if not callable(value))


def assert_same(one: Estimate, other: Estimate) -> None:
    assert told(one) == told(other) and str(one) == str(other)
    assert one.to_bytes() == other.to_bytes()


def test_parts_of_several_processes_merge() -> None:
    """As those of one process."""
    here = part(1)
    here.merge(part(2))
    with ProcessPoolExecutor(2, get_context("spawn")) as processes:
        one, other = processes.map(part, (1, 2))
    one.merge(other)
    assert one.to_bytes() == here.to_bytes()
    assert_same(one.mean(), here.mean())
    assert_same(one.sum(0.99), here.sum(0.99))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_samples_and_answers_pickle(protocol: int) -> None:
    def again(thing: Any) -> Any:
        return pickle.loads(pickle.dumps(thing, protocol))

    sample = part(1)
    assert again(sample).to_bytes() == sample.to_bytes()
    for estimate in (sample.mean(), sample.count(0.9), Sample.from_bytes(STORED.read_bytes()).mean()):
        assert estimate.warnings
        assert_same(again(estimate), estimate)
    answering = Answering("avg(x) by k", ["k", "x"])
    answering.push_message(0, [["a", 1], ["b", None], ["a", 3]])
    answers: Answers = answering.answers()
    assert isinstance(again(answers), Answers) and repr(again(answers)) == repr(answers)
    top = Top(3)
    top.push_message(0, [("a", 1), ("b", 2)])
    top.set_messages_sent(0, 1)
    ranking: Ranking = top.largest(1)
    assert isinstance(again(ranking), Ranking) and repr(again(ranking)) == repr(ranking)
    planner = Planner(absolute=1)
    planner.source_started(0, 1.0)
    planner.source_ended(0)
    done = Sample()
    done.set_messages_sent(0, 1)
    done.push(0, 1, 1)
    planner.look(lambda level: [done.mean(level)])
    report = planner.report
    assert isinstance(report, Report) and repr(again(report)) == repr(report)


def test_a_copy_has_a_life_of_its_own() -> None:
    sample = part(1)
    for twin in (copy.copy(sample), copy.deepcopy(sample)):
        assert twin.to_bytes() == sample.to_bytes()
        twin.push(0, 1, 1)
        assert twin.messages == sample.messages + 1
    answer = sample.mean()
    assert_same(copy.copy(answer), answer)
    assert_same(copy.deepcopy([answer])[0], answer)


@pytest.mark.parametrize("kind", [GroupBy, Quantiles, Top])
def test_answers_by_key_pickle_and_merge(kind: Any, rng: random.Random) -> None:
    parts = [kind(9), kind(9)]
    for table in parts:
        table.set_messages_sent(0, 200)
        for _ in range(60):
            keys = [(rng.choice("abc"), rng.choice([1, 2.5, None])) for _ in range(5)]
            table.push_message(0, keys)
    read = [pickle.loads(pickle.dumps(table)) for table in parts]
    whole, merged = copy.deepcopy(parts[0]), read[0]
    assert merged.to_bytes() == whole.to_bytes() == kind.from_bytes(whole.to_bytes()).to_bytes()
    whole.merge(parts[1])
    merged.merge(read[1])
    assert merged.to_bytes() == whole.to_bytes() and merged.messages == 120
    asks: dict[Any, Any] = {
        GroupBy: lambda table: table.mean("a"),
        Quantiles: lambda table: table.quantile("a", 0.5),
        Top: lambda table: table.largest(1).ranks[0][1],
    }
    assert_same(asks[kind](merged), asks[kind](whole))
    with pytest.raises(AnswerError, match="their format is"):
        kind.from_bytes(Sample().to_bytes())


def test_a_planner_takes_answers_of_another_process() -> None:
    """Bytes have what it needs to say which messages are wanted."""
    sample = Sample()
    sample.set_messages_sent(0, 10_000)
    sample.set_delivery(0, Delivery(order="shuffled"))
    for message in range(100):
        sample.push(0, 1, 100 + message % 7)

    def actions(change: Any) -> Any:
        planner = Planner(absolute=0.1)
        planner.source_started(0, 0.5)
        return planner.look(lambda level: [change(sample.mean(level))])

    wanted = actions(lambda estimate: estimate)
    assert wanted and actions(lambda estimate: Estimate.from_bytes(estimate.to_bytes())) == wanted


def test_bytes_are_read_from_any_memory() -> None:
    data = STORED.read_bytes()
    sample = Sample.from_bytes(data)
    assert (sample.messages, sample.missing) == (41, 2)
    for same in (bytearray(data), memoryview(data), data.decode()):
        assert Sample.from_bytes(same).to_bytes() == sample.to_bytes() == data.rstrip()


MISTAKES: list[tuple[Any, type[Exception], str]] = [
    (None, TypeError, "must be bytes"),
    (b"", AnswerError, "the bytes can't be read as \"approx-answers sample\": EOF"),
    (b"\xff\x00", AnswerError, "can't be read"),
    (b"[" * 100_000, AnswerError, "can't be read"),
    (part(1).mean().to_bytes(), AnswerError, 'their format is "approx-answers estimate"'),
    (STORED.read_text().replace('"version":1', '"version":7'), AnswerError, "their version is 7"),
    (STORED.read_text().replace('"sent":100', '"sent":1'), AnswerError, "stratum 3: more messages"),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_other_bytes_are_refused_in_one_sentence(number: int) -> None:
    data, kind, words = MISTAKES[number]
    with pytest.raises(kind) as error:
        Sample.from_bytes(data)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_changed_fields_are_refused_or_answered(rng: random.Random) -> None:
    """A panic would be a `PanicException`, which is no `Exception`."""
    values: list[Any] = [None, -1, 0, 1, 1 << 40, (1 << 64) - 1, 1e300, -1e60, 0.5, "inf", [], {}]

    def change(tree: Any) -> None:
        while True:
            at = rng.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
            if not isinstance(tree[at], dict | list) or not tree[at] or rng.random() < 0.05:
                tree[at] = rng.choice(values)
                return
            tree = tree[at]

    for kind, data in ((Sample, part(1).to_bytes()), (Estimate, part(1).mean().to_bytes())):
        for _ in range(300):
            tree = json.loads(data)
            change(tree)
            try:
                made: Any = kind.from_bytes(json.dumps(tree))
                str(made.mean() if kind is Sample else made)
                Planner(relative=0.1).look(lambda level: [made.mean() if kind is Sample else made])
            except Exception as error:
                assert "\n" not in str(error)
