"""`atp.receive`: from a data frame to answers with intervals, and to the rows that arrived."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import atp
from atp.answers import Answers, Table, send_csv
from ends import LIMIT_S, Call
from tables import ROWS, address, both, frame, refused, send

# They have no types.
pandas: Any = importlib.import_module("pandas")
pa: Any = importlib.import_module("pyarrow")
polars: Any = importlib.import_module("polars")
matplotlib: Any = importlib.import_module("matplotlib")

matplotlib.use("agg")


def test_a_frame_is_answered() -> None:
    answers = both(send(frame()), query="avg(delay) by carrier")
    assert isinstance(answers, Answers)
    assert answers.verdict == "fine" and answers.by == ("carrier",)
    assert [key for key, _ in answers.rows] == ["AA", "DL", "UA"]
    for _, estimate in answers.rows:
        assert estimate.contains(4.5) and estimate.low == estimate.high
    table = answers.to_pandas()
    assert list(table["carrier"]) == ["AA", "DL", "UA"]
    assert list(table["value"]) == pytest.approx([4.5] * 3)
    assert answers.to_arrow().to_pylist() == table.to_dict("records")
    text = repr(answers)
    assert "carrier   avg(delay)" in text and "AA       4.50 ± 0.00" in text, text
    page = answers._repr_html_()
    assert "<td" in page and "4.50 ± 0.00" in page


def test_a_part_of_a_frame_has_intervals() -> None:
    """The sender may lose a half, and the receiver ends it once the error is met."""
    query = "SELECT avg(delay), count(*), max(delay) WHERE delay > 2"
    data = frame(60_000)
    options: dict[str, Any] = {"msr": 0.5, "rows": 10, "rate_max_bytes_per_s": 200_000}
    answers = both(send(data, **options), query="avg(delay)", emax=0.2)
    [(key, estimate)] = answers.rows
    assert key is None and answers.report is not None and answers.report.is_met
    # Without the error's plan 3,000 arrive at least, which takes six seconds.
    assert estimate.messages < 3_000 and estimate.reach <= 0.2 * estimate.value
    # A bound has no error: the mean decides.
    answers = both(send(data, **options), query="SELECT max(delay), avg(delay)", emax=0.2)
    assert answers.verdict == "fine" and answers.rows[0][1].bound == "at least", answers
    assert answers.rows[0][2].messages < 3_000
    answers = both(send(data, rows=1_000), query=query)
    [(_, mean, count, highest)] = answers.rows
    assert (mean.value, count.value, highest.value) == (6.0, 42_000.0, 9.0)
    assert answers.functions == ("avg(delay)", "count(*)", "max(delay)")
    assert list(answers.to_pandas()["function"]) == list(answers.functions)


def test_rows_arrive_with_their_weights() -> None:
    data = frame()
    rows = both(send(data, msr=0.5, rows=10), as_="frame")
    assert rows.columns == ("carrier", "delay", "atp_stratum", "atp_weight")
    [sender] = rows.senders
    assert sender.messages_sent == ROWS // 10 and 10 * sender.messages == len(rows)
    got = rows.to_pandas()
    assert set(got["atp_weight"]) == {sender.weight} and set(got["atp_stratum"]) == {0}
    assert got["atp_weight"].sum() == pytest.approx(ROWS)
    assert f"{len(rows)} rows of carrier" in repr(rows)
    # All of them, twice over.
    rows = both(send(data.assign(delay=data["delay"].astype("Int64"))), as_="frame")
    for table in (rows.to_arrow(), pa.table(rows)):
        assert table.num_rows == ROWS and table["delay"].type == pa.int64()
        assert table["delay"].to_pylist().count(7) == ROWS // 10


def test_rows_have_limits() -> None:
    rows = both(send(frame()), as_="frame", rows_bytes_max=100_000)
    assert 0 < len(rows) < ROWS and rows.verdict == "in_doubt" and rows.messages_left_out > 0
    assert any("more than 100000 bytes" in warning for warning in rows.warnings), rows.warnings
    with pytest.raises(atp.answers.QueryError, match='"atp_weight" of its own: rename it'):
        refused(send(frame().rename(columns={"delay": "atp_weight"})), as_="frame")


def test_polars_sends_and_reads() -> None:
    """The text of polars is Arrow's view, which arrives as plain text."""
    data = polars.from_pandas(frame())
    rows = both(send(data), as_="frame")
    back = rows.to_polars().select(data.columns)
    assert back.sort(data.columns).equals(data.sort(data.columns))
    answers = both(send(data), query="max(delay) by carrier")
    assert answers.rows[0][1].brief == "9.00 ± 0.00"


