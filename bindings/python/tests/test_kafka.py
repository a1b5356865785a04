"""Windows from a sender to a receiver: what they have, and when they are confirmed."""

from __future__ import annotations

import json
import logging
import random
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import atp
from atp.kafka import Window, WindowSender
from ends import LIMIT_S, Call, connect
from streams import check, inbox, lossy, numbers, offsets, outbox, take

SENT = {"groups": {"half": 0.5, "most": 0.9}, "records": 500}


def send(sender: WindowSender, begin: int, end: int) -> None:
    """Records of three groups, some of which are long."""
    for offset in range(begin, end):
        sender.send(
            offset,
            bytes([offset % 256]) * (4_000 if offset % 50 == 0 else 60),
            key=str(offset),
            timestamp=offset / 10,
            headers=[("unit", b"C"), ("none", None)],
            group=(None, "half", "most")[offset % 3],
        )
    sender.flush()


def test_windows_have_what_was_sent() -> None:
    with inbox() as received:
        with outbox(received, cluster="c", group="g", partition=3, **SENT) as sender:
            sending = Call(lambda: send(sender, 100, 1_600))
            windows = take(received, 3)
            sending.result()
            assert (sender.confirmed, sender.unconfirmed) == (3, 0)
    assert [window.number for window in windows] == [0, 1, 2]
    for number, window in enumerate(windows):
        check(window)
        begin = 100 + 500 * number
        stream = (window.cluster, window.topic, window.partition, window.group)
        assert stream == ("c", "readings", 3, "g")
        assert (window.part, window.is_last_part, window.late, window.skipped) == (0, True, 0, 0)
        assert (window.first_offset, window.next_offset) == (begin, begin + 500)
        assert window.offsets == (range(begin, begin + 500),)
        assert (window.start, window.end, window.repeated, window.refused) == (None, None, 0, ())
        groups = {name: (group.msr, group.records) for name, group in window.groups.items()}
        assert groups["exact"][0] == 1.0 and (groups["half"][0], groups["most"][0]) == (0.5, 0.9)
        assert sum(records for _, records in groups.values()) == 500
        assert window.groups["exact"].received == groups["exact"][1]
        for record in window:
            value = record.value
            assert value is not None and set(value) == {record.offset % 256}
            assert len(value) == (4_000 if record.offset % 50 == 0 else 60)
            assert record.key == str(record.offset).encode()
            assert record.headers == (("unit", b"C"), ("none", None))
            assert record.group == ("exact", "half", "most")[record.offset % 3]
            assert record.timestamp_ms == record.offset * 100
            assert record.timestamp == datetime.fromtimestamp(record.offset / 10, timezone.utc)


def test_weights_stand_for_all_records(rng: random.Random) -> None:
    with inbox() as received, lossy(received.address, rng, 0.3) as path:
        with outbox(path, **SENT) as sender:
            sending = Call(lambda: send(sender, 0, 1_000))
            for window in take(received, 2):
                check(window)
                assert window.received + len(offsets(window.lost)) == 500
                groups = [one for one in window.groups.values() if one.arrived > 0]
                weights = sum(record.weight for record in window)
                assert weights == pytest.approx(sum(one.records for one in groups))
                assert all(one.arrived == one.received for one in groups)
            sending.result()


def test_windows_of_event_time() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    with inbox() as received:
        with outbox(received, length=60, watermark_delay=10) as sender:
            begin = noon.timestamp()
            # The record at 65 s closes nothing, that at 71 s does, and the one after it is late.
            for offset, second in enumerate([0, 30, 65, 59, 71, 20]):
                sender.send(offset, b"", timestamp=begin + second)
            sending = Call(sender.flush)
            first, second_window = take(received, 2)
            sending.result()
    assert first.start == noon and (first.end or noon) - noon == second_window.start - noon  # type: ignore[operator]
    assert [record.offset for record in first] == [0, 1, 3]
    assert sorted(record.offset for record in second_window) == [2, 4, 5]
    assert (first.late, second_window.late) == (0, 1)
    assert first.next_offset == 2  # The second window has this record.


def test_a_tombstone_and_an_empty_record() -> None:
    with inbox() as received, outbox(received, records=2) as sender:
        sender.send(0, None, key="key")
        sender.send(1, "")
        (window,) = take(received, 1)
        tombstone, empty = window
        assert (tombstone.value, tombstone.key, tombstone.timestamp) == (None, b"key", None)
        assert (empty.value, empty.key, empty.headers) == (b"", None, ())
        assert tombstone.json() is None
        with pytest.raises(ValueError, match="the value of record 1 is no JSON"):
            empty.json()
        assert repr(empty) == '<atp.kafka.Record 1 of group "exact": 0 bytes>'
        assert repr(window) == "<atp.kafka.Window 0 of readings [0]: 2 of 2 records, 0 lost>"


