"""The rows that `atp.receive(..., as_="frame")` returns."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import importlib
import json
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import atp
from atp.answers import Table
from ends import LIMIT_S, Call, bind
from tables import both, send

# They have no types.
pandas: Any = importlib.import_module("pandas")
pa: Any = importlib.import_module("pyarrow")


def test_rows_pickle() -> None:
    """With their types and the metadata of pandas. A category is a dictionary of Arrow."""
    data = pandas.DataFrame(
        {
            "k": pandas.Categorical(["a", "b", None] * 100),
            "at": pandas.date_range("2024-01-01", periods=300, tz="Europe/Paris"),
            "v": range(300),
        },
        index=pandas.Index([7 * row for row in range(300)], name="row"),
    )
    rows = both(send(data, rows=7), as_="frame")
    for copied in (pickle.loads(pickle.dumps(rows)), copy.deepcopy(rows)):
        assert repr(copied) == repr(rows) and copied.senders == rows.senders
        assert copied.to_arrow().equals(rows.to_arrow(), check_metadata=True)
        back = copied.to_pandas().sort_index()[list(data.columns)]
        pandas.testing.assert_frame_equal(back, data, check_dtype=False)
    with pytest.raises(ValueError, match="the bytes of rows: "):
        type(rows.batches).from_bytes(b"rows")


def test_damaged_bytes_of_rows_are_refused() -> None:
    """Each byte by the others: no length is taken for granted."""
    data = pandas.DataFrame({"k": ["a", None], "n": [1, 2]})
    batches = both(send(data), as_="frame").batches
    stream = batches.to_bytes()
    for at in range(len(stream)):
        for bits in (0x01, 0x80, 0xFF):
            damaged = bytearray(stream)
            damaged[at] ^= bits
            with contextlib.suppress(ValueError):
                type(batches).from_bytes(bytes(damaged))
    with pytest.raises(ValueError, match="cut off"):
        type(batches).from_bytes(stream[: len(stream) // 2])


LEVELS = pandas.MultiIndex.from_product([["a", "b"], [1, 2]], names=["x", "y"])
DAYS = pandas.date_range("2024-01-01", periods=4)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("names", [LEVELS, DAYS, pandas.RangeIndex(4)], ids=["levels", "days", "int"])
def test_names_of_columns_need_not_be_texts(names: Any) -> None:
    data = pandas.DataFrame([range(4), range(4, 8)], columns=names, index=["p", "q"])
    back = both(send(data), as_="frame").to_pandas()
    assert list(back["atp_weight"]) == [1.0, 1.0] and list(back["atp_stratum"]) == [0, 0]
    back = back[data.columns].sort_index()
    pandas.testing.assert_frame_equal(back, data, check_column_type=False, check_freq=False)
    answers = both(send(data), query=f'max("{answers_name(names[3])}")')
    assert answers.rows[0][1].value == 7.0


def answers_name(name: Any) -> str:
    """The text that pyarrow makes of a name."""
    return str(tuple(map(str, name)) if isinstance(name, tuple) else name)


def test_names_that_pyarrow_does_not_restore_stay_texts() -> None:
    data = pandas.DataFrame({"a": [1, 2], "b": [3, 4]}, index=["p", "q"])
    sent = data.set_axis(pandas.CategoricalIndex(["a", "b"]), axis="columns")
    back = both(send(sent), as_="frame").to_pandas()[["a", "b"]].sort_index()
    pandas.testing.assert_frame_equal(back, data)


OF_PANDAS: dict[str, Any] = {"index_columns": [], "column_indexes": [], "columns": []}
COLUMN: dict[str, Any] = {"name": "v", "field_name": "v", "pandas_type": "int64", "metadata": None}
INDEX: dict[str, Any] = {"kind": "range", "name": None, "start": 0, "stop": 2}
METADATA: dict[str, Any] = {
    "text": "no JSON",
    "list": "[]",
    "deep": "[" * 100_000,
    "number": OF_PANDAS | {"columns": 5},
    "index": OF_PANDAS | {"index_columns": ["nope"]},
    "kind": OF_PANDAS | {"columns": [COLUMN | {"numpy_type": "interval[foo]"}]},
    "step": OF_PANDAS | {"index_columns": [INDEX | {"step": 0}]},
    "renamed": OF_PANDAS | {"columns": [COLUMN | {"name": "atp_weight", "numpy_type": "int64"}]},
}


@pytest.mark.parametrize("name", METADATA)
def test_metadata_of_pandas_that_do_not_fit_are_left_out(name: str) -> None:
    """They come from another host."""
    wrong = METADATA[name] if isinstance(METADATA[name], str) else json.dumps(METADATA[name])
    sent = pa.table({"v": [1, 2], "s": ["a", "b"]}).replace_schema_metadata({"pandas": wrong})
    rows = both(send(sent), as_="frame")
    with pytest.warns(UserWarning, match="the sender's metadata of pandas don't fit its table"):
        back = rows.to_pandas()
    assert list(back.columns) == ["v", "s", "atp_stratum", "atp_weight"]
    assert sorted(zip(back["v"], back["s"], back["atp_weight"])) == [(1, "a", 1.0), (2, "b", 1.0)]


def test_a_column_with_the_name_of_weights_is_kept() -> None:
    """In a column of several levels it isn't seen before pandas makes a name of it."""
    names = pandas.MultiIndex.from_tuples([("atp_weight", ""), ("x", "y")])
    back = both(send(pandas.DataFrame([[7, 8]], columns=names)), as_="frame").to_pandas()
    assert back["('atp_weight', '')"].tolist() == [7] and back["atp_weight"].tolist() == [1.0]


