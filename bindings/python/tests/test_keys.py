"""The keys of answers have the types of the columns that were sent, and their order."""

from __future__ import annotations

import importlib
import pickle
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

import atp
from atp.answers import send_csv
from ends import LIMIT_S, Call
from tables import address, both, send

# They have no types.
pandas: Any = importlib.import_module("pandas")
pa: Any = importlib.import_module("pyarrow")

DAYS = [date(2024, 1, 2), date(900, 1, 1)]
TIMES = [datetime(2024, 7, 1, 1), datetime(2024, 1, 1, 2, 3, 4, 5), datetime(2024, 1, 1, 2, 3, 4)]
# Two values in the order of their texts, and the dtype of pandas without and with a missing one.
KINDS = {
    "int": (pa.array([10, -9, 9], pa.int16()), "int16", "Int16"),
    "unsigned": (pa.array([100, 20], pa.uint64()), "uint64", "UInt64"),
    "float": (pa.array([10.5, 9.25, -1e300]), "float64", "float64"),
    "short_float": (pa.array([10.5, 0.1], pa.float32()), "float32", "float32"),
    "bool": (pa.array([True, False]), "bool", "boolean"),
    "date": (pa.array(DAYS), "object", "object"),
    "decimal": (pa.array([Decimal("10.00"), Decimal("9.50")]), "object", "object"),
    "time": (pa.array(TIMES, pa.timestamp("us")), "datetime64[us]", "datetime64[us]"),
    "zoned": (
        pa.array(TIMES, pa.timestamp("ns", "Europe/Paris")),
        "datetime64[ns, Europe/Paris]",
        "datetime64[ns, Europe/Paris]",
    ),
    "category": (pa.array([10, 9, 10]).dictionary_encode(), "int64", "Int64"),
    "text": (pa.array(["10", "9"]), "str", "str"),
}


@pytest.mark.parametrize("has_missing", [False, True], ids=["", "missing"])
@pytest.mark.parametrize("kind", KINDS)
def test_keys_have_the_type_of_their_column(kind: str, has_missing: bool) -> None:
    column, *dtypes = KINDS[kind]
    keys = column.to_pylist() + ([None] if has_missing else [])
    # Of texts, an empty one stands for those that are missing.
    missing = ["" if kind == "text" else None] if has_missing else []
    values = missing + sorted({key for key in keys if key is not None})
    sent = pa.array(keys, column.type)
    answers = both(send(pa.table({"k": sent, "v": [1.0] * len(sent)})), query="count(*) by k")
    got = answers.to_arrow()["k"]
    assert got.to_pylist() == values, got
    plain = column.type.value_type if kind == "category" else column.type
    assert kind == "decimal" or got.type == plain
    frame = answers.to_pandas()["k"]
    assert frame.dtype == dtypes[has_missing], frame.dtype
    assert [None if pandas.isna(key) else key for key in frame] == values
    assert pickle.loads(pickle.dumps(answers)).to_arrow().equals(answers.to_arrow())


def test_several_keys_are_in_order() -> None:
    table = pa.table({"k": [9, 10, 9, 10], "name": ["b", "a", "a", "b"], "v": [1.0] * 4})
    answers = both(send(table), query="SELECT sum(v), max(v) GROUP BY k, name")
    keys = [("9", "a"), ("9", "b"), ("10", "a"), ("10", "b")]
    assert [key for key, *_ in answers.rows] == keys and answers.key_types == ("int64", "str")
    shown = repr(answers)
    assert shown.index("\n9 ") < shown.index("\n10 "), shown
    assert answers.to_pandas()["k"].tolist() == [9, 9, 9, 9, 10, 10, 10, 10]


def test_ranks_keep_the_order_of_their_totals() -> None:
    table = pa.table({"k": [9, 10, 10, 7, 7, 7]})
    answers = both(send(table), query="top(3, k)")
    assert answers.to_arrow()["key"].to_pylist() == [7, 10, 9]


def test_keys_of_senders_that_disagree_are_texts() -> None:
    peer = address()
    receiving = Call(
        lambda: atp.receive(
            peer, query="count(*) by k", senders=2, control_socket=None, timeout=LIMIT_S
        )
    )
    tables = [pa.table({"k": keys}) for keys in ([9, 10], ["9", "10"])]
    for call in [Call(partial(send(table), peer)) for table in tables]:
        call.result()
    answers = receiving.result()
    assert answers.key_types == ("str",) and answers.to_pandas()["k"].tolist() == ["10", "9"]


def test_keys_of_csv_are_texts() -> None:
    def sending(peer: Any) -> None:
        send_csv(peer, "k\n9\n10\n", control_socket=None)

    answers = both(sending, query="count(*) by k")
    assert answers.to_arrow()["k"].to_pylist() == ["10", "9"]


UNKNOWN = {
    "date": pa.array([0, 10_000_000], pa.int32()).cast(pa.date32()),
    "time": pa.array([0, 10**12], pa.int64()).cast(pa.timestamp("s")),
    "zoned": pa.array([0, 10**12], pa.int64()).cast(pa.timestamp("s", "UTC")),
    "early": pa.array([0, -(10**11)], pa.int64()).cast(pa.timestamp("s")),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_keys_that_python_does_not_know_stay_texts(kind: str) -> None:
    """Arrow has years beyond 9999 and before 1."""
    answers = both(send(pa.table({"k": UNKNOWN[kind]})), query="count(*) by k")
    assert answers.key_types == ("str",), answers.key_types
    texts = [key for key, _ in answers.rows]
    assert texts[1].startswith("1970-01-01"), texts
    assert list(answers.to_pandas()["k"]) == answers.to_arrow()["k"].to_pylist() == texts


# Their texts have another order. Paris ended DST at 01:00 UTC of the first day.
INSTANTS = {
    "fractions": (pa.timestamp("ms", "UTC"), [1000, 1500, 2000]),
    "nanoseconds": (pa.timestamp("ns", "UTC"), [10**9, 10**9 + 1, 10**9 + 2, 10**9 + 1000]),
    "dst": (pa.timestamp("s", "Europe/Paris"), [1_729_989_000, 1_729_991_700]),
    "first_year": (pa.timestamp("s", "+02:00"), [-62_135_596_800, 0]),
}


@pytest.mark.parametrize("kind", INSTANTS)
def test_times_are_in_their_order(kind: str) -> None:
    of, instants = INSTANTS[kind]
    sent = pa.array(instants, pa.int64()).cast(of)
    answers = both(send(pa.table({"k": sent[::-1]})), query="count(*) by k")
    got = answers.to_arrow()["k"]
    assert got.type == of and got.cast(pa.int64()).to_pylist() == instants, got
    assert answers.to_pandas()["k"].is_monotonic_increasing