def test_a_record_that_is_too_long_is_refused() -> None:
    with inbox() as received:
        with outbox(received, records=3, message_bytes_max=2_000) as sender:
            for offset, size in enumerate([10, 3_000, 10]):
                sender.send(offset, bytes(size))
            (window,) = take(received, 1)
            check(window)
            assert window.refused == (range(1, 2),) and window.received == 2


def test_a_large_window_has_parts() -> None:
    with inbox() as received:
        with outbox(received, length=60, window_bytes_max=10_000) as sender:
            for offset in range(25):
                sender.send(offset, bytes(1_000), timestamp=1.0)
            sending = Call(sender.flush)
            parts = take(received, 3)
            sending.result()
    assert [(part.number, part.part, part.is_last_part) for part in parts] == [
        (0, 0, False),
        (0, 1, False),
        (0, 2, False),
    ]
    assert sum(part.received for part in parts) == 25


def test_a_window_is_confirmed_when_the_next_one_is_asked_for() -> None:
    with inbox() as received, outbox(received, records=10) as sender:
        sending = Call(lambda: send_plain(sender, 0, 30))
        for window in received:
            limit = time.monotonic() + LIMIT_S
            while sender.confirmed < window.number and time.monotonic() < limit:
                time.sleep(0.001)
            assert sender.confirmed == window.number
            if window.number == 2:
                break
        sending.result()
        with pytest.raises(atp.TimedOutError, match="not confirmed before the timeout"):
            sender.flush(timeout=0.2)
        assert sender.confirmed == 2 and received.confirm() and not received.confirm()
        sender.flush(timeout=LIMIT_S)
        assert received.stats.windows == 3


def send_plain(sender: WindowSender, begin: int, end: int) -> None:
    for offset in range(begin, end):
        sender.send(offset, str(offset))


@pytest.mark.parametrize("how", ["raise", "break"])
def test_a_window_whose_body_has_not_ended_is_sent_again(how: str) -> None:
    class Failed(Exception):
        pass

    def leave() -> Window:
        for window in received:
            if how == "break":
                break
            raise Failed
        return window

    with inbox() as received:
        with outbox(received, records=10) as sender:
            send_plain(sender, 0, 10)
            if how == "break":
                leave()
            else:
                with pytest.raises(Failed):
                    leave()
            # A loop begins: its window is another sender's, which sends it again.
            again = Call(lambda: take(received, 1))
            with pytest.raises(atp.Error):
                sender.flush()
            assert sender.position is None and sender.unconfirmed == 1
            with pytest.raises(atp.ClosedError):
                sender.send(10, b"")
            sender.abandon()
        with outbox(received, records=10) as sender:
            send_plain(sender, 0, 10)
            (window,) = again.result()
        assert window.received == 10 and received.stats.windows == 1


def test_the_sender_of_a_receiver_that_has_left_fails() -> None:
    received = inbox()
    with outbox(received, records=10, peer_timeout=1.0) as sender:
        send_plain(sender, 0, 10)
        with received:
            for _ in received:
                break
        with pytest.raises(atp.Error, match=r"readings \[0\]"):
            sender.flush()
        sender.abandon()


def test_an_exception_in_the_block_abandons_the_windows() -> None:
    with inbox(timeout=0.5) as received:
        with pytest.raises(KeyError), outbox(received, records=10) as sender:
            send_plain(sender, 0, 5)
            raise KeyError
        with pytest.raises(atp.TimedOutError, match="no window has ended"):
            next(received)
        # The next call goes on.
        with outbox(received, records=10) as sender:
            send_plain(sender, 0, 10)
            assert next(received).received == 10
            assert received.confirm()


def test_closing_ends_the_loop_of_another_thread() -> None:
    received = inbox(timeout=None)
    looping = Call(lambda: list(received))
    time.sleep(0.2)
    received.close()
    assert looping.result() == []
    received.close()
    with pytest.raises(atp.ClosedError):
        received.confirm()
    assert list(received) == []


def test_what_is_no_window_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with inbox(timeout=0.5, memory_bytes_max=20_000) as received:
        with connect(received.address, windows=True) as job:
            job.send(b"no window")
            job.begin_end_window()
            with pytest.raises(atp.TimedOutError):
                next(received)
            with pytest.raises(atp.ShortError):
                job.finish()
        with outbox(received, records=100) as sender:
            send_long(sender)
            with pytest.raises(atp.TimedOutError):
                next(received)
            with pytest.raises(atp.Error):
                sender.flush()
            sender.abandon()
        stats = received.stats
        assert (stats.windows, stats.malformed) == (0, 1) and stats.no_memory >= 1
    lines = [line.getMessage() for line in caplog.records if line.levelno == logging.WARNING]
    assert any("sends no windows" in line for line in lines)
    assert any("memory_bytes_max, 20000 bytes" in line for line in lines)