def test_a_count_of_rows_that_were_sent_is_no_index() -> None:
    """Shuffled rows would have the labels of others."""
    data = pandas.DataFrame({"v": range(50)}, index=pandas.RangeIndex(50, 100, name="row"))
    back = both(send(data), as_="frame").to_pandas()
    assert list(back.index) == list(range(50)) and back.index.name is None


def test_ordered_batches_are_sent_as_they_come() -> None:
    """The second batch is made once the first has arrived."""
    arrived = threading.Event()

    def batches() -> Iterator[Any]:
        yield pandas.DataFrame({"v": []}, dtype="int64")
        yield pandas.DataFrame({"v": [0, 1]})
        assert arrived.wait(LIMIT_S)
        # The index of pandas counts on.
        yield pandas.DataFrame({"v": [2, 3, 4]}, index=[2, 3, 4]).set_index(pandas.RangeIndex(2, 5))

    with bind() as receiver:
        sending = Call(lambda: send(batches(), ordered=True)(receiver.address))
        messages = []
        while True:
            match receiver.recv(LIMIT_S):
                case atp.Message(group=Table.HEADER_GROUP, message=1) as message:
                    assert bytes(message) == b"records 5\nmessages 2\n"
                case atp.Message(group=Table.ROWS_GROUP) as message:
                    arrived.set()
                    messages.append(message)
                case atp.Finished():
                    break
                case None:
                    raise TimeoutError("no second batch")
        assert sending.result().groups[0].delivered == len(messages) == 2


def test_ordered_batches_are_answered() -> None:
    def batches() -> Iterator[Any]:
        return (pa.table({"k": ["a", "b"], "v": [at, 10 * at]}) for at in range(20))

    answers = both(send(batches(), ordered=True), query="SELECT count(*), sum(v) GROUP BY k")
    assert [(key, count.value, total.value) for key, count, total in answers.rows] == [
        ("a", 20.0, 190.0),
        ("b", 20.0, 1900.0),
    ]
    assert answers.verdict == "fine"

    async def main(peer: Any) -> None:
        await atp.aio.send_dataframe(batches(), peer, ordered=True, control_socket=None)

    rows = both(lambda peer: asyncio.run(main(peer)), as_="frame").to_arrow()
    assert rows["v"].to_pylist() == [value for at in range(20) for value in (at, 10 * at)]


def test_ordered_batches_of_two_tables_are_refused() -> None:
    def refused(match: str, *batches: Any) -> None:
        with bind() as receiver, pytest.raises(ValueError, match=match):
            send(iter(batches), ordered=True)(receiver.address)

    one, other = pa.table({"v": [1]}), pa.table({"v": ["a"]})
    refused("a batch has other columns than the first one: .*v", one, other)
    categories = [pa.table({"k": pa.array([k]).dictionary_encode()}) for k in "ab"]
    refused("other dictionaries", *categories)
    refused("the iterator has no row", one.slice(0, 0))
