"""Values of rows as numpy, pandas and Python's own modules have them."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy
import pandas  # type: ignore[import-untyped]  # it has no type stubs
import pytest

from atp.answers import AnswerError, Answering, GroupBy, Quantiles, QueryError, Sample, Top

NAN = float("nan")

# A value, and the number that it is.
NUMBERS: list[tuple[Any, float]] = [
    (True, 1),
    (numpy.bool_(True), 1),
    (3, 3),
    (1 << 52, 1 << 52),
    (0.1, 0.1),
    (numpy.int8(-3), -3),
    (numpy.uint64(1 << 52), 1 << 52),
    (numpy.float16(0.5), 0.5),
    (numpy.float32(0.1), float(numpy.float32(0.1))),
    (numpy.float64(0.1), 0.1),
    (numpy.longdouble(2), 2),
    (numpy.array(7), 7),
    (Fraction(1, 2), 0.5),
    (Decimal("1.25"), 1.25),
    (timedelta(minutes=1), 60),
    (pandas.Timedelta("1min"), 60),
    (numpy.timedelta64(1_500, "ms"), 1.5),
]

MISSING: list[Any] = [
    None,
    NAN,
    numpy.float32("nan"),
    pandas.NA,
    pandas.NaT,
    numpy.datetime64("NaT", "s"),
    numpy.timedelta64("NaT", "s"),
    Decimal("NaN"),
    Decimal("sNaN"),
]

# No number, with the words of its refusal.
TIMES: list[Any] = [
    datetime(2026, 1, 2),
    pandas.Timestamp("2026-01-02", tz="Europe/Berlin"),
    numpy.datetime64("2026-01-02"),
]
OTHERS: list[Any] = [1j, b"1", [1], numpy.ones(2), numpy.complex64(1), numpy.timedelta64(1, "Y")]


def asked(query: str, rows: Any) -> Answering:
    answering = Answering(query, ["x"])
    answering.set_messages_sent(0, 1)
    answering.push_message(0, rows)
    return answering


def tables(value: Any) -> tuple[Sample, GroupBy, Quantiles, Top]:
    """Each with a message of the value, and of 1 if that is missing."""
    sample, by, quantiles, top = Sample(), GroupBy(9), Quantiles(9), Top(9)
    sample.push(0, 1, 1)
    sample.push(0, 1, value)
    by.push_message(0, [("a", 1), ("a", value)])
    quantiles.push_message(0, [("a", 1), ("a", value)])
    top.push_message(0, [("a", 1), ("a", value)])
    for table in (by, quantiles, top):
        table.set_messages_sent(0, 1)
    sample.set_messages_sent(0, 2)
    return sample, by, quantiles, top


@pytest.mark.parametrize("number", range(len(NUMBERS)))
def test_a_number_is_taken_in_any_type(number: int) -> None:
    value, is_number = NUMBERS[number]
    answers = asked("sum(x)", [[value]]).answers()
    assert answers.rows[0][1].value == is_number and answers.missing == 0
    sample, by, quantiles, top = tables(value)
    assert sample.sum().value == by.sum("a").value == is_number + 1
    assert quantiles.quantile("a", 0.99).value == max(is_number, 1)
    assert top.largest(1).ranks[0][1].value == is_number + 1
    assert sample.sum().warnings == by.warnings == quantiles.warnings == ()
    pairs = GroupBy(1)
    pairs.push_pairs(0, [("a", 2, value)])
    assert pairs.mean("a").value == is_number / 2
    again = Sample()
    again.push_pair(0, 2, value)
    assert again.ratio().value == is_number / 2


@pytest.mark.parametrize("number", range(len(MISSING)))
def test_a_missing_value_is_left_out_and_told(number: int) -> None:
    value = MISSING[number]
    answers = asked("avg(x)", [[value], [3]]).answers()
    assert answers.rows[0][1].value == 3 and answers.missing == 1
    sample, by, quantiles, top = tables(value)
    assert [table.missing for table in (sample, by, quantiles, top)] == [1, 1, 1, 1]
    assert sample.mean().value == by.mean("a").value == quantiles.quantile("a", 0.5).value == 1
    assert top.largest(1).ranks[0][1].value == sample.count().value == by.count("a").value == 1
    told = "1 records that arrived have no value (None, NaN or NA) and are left out"
    for warnings in (
        sample.mean().warnings,
        by.warnings,
        by.mean("a").warnings,
        quantiles.warnings,
        quantiles.quantile("a", 0.5).warnings,
        top.largest(1).warnings,
    ):
        assert [told in warning for warning in warnings].count(True) == 1
    pairs = GroupBy(1)
    pairs.push_pairs(0, [("a", 1, value), ("a", value, 1), ("a", 2, 3)])
    assert pairs.missing == 2 and pairs.mean("a").value == 1.5
    again = Sample()
    again.push_pair(1, 1, value)
    again.push(1, 5, value)
    assert (again.missing, again.messages) == (6, 2)
    again.merge(sample)
    assert (again.missing, again.messages) == (7, 4)


@pytest.mark.parametrize("number", range(len(TIMES)))
def test_a_time_is_a_key_and_no_number(number: int) -> None:
    value = TIMES[number]
    ((key, count),) = asked("count(*) by x", [[value]]).answers().rows
    assert key is not None and key.startswith("2026-01-02") and count.value == 1
    with pytest.raises(QueryError, match='column "x" holds "2026-01-02.*", which is neither'):
        asked("avg(x)", [[value]])
    with pytest.raises(TypeError, match="total must be a number, not .*: give a time as seconds"):
        Sample().push(0, 1, value)
    by = GroupBy(1)
    by.push_message(0, [(value, 1)])
    assert by.keys() == (key,) and by.mean(value).value == 1


@pytest.mark.parametrize("number", range(len(OTHERS)))
def test_another_value_is_refused_with_its_place(number: int) -> None:
    value = OTHERS[number]
    with pytest.raises(TypeError, match="a value must be .*, not .*: see row 1, value 0"):
        asked("sum(x)", [[1], [value]])
    with pytest.raises(TypeError, match="the value of record 1 must be a number, not"):
        GroupBy(1).push_message(0, [("a", 1), ("a", value)])
    with pytest.raises(TypeError, match="a key must be text, a number or a time, not"):
        Top(1).push_message(0, [(value, 1)])


def test_numbers_without_bounds_are_refused() -> None:
    for value in (math.inf, -math.inf, 10**400, -(10**400), Decimal("Infinity")):
        with pytest.raises(AnswerError, match="a total of -?inf in stratum 4"):
            Sample().push(4, 1, value)
        with pytest.raises(AnswerError, match="a value of -?inf in stratum 4"):
            Quantiles(1).push_message(4, [("a", value)])
        with pytest.raises(QueryError, match='column "x" holds'):
            asked("sum(x)", [[value]])
    with pytest.raises(TypeError, match="the value of record 0 must be a number, not 'many'"):
        Top(1).push_message(0, [("a", "many")])  # type: ignore[list-item]


def test_keys_are_the_texts_of_their_values() -> None:
    by = GroupBy(9)
    by.set_messages_sent(0, 1)
    by.push_message(0, [("a", 1), (3, 1), (numpy.int64(3), 1), (2.5, 1), (True, 1)])
    assert by.keys() == ("1", "2.5", "3", "a") and by.count(3).value == by.count("3").value
    for missing in (None, NAN, pandas.NA):
        key: Any = missing
        with pytest.raises(TypeError, match="leave out records without a key"):
            by.push_message(0, [(key, 1)])


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "float16", "float32", "float64", "bool"])
def test_arrays_are_rows(dtype: str) -> None:
    """An array with one dimension is the only column."""
    ones = numpy.ones(3, dtype)
    shapes: list[Any] = [ones, ones.reshape(3, 1), [ones[:1]] * 3, list(ones), ones[::-1]]
    for rows in shapes:
        assert asked("sum(x)", rows).answers().rows[0][1].value == 3
    two = Answering("ratio(x, y)", ["x", "y"])
    two.push_message(0, numpy.ones((3, 2), dtype))
    assert two.answers().rows[0][1].value == 1
    with pytest.raises(QueryError, match='a row of 1 values lacks column "y"'):
        two.push_message(0, ones)
    top = Top(3)
    top.push_message(0, numpy.ones((3, 2), dtype))
    assert top.messages == 1


def test_columns_of_pandas_are_rows() -> None:
    frame = pandas.DataFrame({"x": pandas.array([1, None, 3], dtype="Int64")})
    rows: list[Any] = [frame.itertuples(index=False), frame.to_numpy(), frame["x"]]
    for message in rows:
        answers = asked("avg(x)", message).answers()
        assert (answers.rows[0][1].value, answers.missing) == (2, 1)


def test_every_table_takes_exact_numbers_of_records() -> None:
    """A sample that contradicts them warns."""
    by, quantiles, top = GroupBy(3), Quantiles(3), Top(3)
    answering = Answering("avg(x) by x", ["x"])
    for table in (by, quantiles, top):
        table.push_message(0, [("a", 1)] * 5)
        table.set_messages_sent(0, 1)
    answering.push_message(0, [[1]] * 5)
    answering.set_messages_sent(0, 1)
    for each in (by, quantiles, top, answering):
        each.set_exact_records(0, 4)
        with pytest.raises(AnswerError, match="stratum 0 has 4 exact total in one place and 5"):
            each.set_exact_records(0, 5)
        with pytest.raises(TypeError, match="records must be a number"):
            each.set_exact_records(0, "4")  # type: ignore[arg-type]
    for warnings in (
        by.mean("a").warnings,
        quantiles.quantile("a", 0.5).warnings,
        top.largest(1).warnings,
        answering.answers().rows[0][1].warnings,
    ):
        assert any("from its exact total" in warning for warning in warnings)
    assert by.all().count().value == 5 and by.uncounted_records == 0
    answering.remove_stratum(0)
    assert answering.messages == 0