def send_long(sender: WindowSender) -> None:
    for offset in range(100):
        sender.send(offset, bytes(1_000))


def test_a_sender_without_a_receiver_fails() -> None:
    with atp.kafka.windows("127.0.0.1:0", control_socket=None) as closed:
        peer = closed.address
    sender = outbox(peer, records=1, peer_timeout=0.5)
    sender.send(0, b"")
    with pytest.raises(atp.Error, match=r"sending windows of readings \[0\] to 127.0.0.1"):
        sender.flush()
    with pytest.raises(atp.ClosedError):
        sender.close()
    sender.abandon()
    sender.close()


def test_a_position_goes_on_where_a_sender_has_ended() -> None:
    with inbox() as received:
        with outbox(received, records=10) as sender:
            sending = Call(lambda: numbers(sender, 0, 10))
            take(received, 1)
            sending.result()
            position = sender.position
        assert position is not None and position.startswith("10 ")
        with outbox(received, records=10, position=position) as sender:
            sending = Call(lambda: numbers(sender, 0, 20))
            (window,) = take(received, 1)
            sending.result()
        assert (window.number, window.epoch, window.first_offset) == (1, 1, 10)
        assert received.stats.records_repeated == 0


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "give records, the number"),
    ({"records": 10, "length": 1}, "give records"),
    ({"records": 0}, "records must be 1"),
    ({"length": 0}, "length must be 1 ms"),
    ({"records": 10, "watermark_delay": 1}, "watermark_delay is for windows by time"),
    ({"records": 10, "msr": 2}, "msr must lie between 0 and 1"),
    ({"records": 10, "groups": {"a": -1}}, "the rate of group \"a\" must lie between 0 and 1"),
    ({"records": 10, "groups": {"exact": 0.5}}, "is one of ATP's"),
    ({"records": 10, "groups": [1]}, "groups must be a dict"),
    ({"records": 10, "groups": {str(n): 0.5 for n in range(300)}}, "254 at most"),
    ({"records": 10, "position": "17"}, "position must be the text"),
    ({"records": 10, "messages": 3}, "WindowSender has no option \"messages\""),
    ({"records": 10, "colour": 3}, "help\\(atp.kafka.WindowSender\\) lists"),
    ({"records": 10, "partition": -1}, "partition must be an integer"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_arguments_are_checked(number: int) -> None:
    options, text = BAD[number]
    with pytest.raises((ValueError, TypeError), match=text):
        outbox(("127.0.0.1", 9), **options)


def test_arguments_of_records_are_checked() -> None:
    with outbox(("127.0.0.1", 9), records=10, groups={"half": 0.5}) as sender:
        sender.send(5, b"")
        bad: list[tuple[dict[str, Any], str]] = [
            ({"offset": 5}, "offset 5 follows 5: offsets must ascend"),
            ({"offset": -1}, "offset must be an integer"),
            ({"group": "other"}, "there is no group \"other\": the groups are \"half\""),
            ({"timestamp": datetime(2026, 1, 1)}, "a datetime with a time zone"),
            ({"timestamp": "now"}, "a datetime with a time zone"),
            ({"timestamp": 1e300}, "a datetime with a time zone"),
            ({"headers": [1]}, "headers must be pairs"),
            ({"value": 7}, "int"),
        ]
        for wrong, text in bad:
            record: dict[str, Any] = {"offset": 6, "value": b""} | wrong
            with pytest.raises((ValueError, TypeError), match=text):
                sender.send(**record)
        sender.send(6, b"", timestamp=datetime(2026, 1, 1, tzinfo=timezone.utc))
        sender.abandon()
    with pytest.raises(TypeError, match="Windows has no option \"jobs\""):
        atp.kafka.windows("127.0.0.1:0", jobs=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="state must be the path"):
        inbox(state=7)


def test_state_is_json_of_the_counted_offsets(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    with inbox(state=path) as received, outbox(received, records=10) as sender:
        sending = Call(lambda: numbers(sender, 0, 20))
        take(received, 2)
        sending.result()
    ((stream, counted),) = json.loads(path.read_text())
    assert stream["topic"] == "readings" and counted["base"] == 20
    assert sorted(file.name for file in tmp_path.iterdir()) == ["state.json", "state.json.lock"]