def test_answers_are_plotted() -> None:
    answers = both(send(frame()), query="SELECT avg(delay), max(delay) GROUP BY carrier")
    figure = answers.plot()
    panels = figure.axes
    assert [panel.get_xlabel() for panel in panels] == ["avg(delay)", "max(delay)"]
    assert [label.get_text() for label in panels[0].get_yticklabels()] == ["AA", "DL", "UA"]
    with pytest.raises(ValueError, match="ax is one panel"):
        answers.plot(panels[0])
    copied = pickle.loads(pickle.dumps(answers))
    assert repr(copied) == repr(answers) and copied.verdict == "fine"


def test_csv_is_received() -> None:
    text = "k,v\n" + "".join(f"a,{row % 4}\n" for row in range(400))

    def sending(peer: Any) -> None:
        send_csv(peer, text, control_socket=None)

    answers = both(sending, query="sum(v) by k")
    assert [(key, of.value) for key, of in answers.rows] == [("a", 600.0)]
    rows = both(sending, as_="frame").to_pandas()
    assert sorted(rows["v"]) == sorted(str(row % 4) for row in range(400))


def test_several_senders() -> None:
    peer = address()
    receiving = Call(
        lambda: atp.receive(
            peer, query="count(*) by carrier", senders=2, control_socket=None, timeout=LIMIT_S
        )
    )
    # Frames of one table differ in their lengths and indices, and categories in their order.
    one = frame()
    other = frame(ROWS // 2).iloc[3:].astype({"carrier": "category"})
    calls = [Call(partial(send(data), peer)) for data in (one, other)]
    for call in calls:
        call.result()
    answers = receiving.result()
    assert answers.verdict == "fine", answers
    each = float(ROWS // 3 + ROWS // 6 - 1)
    assert {key: of.value for key, of in answers.rows} == dict.fromkeys(("AA", "DL", "UA"), each)


def test_asyncio_has_the_same_calls() -> None:
    assert inspect.signature(atp.aio.receive) == inspect.signature(atp.receive)

    async def main() -> None:
        peer = address()
        task = asyncio.create_task(
            atp.aio.receive(peer, query="avg(delay)", control_socket=None, timeout=LIMIT_S)
        )
        report = await atp.aio.send_dataframe(frame(), peer, control_socket=None)
        answers = await task
        assert report.groups[0].delivered >= report.groups[0].needed
        assert answers.rows[0][1].value == 4.5
        # A task that is cancelled gives its port back.
        of_rows = asyncio.create_task(atp.aio.receive(peer, as_="frame", control_socket=None))
        await asyncio.sleep(0.2)
        of_rows.cancel()
        with pytest.raises(asyncio.CancelledError):
            await of_rows
        async with atp.aio.Receiver(peer, control_socket=None):
            pass
        # Also one that is cancelled while it begins.
        for _ in range(5):
            of_rows = asyncio.create_task(atp.aio.receive(peer, as_="frame", control_socket=None))
            await asyncio.sleep(0)
            of_rows.cancel()
            with pytest.raises(asyncio.CancelledError):
                await of_rows
            async with atp.aio.Receiver(peer, control_socket=None):
                pass

    asyncio.run(asyncio.wait_for(main(), 3 * LIMIT_S))


def test_mistakes_are_one_sentence() -> None:
    def refused(error: type[Exception], match: str, **wanted: Any) -> None:
        with pytest.raises(error, match=match):
            atp.receive("127.0.0.1:0", control_socket=None, **wanted)

    refused(TypeError, "give one of query")
    refused(TypeError, "give one of query", query="avg(x)", as_="frame")
    refused(ValueError, "as_ must be", query="avg(x)", as_="rows")
    refused(TypeError, "emax is an option of a query", as_="frame", emax=0.1)
    refused(TypeError, "rows_bytes_max is an option of as_", query="avg(x)", rows_bytes_max=1)
    refused(TypeError, "end_in_doubt is an option of emax", query="avg(x)", end_in_doubt=True)
    refused(atp.answers.QueryError, "names no function", query="x")
    refused(atp.answers.QueryError, "max.x. is a bound .* no error", query="max(x)", emax=0.1)
    refused(ValueError, "emax must be a share below 1", query="avg(x)", emax=5)
    refused(ValueError, "senders must be 1 at least", query="avg(x)", senders=0)
    refused(ValueError, "timeout must be more than 0", query="avg(x)", timeout=0)
    refused(TypeError, "no option", query="avg(x)", job=7)
    with pytest.raises(atp.TimedOutError, match="no packet arrived for 0.1 s"):
        atp.receive(address(), query="avg(x)", control_socket=None, timeout=0.1)
    # Another socket has the port.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        with pytest.raises(atp.SocketError):
            atp.receive(other.getsockname(), query="avg(x)", control_socket=None)


def test_columns_that_do_not_fit_the_query() -> None:
    for query, words in (
        ("avg(height)", "no column"),
        ("avg(carrier)", "a number is needed"),
    ):
        with pytest.raises(atp.answers.QueryError, match=words):
            refused(send(frame()), query=query)


def test_two_schemas_in_one_job() -> None:
    """The second header and its rows are left out, and the answers say so."""
    one, other = (atp.answers.Frame(data, seed=1) for data in (frame(300), frame(300)[["delay"]]))

    def sending(peer: Any) -> None:
        groups = [
            atp.Group(Table.ROWS_GROUP, 1.0, len(one) + len(other), "rows", "shuffled"),
            atp.Group(Table.HEADER_GROUP, messages=3, name="header"),
        ]
        with atp.Job(peer, groups=groups, control_socket=None) as job:
            job.send_many([*one.heads, other.heads[0]], Table.HEADER_GROUP)
            job.send_many([*one.messages, *other.messages], Table.ROWS_GROUP)

    answers = both(sending, query="count(*) by carrier")
    assert answers.verdict == "in_doubt" and answers.messages_left_out >= 1
    assert any("left out" in warning for warning in answers.warnings), answers.warnings


def test_an_interrupt_gives_the_answer_so_far() -> None:
    """The program of a person who presses Ctrl-C, and its answer."""
    peer = address()
    program = f"""
import atp
answers = atp.receive({peer!r}, query="avg(delay)", control_socket=None, senders=2, progress=True)
print(answers.verdict, answers.rows[0][1].value, answers.warnings)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"COLUMNS": "200"},
    )
    assert child.stderr is not None
    shown = b""
    try:
        send(frame())(peer)
        # All messages are in the answer then: which part is, otherwise depends on the load.
        while b"93 of 93 messages" not in shown:
            assert select.select([child.stderr], [], [], LIMIT_S)[0], shown
            more = os.read(child.stderr.fileno(), 4096)
            assert more, shown
            shown += more
        os.kill(child.pid, signal.SIGINT)
        said = child.communicate(timeout=LIMIT_S)[0].decode()
    finally:
        child.kill()
    assert said.startswith("in_doubt 4.5") and "interrupted" in said, (said, shown)
    assert b"avg(delay): 4.50" in shown, shown


def test_no_thread_is_left() -> None:
    before = len(os.listdir("/proc/self/task"))
    both(send(frame(100)), query="avg(delay)")
    until = time.monotonic() + LIMIT_S
    while len(os.listdir("/proc/self/task")) > before:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_ordered_rows_are_in_doubt() -> None:
    """The rows that arrive are the first ones: their weights would lie."""
    rows = both(send(frame(), msr=0.5, rows=10, ordered=True), as_="frame")
    assert len(rows) < ROWS and rows.verdict == "in_doubt"
    assert any("no fair sample" in warning for warning in rows.warnings), rows.warnings
    answers = both(send(frame(), msr=0.5, rows=10, ordered=True), query="avg(delay)")
    assert answers.verdict == "in_doubt" and "no fair sample" in repr(answers), answers
    rows = both(send(frame(), ordered=True), as_="frame")
    assert len(rows) == ROWS and rows.verdict == "fine", rows


def test_answers_outlive_an_interrupt() -> None:
    """An interrupt at the very end takes what ``end`` has returned."""
    from atp._native import Receiving

    peer = address()
    receiving = Receiving(
        peer,
        "avg(delay)",
        emax=None,
        end_in_doubt=False,
        confidence=0.95,
        senders=1,
        timeout=LIMIT_S,
        rows_bytes_max=0,
        options={"control_socket": None},
    )
    sending = Call(lambda: send(frame())(peer))
    while not receiving.run(0.1):
        pass
    assert receiving.end() is receiving.end()
    receiving.close()
    sending.result()


def test_names_of_columns_and_keys_are_anybody_s() -> None:
    data = frame(60).rename(columns={"carrier": "value"}).replace("UA", "$10\\frac$")
    answers = both(send(data), query="avg(delay) by value")
    table = answers.to_arrow()
    assert table["value"].to_pylist() == list(answers.to_pandas()["value"])
    assert table["answer_value"].type == pa.float64()
    answers.plot().canvas.draw()


def test_a_closed_standard_error_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as closed:
        pass
    monkeypatch.setattr(sys, "stderr", closed)
    assert both(send(frame()), query="avg(delay)", progress=True).verdict == "fine"


@pytest.fixture(autouse=True)
def no_progress(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tests have no terminal, also where somebody runs them in one."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    yield
