"""Answers with intervals: beside the textbook's formulas, over the transport, and bad input."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from statistics import mean, stdev
from typing import Any, cast

import pytest

import atp
from atp.answers import (
    AnswerError,
    Answering,
    Delivery,
    End,
    Estimate,
    GroupBy,
    Lower,
    Planner,
    Quantiles,
    Query,
    QueryError,
    Raise,
    Sample,
    Table,
    Top,
    Wait,
    send_csv,
)
from ends import Call, bind, connect

# Student's t for 95 %, from a printed table.
T_39 = 2.022_69


def test_a_total_and_a_mean_are_those_of_the_formula(rng: random.Random) -> None:
    # Totals without skewness have an interval by Student's t.
    deviations = [rng.uniform(0, 50) for _ in range(20)]
    sent, totals = 100, [100 + sign * amount for amount in deviations for sign in (-1, 1)]
    records = [rng.randrange(1, 20) for _ in totals]
    sample = Sample()
    sample.set_messages_sent(7, sent)
    for number, amount in zip(records, totals):
        sample.push(7, number, amount)

    total = sample.sum()
    correction = 1 - len(totals) / sent
    deviation = sent * stdev(totals) * math.sqrt(correction / len(totals))
    assert total.value == pytest.approx(sent * mean(totals))
    assert total.half_width == pytest.approx(T_39 * deviation, rel=1e-5)
    assert (total.high - total.low) / 2 == total.half_width
    assert total.reach == pytest.approx(total.half_width)
    assert total.standard_error == pytest.approx(deviation)
    assert (total.messages, total.messages_sent, total.confidence) == (40, 100, 0.95)
    assert total.degrees_of_freedom == pytest.approx(39)

    ratio = sum(totals) / sum(records)
    residuals = [amount - ratio * number for amount, number in zip(totals, records)]
    square = sum(residual**2 for residual in residuals) / (len(totals) - 1)
    error = math.sqrt(correction * square / len(totals)) / mean(records)
    answer = sample.mean()
    assert answer.value == pytest.approx(ratio)
    # Residuals have a skewness, by which the interval is a little wider.
    assert answer.half_width == pytest.approx(T_39 * error, rel=0.02)
    assert answer.reach == max(answer.high - answer.value, answer.value - answer.low)
    assert answer.reach > answer.half_width
    assert answer.contains(ratio) and not answer.contains(answer.high * 2)
    assert sample.mean(0.99).half_width > answer.half_width
    assert sample.count().value == pytest.approx(sent * mean(records))


def test_parts_merge_to_the_whole(rng: random.Random) -> None:
    whole, parts = Sample(), [Sample(), Sample()]
    for message in range(60):
        values = (rng.randrange(2), rng.randrange(1, 5), rng.gauss(10, 2))
        for sample in (whole, parts[message % 2]):
            sample.push_pair(*values)
    for sample in (whole, *parts):
        sample.set_messages_sent(0, 100)
        sample.set_messages_sent(1, 100)
    parts[0].merge(parts[1])
    one, other = whole.ratio(), parts[0].ratio()
    assert one.value == pytest.approx(other.value)
    assert one.low == pytest.approx(other.low) and one.low < one.value
    with pytest.raises(ValueError, match="can't be merged with itself"):
        whole.merge(whole)
    other_job = Sample()
    other_job.set_messages_sent(0, 99)
    with pytest.raises(AnswerError, match="stratum 0 has 100 messages sent in one place and 99"):
        whole.merge(other_job)


def test_keys_quantiles_and_ranks() -> None:
    by, quantiles, top = GroupBy(10), Quantiles(10), Top(10)
    for table in (by, quantiles, top):
        table.set_messages_sent(0, 60)
        for message in range(50):
            table.push_message(0, [("a", float(message % 10)), ("b", 1.0), ("b", 2.0)])
    assert by.keys() == quantiles.keys() == ("a", "b")
    assert by.mean("a").value == pytest.approx(4.5)
    assert by.sum("b").value == pytest.approx(180) and by.count("b").value == pytest.approx(120)
    median = quantiles.quantile("a", 0.5)
    assert 3 <= median.low <= median.value == 4 <= median.high <= 6
    ranking = top.largest(1)
    assert [key for key, _ in ranking.ranks] == ["a"] and ranking.gap is not None
    assert ranking.gap.value == pytest.approx(60 * 1.5)
    with pytest.raises(AnswerError, match="no counted record has this key"):
        by.sum("c")
    pairs = GroupBy(2)
    pairs.push_pairs(0, [("a", 2.0, 6.0)])
    assert pairs.mean("a").value == 3


def test_a_query_answers_from_a_lossy_job() -> None:
    def send(peer: tuple[str, int]) -> None:
        with connect(peer, messages=200, msr=0.5, order="ordered") as job:
            for message in range(100):
                job.send(f"UA,{message % 7}\nAA,3\n".encode())
            while job.progress().delivered < 100:
                pass
            job.cancel()

    answering = Answering("avg(delay) by carrier", ["carrier", "delay"])
    group: atp.GroupTerms | None = None
    assert str(answering.query) == "avg(delay) by carrier" and answering.query.by == ("carrier",)
    with bind() as receiver:
        sending = Call(lambda: send(receiver.address))
        for event in receiver:
            match event:
                case atp.Started(terms=terms):
                    group = terms.groups[0]
                    assert (group.messages, group.order, group.shortest_first) == (200, "ordered", False)
                    answering.set_messages_sent(0, 200)
                case atp.Message():
                    lines = bytes(event).decode().splitlines()
                    answering.push_message(0, (line.split(",") for line in lines))
                case atp.Finished(summary=summary):
                    # The start of a short job may stay unknown.
                    answering.set_messages_sent(0, 200)
                    answering.set_delivery(0, Delivery.of(group, summary.groups[0]))
                    break
        sending.result()
    answers = answering.answers()
    delays = [message % 7 for message in range(100)]
    (first, three), (second, delay) = answers.rows
    assert (first, second, three.value, answers.separates) == ("AA", "UA", 3.0, None)
    assert delay.value == pytest.approx(mean(delays)) and delay.low < delay.value < delay.high
    assert (delay.messages, delay.messages_sent) == (100, 200)
    (warning,) = delay.warnings
    assert "follow the order of the data, and the last 50.0 % of the messages are missing" in warning
    assert answers.keys_seen_from is None  # Keys at the end of the data are missing.
    overall = answering.overall()
    assert overall is not None and overall.value == pytest.approx((mean(delays) + 3) / 2)


def test_sql_has_a_row_for_each_key_and_an_estimate_for_each_function() -> None:
    query = Query("SELECT avg(v), count(*), max(v) WHERE v > 1 GROUP BY k, l")
    assert (query.functions, query.by) == (("avg(v)", "count(*)", "max(v)"), ("k", "l"))
    assert Query(str(query)).by == ("k", "l")
    answering = Answering(query, ["k", "l", "v"])
    answering.set_messages_sent(0, 2)
    answering.push_message(0, [["a", "x", 2], ["a", "x", 4], ["a", "y", 1], ["b", "x", 3]])
    answers = answering.answers()
    assert answers.functions == query.functions
    assert [key for key, *_ in answers.rows] == [("a", "x"), ("b", "x")]
    (_, average, count, largest), *_ = answers.rows
    assert (average.value, count.value, largest.value) == (3.0, 4.0, 4.0)
    assert (average.bound, largest.bound, str(largest)) == (None, "at least", "at least 4.00")
    # A key without an answer of one function.
    deviation = Answering("SELECT stddev(v), count(*) GROUP BY k", ["k", "v"])
    deviation.set_messages_sent(0, 1)
    deviation.push_message(0, [["a", 2], ["a", 4], ["b", 3]])
    (a, root, _), (b, none, one) = deviation.answers().rows
    assert (a, b, none, one.value) == ("a", "b", None, 1.0)
    assert root.value == pytest.approx(math.sqrt(2))
    with pytest.raises(QueryError, match="ORDER BY isn't supported"):
        Query("SELECT avg(v) ORDER BY v")


@pytest.mark.parametrize("ordered", [False, True])
def test_a_table_is_sent_shuffled_unless_it_is_told_to_be_ordered(ordered: bool) -> None:
    csv = "delay\n" + "".join(f"{row // 100}\n" for row in range(20_000))
    totals = b"records 20000\nmessages 2000\n"
    assert Table(csv, rows=10).heads == [b"delay\n", totals]
    with bind() as receiver:
        sending = Call(
            lambda: send_csv(
                receiver.address, csv, rows=10, ordered=ordered, msr=0.8, control_socket=None
            )
        )
        answering: Answering | None = None
        count = Answering("count(*)", ["delay"])
        waiting: list[atp.Message] = []
        terms: atp.GroupTerms | None = None
        for event in receiver:
            match event:
                case atp.Started(terms=told):
                    terms = told.groups[0]
                case atp.Message(group=Table.HEADER_GROUP, message=Table.HEADER_MESSAGE):
                    answering = Answering.of_csv("avg(delay)", event)
                case atp.Message(group=Table.HEADER_GROUP, message=Table.TOTALS_MESSAGE):
                    assert answering is not None and bytes(event) == totals
                    answering.push_totals(0, event)
                    count.push_totals(0, event)
                case atp.Message():
                    waiting.append(event)
                case atp.Finished(summary=summary):
                    break
        report = sending.result()
    assert report.groups[0].messages == 2_000 and answering is not None
    for message in waiting:
        answering.push_csv(0, message)
    answering.set_messages_sent(0, 2_000)
    count.push_csv(0, waiting[0])
    ((_, records),) = count.answers().rows
    assert (records.value, records.half_width, records.warnings) == (20_000, 0, ())
    answering.set_delivery(0, Delivery.of(terms, summary.groups[0]))
    ((_, mean_delay),) = answering.answers(confidence=0.999999).rows
    assert mean_delay.messages >= 1_600
    if ordered:
        assert terms is not None and terms.order == "ordered"
        if mean_delay.messages < 2_000:
            assert any("follow the order of the data" in text for text in mean_delay.warnings)
    else:
        error = abs(mean_delay.value - 99.5)  # Of all rows, the mean is right but for rounding.
        assert error <= mean_delay.half_width + 1e-9 and mean_delay.warnings == ()


def test_a_file_without_a_header_has_a_note() -> None:
    note = Table("AA,12.5\nUA,7\n").note
    assert note is not None and "the number 12.5" in note


def test_a_value_of_several_lines_is_a_warning() -> None:
    csv = 'k,v\n0,a\n1,"b\n2,c\n3,5"\n4,d\n'
    table = Table(csv)
    assert table.long_records == 1 and Table("k,v\n0,a\n").note is None
    assert table.note is not None and "the first at line 3" in table.note
    # The job isn't opened: its rate can't be.
    with pytest.warns(UserWarning, match="a quote is stray"), pytest.raises(ValueError):
        send_csv("127.0.0.1:9", csv, msr=7.0, control_socket=None)


def test_a_table_of_bad_csv_is_refused() -> None:
    for csv, options, words in [
        ("", {}, "is empty"),
        ('v,k\n1,a\n2,"b\n', {}, "line 3: a quote opens"),
        ("v\n1\n", {"rows": 0}, "rows must be 1 at least"),
        ("v\n1\n", {"ordered": True, "seed": 7}, "ordered records need no seed"),
        ("v,k\n1\n", {}, "reading the CSV records: CSV error"),
    ]:
        with pytest.raises(ValueError, match=words):
            Table(csv, **cast(Any, options))
    with pytest.raises(TypeError, match="sets messages and order itself"):
        send_csv("127.0.0.1:9", "v\n1\n", messages=1, order="shuffled")
    with pytest.raises(ValueError, match="holds no record"):
        send_csv("127.0.0.1:9", "v\n")
    one, same = Table("v\n1\n2\n3\n", rows=1, seed=7), Table("v\n1\n2\n3\n", rows=1, seed=7)
    assert one.messages == same.messages and one.header == b"v\n" and one.order == "shuffled"
    assert Table("v\n1\n2\n3\n", rows=1, ordered=True).messages == [b"1\n", b"2\n", b"3\n"]


def test_a_planner_ends_a_job_when_the_error_is_met() -> None:
    def send(peer: tuple[str, int]) -> atp.Report | None:
        with connect(
            peer, messages=20_000, msr=0.5, order="shuffled", rate_max_bytes_per_s=3_000_000
        ) as job:
            try:
                job.send_many([f"{n * 7 % 100:400}".encode() for n in range(20_000)])
            except atp.EndedByReceiverError:
                pass
        return job.report

    sample, planner = Sample(), Planner(relative=0.05)
    asked = []
    with bind() as receiver:
        sending = Call(lambda: send(receiver.address))
        for event in receiver:
            actions: list[atp.answers.Action | None] = []
            match event:
                case atp.Started(terms=terms):
                    group = terms.groups[0]
                    sample.set_messages_sent(0, group.messages or 0)
                    sample.set_delivery(0, Delivery.of(group))
                    actions.append(planner.source_started(0, group.msr))
                case atp.Message():
                    sample.push(0, 1, float(bytes(event)))
                case atp.Finished():
                    planner.source_ended(0)
            if planner.is_look_due(sample.messages):
                actions += planner.look(lambda level: [sample.mean(level)])
            for action in actions:
                match action:
                    case Lower(msr=msr) | Raise(msr=msr):
                        receiver.request_msr(event.run, 0, msr)
                    case End():
                        receiver.request_end(event.run)
                asked.append(action)
            if isinstance(event, atp.Finished):
                break
        report = sending.result()
    assert report is not None and report.requests > 0 and report.groups[0].delivered < 10_000
    assert asked[0] == Raise(stratum=0, msr=0.95)
    met = planner.report
    assert met is not None and met.is_met and met.because is None and met.reached <= 0.05
    assert met.estimates[0].contains(49.5) and met.estimates[0].confidence == 0.95
    assert str(met) == met.text and "5.00 % accepted" in met.text


def test_a_planner_says_what_it_reached() -> None:
    sample, planner = Sample(), Planner(absolute=0.1)
    sample.set_messages_sent(0, 100)
    sample.set_delivery(0, Delivery(order="shuffled"))
    planner.source_started(0, 0.5)
    for message in range(50):
        sample.push(0, 1, message)
    planner.source_ended(0)
    assert planner.report is None and planner.is_look_due(0)
    assert planner.look(lambda level: [sample.mean(level)]) == []
    report = planner.report
    assert report is not None and not report.is_met and report.looks == 1
    assert report.because == "the senders ended and 50 messages are missing: begin with a higher MSR"


def test_a_planner_awaits_its_sources() -> None:
    hears: list[Callable[[Planner], object]] = [
        lambda planner: planner.source_started(1, 0.9),
        lambda planner: planner.source_known(1),
    ]
    for hear in hears:
        sample, planner = Sample(), Planner(relative=0.1, sources=2)
        sample.set_messages_sent(0, 1_000)
        sample.set_delivery(0, Delivery(order="shuffled"))
        for message in range(100):
            sample.push(0, 1, 100 + message % 7)
        planner.source_started(0, 0.9)
        assert not planner.is_look_due(100)
        assert planner.look(lambda level: [sample.mean(level)]) == []
        hear(planner)
        assert planner.is_look_due(100)
        assert planner.look(lambda level: [sample.mean(level)]) == [End()]


def test_a_planner_is_used_while_it_looks() -> None:
    """By the answers of a look, as another thread might."""
    sample, planner = Sample(), Planner(relative=0.1)
    sample.set_messages_sent(0, 1_000)
    sample.set_delivery(0, Delivery(order="shuffled"))
    planner.source_started(0, 0.9)
    for message in range(100):
        sample.push(0, 1, 100 + 60 * (message % 2))

    def ask(level: float) -> list[Estimate]:
        assert planner.report is None and not planner.is_look_due(1_000_000)
        assert planner.look(ask) == []  # One look at a time, or each would cost confidence.
        received.append(planner.source_started(len(received) + 1, 0.5))
        planner.source_ended(0)
        return [sample.mean(level)]

    received: list[atp.answers.Action | None] = []
    planner.look(ask)
    assert received == [Raise(stratum=1, msr=0.9), Raise(stratum=2, msr=0.9)]
    # The look has kept what was told meanwhile.
    again = Planner(absolute=1e-9)
    again.source_started(0, 0.5)

    def end(level: float) -> list[Estimate]:
        again.source_ended(0)
        return [sample.mean(level)]

    assert again.look(end) and again.report is None
    assert again.is_look_due(0) and again.look(end) == [] and again.report is not None


def test_text_of_an_answer_says_that_it_has_warnings() -> None:
    few = Sample()
    few.set_messages_sent(0, 9)
    few.set_delivery(0, Delivery(order="shuffled"))
    for total in range(4):
        few.push(0, 1, total)
    mean = few.mean()
    assert len(mean.warnings) == 1
    assert str(mean).endswith("; 1 warning)") and "; 1 warning)" in repr(mean)


def test_answers_are_used_while_messages_are_read() -> None:
    """Rows and numbers may be made as they are read, by code that uses the same object."""
    answering = Answering("sum(x)", ["x"])

    def rows() -> Iterator[list[int]]:
        yield [answering.messages]
        answering.push_message(0, [[1]])

    answering.push_message(0, rows())
    assert answering.messages == 2
    sample, by = Sample(), GroupBy(3)

    class Total:
        def __float__(self) -> float:
            sample.set_messages_sent(0, 9)
            by.push_message(0, [("a", 1.0)])
            return 1.0

    total: Any = Total()
    sample.push(0, 1, total)
    by.push_message(0, [("a", total)])
    assert sample.messages_sent == 9 and by.messages == 3


def test_a_planned_query_pays_for_its_looks() -> None:
    answering, planner = Answering.of_csv("avg(v) by k", b"k,v\n"), Planner(relative=0.05)
    answering.set_messages_sent(0, 10_000)
    answering.set_delivery(0, Delivery(order="shuffled"))
    planner.source_started(0, 1.0)
    for message in range(10_000):
        row = f"{'ab'[message % 2]},{100 + message * 7_919 % 256}\n"
        answering.push_csv(0, row.encode() if message % 3 else row)
        if End() in planner.look_at(answering):
            break
    report = planner.report
    assert report is not None and report.is_met and answering.messages < 2_000
    assert report.looks > 1 and 0.95 < report.level < 1
    rows, plain = planner.answers(answering).rows, answering.answers().rows
    assert [key for key, _ in rows] == ["a", "b"]
    for (_, planned), (_, narrow), looked_at in zip(rows, plain, report.estimates):
        assert planned.confidence == 0.95 and planned.half_width > narrow.half_width
        assert planned.half_width == looked_at.half_width
    overall, narrow_overall = planner.overall(answering), answering.overall()
    assert overall is not None and narrow_overall is not None
    assert overall.half_width > narrow_overall.half_width


def test_csv_is_read_from_any_memory() -> None:
    answering = Answering.of_csv(Query("sum(x)"), memoryview(b"_x__")[1:2])
    answering.set_messages_sent(0, 4)
    line = bytearray(b"3\n")
    for text in ("1\n", b"2\n", line, memoryview(b"4_\n_")[::2]):
        answering.push_csv(0, text)
    line.append(0)  # It was given back.
    assert answering.answers().rows[0][1].value == 10


def test_a_planner_passes_exceptions_of_a_look_on() -> None:
    sample, planner = Sample(), Planner(relative=0.1)
    sample.set_delivery(0, Delivery(order="shuffled"))
    planner.source_started(0, 1.0)

    def fail(level: float) -> list[Estimate]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        planner.look(fail)
    # There is no answer yet: the planner waits, however often it is asked.
    for _ in range(80):
        (wait,) = planner.look(lambda level: [sample.mean(level)])
        assert isinstance(wait, Wait)
    planner.look(lambda level: [] if planner.report else [])
    for message in range(100):
        sample.push(0, 1, 10 + message % 2)
    answers = iter([[sample.mean()], []])
    with pytest.raises(AnswerError, match="no message has arrived"):
        planner.look(lambda level: next(answers))


ANY: Any = None
BYTES: Any = b"1"
INF = math.inf


def filled() -> Answering:
    answering = Answering("sum(x)", ["x"])
    answering.push_message(0, [["1"]])
    return answering


MISTAKES: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: Query("avg"), QueryError, "names no function"),
    (lambda: Query(ANY), TypeError, "a query must be text, not None"),
    (lambda: Answering("sum(y)", ["x"]), QueryError, 'the table has no column "y"'),
    (lambda: Answering("sum(y)", ANY), TypeError, "columns must be a list of names"),
    (lambda: filled().push_message(0, ANY), TypeError, "rows must be a list of rows"),
    (lambda: filled().push_message(0, ["1"]), TypeError, "a row must be a list of values, not '1'"),
    (lambda: filled().push_message(0, [[ANY], [BYTES]]), TypeError, "a value must be text, a number"),
    (lambda: filled().push_message(0, [[]]), QueryError, "a row of 0 values lacks"),
    (lambda: filled().push_message(0, [["many"]]), QueryError, "neither a number nor missing"),
    (lambda: filled().push_csv(0, ANY), TypeError, "a message must be bytes or another object"),
    (lambda: filled().push_csv(0, b"\xff"), QueryError, "isn't CSV"),
    (lambda: filled().push_totals(0, ANY), TypeError, "a message must be bytes or another object"),
    (lambda: filled().push_totals(0, b"records -1\n"), QueryError, "isn't the totals of a table"),
    (lambda: Answering.of_csv("sum(x)", b"x\n1\n"), QueryError, "2 records"),
    (lambda: Planner(absolute=1).look_at(ANY), TypeError, "Answering"),
    (lambda: filled().push_message(-1, []), ValueError, "stratum must be an integer from 0"),
    (lambda: filled().set_messages_sent(0, 1 << 40), ValueError, "messages must be an integer"),
    (lambda: filled().set_messages_sent(0, 0), AnswerError, "stratum 0 has 1 messages of 0 sent"),
    (lambda: filled().set_delivery(0, ANY), TypeError, "delivery must be an atp.answers.Delivery"),
    (
        lambda: filled().set_delivery(0, Delivery(lost=(range(4, 6), range(5, 9)))),
        ValueError,
        "lost must hold ranges of ids in ascending order",
    ),
    (
        lambda: filled().set_delivery(0, Delivery(order=ANY)),
        ValueError,
        'order must be "shuffled", "ordered" or "unknown"',
    ),
    (
        lambda: filled().set_delivery(0, Delivery(order="ordered", shuffle_buffer=9)),
        ValueError,
        "a shuffle_buffer needs",
    ),
    (
        lambda: filled().set_delivery(0, Delivery(order="shuffled", shuffle_buffer=0)),
        ValueError,
        "shuffle_buffer must be 1 at least",
    ),
    (lambda: filled().answers(), AnswerError, "a sum needs the number of messages"),
    (lambda: filled().answers(95), AnswerError, "a confidence of 95 is impossible"),
    (lambda: filled().answers(math.nan), AnswerError, "a confidence of NaN is impossible"),
    (lambda: Sample().mean(), AnswerError, "no message has arrived"),
    (lambda: Sample().push(0, 1, INF), AnswerError, "a total of inf in stratum 0"),
    (lambda: Sample().push(0, -1, 1), ValueError, "records must be an integer"),
    (lambda: Sample().set_exact_records(0, math.nan), AnswerError, "NaN"),
    (lambda: GroupBy(-1), ValueError, "keys_max must be an integer"),
    (lambda: GroupBy(3).push_message(0, [ANY]), TypeError, "a record must be a key and a number"),
    (lambda: GroupBy(3).push_message(0, [(ANY, 1)]), TypeError, "a key must be text, a number or a time, not None"),
    (lambda: Quantiles(3).quantile("a", 2), AnswerError, "a quantile of rank 2 is impossible"),
    (lambda: Top(3).largest(-1), ValueError, "ranks must be an integer"),
    (lambda: Planner(), TypeError, "give one accepted error"),
    (lambda: Planner(relative=0.1, absolute=1), TypeError, "give one accepted error"),
    (lambda: Planner(relative=0), AnswerError, "an accepted error of 0 is impossible"),
    (lambda: Planner(absolute=1, sources=-1), ValueError, "sources must be an integer"),
    (lambda: Planner(absolute=INF), AnswerError, "an accepted error of inf is impossible"),
    (lambda: Planner(absolute=1).source_started(0, math.nan), ValueError, "msr must lie between"),
    (lambda: Planner(absolute=1).look(ANY), TypeError, "not callable"),
    (lambda: Planner(absolute=1).look(lambda _: ANY), TypeError, "a list of Estimate, not None"),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_a_mistake_is_one_sentence(number: int) -> None:
    call, kind, words = MISTAKES[number]
    with pytest.raises(kind) as error:
        call()
    assert words in str(error.value) and "\n" not in str(error.value)


def test_no_numbers_cause_a_panic(rng: random.Random) -> None:
    """A panic would be a `PanicException`, which is no `Exception`."""
    numbers = [0, 1, -1, 2, 1e-300, 1e60, -1e60, 1e61, INF, math.nan, 1 << 32, (1 << 32) - 1, 0.5]

    def number() -> Any:
        return rng.choice([*numbers, rng.random(), rng.randrange(100), None, "1", True])

    for _ in range(300):
        sample, quantiles, top = Sample(), Quantiles(3), Top(3)
        by, planner = GroupBy(rng.randrange(3)), Planner(relative=rng.choice([1e-12, 0.1, 1e12]))
        query = rng.choice(["avg(x) by y", "quantile(x, 0.5)", "top(2, y)", "count(*)", "sum(x)"])
        answering = Answering(query, ["x", "y"])
        calls: list[Callable[[], Any]] = [
            lambda: sample.push(rng.randrange(2), number(), number()),
            lambda: sample.push_pair(rng.randrange(2), number(), number()),
            lambda: sample.set_messages_sent(rng.randrange(2), number()),
            lambda: sample.set_exact_records(0, number()),
            lambda: by.push_pairs(0, [("a", number(), number()), ("b", 1, number())]),
            lambda: quantiles.push_message(0, [("a", number())]),
            lambda: top.push_message(0, [("a", number()), ("b", number())]),
            lambda: answering.push_message(0, [[number(), number()]]),
            lambda: [t.set_messages_sent(0, 50) for t in (by, quantiles, top, answering)],
            lambda: [sample.sum(number()), sample.mean(number()), sample.count(number())],
            lambda: [by.mean("a", number()), by.sum("b", number())],
            lambda: quantiles.quantile("a", number(), number()),
            lambda: top.largest(number(), number()),
            lambda: answering.answers(number()),
            lambda: planner.source_started(rng.randrange(3), number()),
            lambda: planner.source_known(rng.randrange(20)),
            lambda: planner.source_ended(rng.randrange(20)),
            lambda: planner.look(lambda level: [sample.mean(level), sample.sum(level)]),
            lambda: [planner.is_look_due(number()), planner.report],
        ]
        for _ in range(60):
            try:
                rng.choice(calls)()
            except Exception as error:
                assert "\n" not in str(error)
