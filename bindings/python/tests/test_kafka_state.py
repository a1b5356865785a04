"""Receivers and senders of windows that are started again, and the file of counted offsets."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import atp
from atp.kafka import Window, WindowSender
from ends import LIMIT_S, Call
from streams import check, inbox, numbers, offsets, outbox, take
from tables import address


class Crash(Exception):
    """A receiver or a sender that fails."""


def send(sender: WindowSender, rng: random.Random, begin: int, end: int) -> None:
    """Sends records, of which a group is sampled. Their times are in rough order, and the same of
    each sender."""
    for offset in range(begin, end):
        size = rng.choice([0, 50, 50, 50, 2_500])
        time_s = offset + 50 * random.Random(offset).random()
        sender.send(offset, bytes(size), timestamp=time_s, group=rng.choice([None, "half"]))


@pytest.mark.parametrize("run", range(4))
def test_each_offset_counts_once(rng: random.Random, run: int, tmp_path: Path) -> None:
    """Senders and receivers fail at random, and are started again. Senders cut the windows in other
    ways then."""
    rng = random.Random(rng.random() + run)
    peer, state = address(), tmp_path / "state.json"
    records = rng.randrange(200, 1_500)
    seeds = [rng.random() for _ in range(2)]
    ended: list[bool] = []

    def sends() -> None:
        rng, position = random.Random(seeds[0]), None
        while True:
            length = rng.randrange(20, 200)
            by_time: dict[str, Any] = {"length": length, "watermark_delay": rng.randrange(60)}
            sender = outbox(
                peer,
                **rng.choice([{"records": length}, by_time]),
                groups={"half": 0.5},
                peer_timeout=LIMIT_S,
                refused_timeout=0.3,
                position=position,
            )
            try:
                with sender:
                    begin = 0 if position is None else int(position.split()[0])
                    fails_at = begin + rng.randrange(2 * records)
                    send(sender, rng, begin, min(records, fails_at))
                    if fails_at < records:
                        raise Crash
                    sender.flush()
                    ended.append(True)
                    return
            except (Crash, atp.Error):
                position = sender.position or position

    sending = Call(sends)
    rng = random.Random(seeds[1])
    counted: list[int] = []
    while not ended:
        try:
            with inbox(peer, state=state, timeout=0.5, linger=0.5) as received:
                for window in received:
                    check(window)
                    if rng.random() < 0.3:
                        raise Crash
                    counted += [record.offset for record in window] + offsets(window.lost)
                    if rng.random() < 0.2:
                        received.confirm()
                        break
        except (Crash, atp.TimedOutError):
            pass
    sending.result(2 * LIMIT_S)
    assert sorted(counted) == list(range(records)), "an offset is missing, or counted twice"


KILLED = """
import os, signal, sys
import atp

peer, state, dies_at = sys.argv[1], sys.argv[2], int(sys.argv[3])
with atp.kafka.windows(peer, state=state, control_socket=None, timeout=60.0) as received:
    for at, window in enumerate(received):
        if at == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        print(*(record.offset for record in window), flush=True)
"""


def test_a_receiver_that_is_killed_goes_on_with_its_state(tmp_path: Path) -> None:
    """The windows before the one at which it dies are confirmed, and none of them comes again."""
    host, port = address()
    peer, state = f"{host}:{port}", tmp_path / "state.json"

    def sends() -> None:
        position = None
        while position is None or not position.startswith("200 "):
            sender = outbox(peer, records=10, position=position, refused_timeout=0.3)
            try:
                numbers(sender, 0 if position is None else int(position.split()[0]), 200)
            except atp.Error:
                pass
            position = sender.position or position
            sender.abandon()

    sending, counted = Call(sends), []
    for dies_at in (3, 0, 1, 5, 99):
        run = [sys.executable, "-c", KILLED, peer, str(state), str(dies_at)]
        process = subprocess.Popen(run, stdout=subprocess.PIPE, text=True)
        if dies_at == 99:
            sending.result(3 * LIMIT_S)
            process.kill()
        output, _ = process.communicate(timeout=3 * LIMIT_S)
        assert process.returncode == -9
        counted += [int(offset) for offset in output.split()]
    assert counted == list(range(200))


def count_one(state: Path | None) -> list[Window]:
    """Windows that a receiver gets which is started again, and whose sender repeats one."""
    windows = []
    for _ in range(2):
        with inbox(state=state, timeout=0.5) as received, outbox(received, records=10) as sender:
            sending = Call(lambda: numbers(sender, 0, 10))
            try:
                windows += take(received, 1)
            except atp.TimedOutError:
                assert received.stats.repeated == 1
            sending.result()
    return windows


def test_without_a_state_a_restarted_receiver_counts_again(tmp_path: Path) -> None:
    assert len(count_one(tmp_path / "state.json")) == 1
    assert len(count_one(None)) == 2


def test_a_part_of_a_window_counts() -> None:
    """A sender that is started again cuts other windows."""
    with inbox() as received:
        for records in (10, 25):
            with outbox(received, records=records) as sender:
                sending = Call(partial(numbers, sender, 0, records))
                (window,) = take(received, 1)
                sending.result()
        check(window)
        assert (window.records, window.received, window.repeated) == (25, 15, 10)
        assert sorted(record.offset for record in window) == list(range(10, 25))
        assert window.sum(lambda record: 1).value == 15 and window.lost == ()
        assert received.stats.records_repeated == 10


def test_a_damaged_state_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    for damaged in ["", "[{", "{}", "no JSON\n"]:
        path.write_text(damaged)
        with pytest.raises(atp.StateError, match=r"state\.json is damaged: ") as raised:
            inbox(state=path)
        assert "\n" not in str(raised.value) and "restore it" in str(raised.value)
        assert path.read_text() == damaged
    with pytest.raises(atp.StateError, match="none/state.json failed"):
        inbox(state=tmp_path / "none" / "state.json")
    path.write_text("[]")
    inbox(state=path).close()


def test_two_receivers_share_no_state(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    with inbox(state=path):
        with pytest.raises(atp.StateError, match="another receiver uses the state file"):
            inbox(state=str(path))
        other = "import atp, sys; atp.kafka.windows('127.0.0.1:0', state=sys.argv[1])"
        run = [sys.executable, "-c", other, str(path)]
        done = subprocess.run(run, capture_output=True, text=True)
        assert "another receiver uses the state file" in done.stderr
    inbox(state=path).close()


def test_a_forked_child_leaves_the_state_locked(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    received = inbox(state=path)
    child = os.fork()
    if child == 0:
        try:
            next(received)
        except atp.ForkedError:
            del received
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(atp.StateError):
        inbox(state=path)
    received.close()
    inbox(state=path).close()


def test_a_state_that_cannot_be_written_confirms_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with inbox(state=folder / "state.json", timeout=LIMIT_S) as received:
        with outbox(received, records=10) as sender:
            for offset in range(10):
                sender.send(offset, b"")
            (window,) = [next(received)]
            folder.rename(tmp_path / "moved")
            with pytest.raises(atp.StateError, match="writing the state file"):
                received.confirm()
            with pytest.raises(atp.StateError, match="writing the state file"):
                next(received)
            assert sender.confirmed == 0 and window.received == 10
            (tmp_path / "moved").rename(folder)
            assert received.confirm()


INTERRUPTED = """
import os, signal, socket, threading, time
import atp

silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 0))
sent_at = 0.0

def interrupt():
    global sent_at
    sent_at = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)

def interrupted(call):
    threading.Timer(0.3, interrupt).start()
    try:
        call()
    except KeyboardInterrupt:
        took = time.monotonic() - sent_at
        print("interrupted" if took < 30.0 else f"late: {took}", flush=True)

received = atp.kafka.windows("127.0.0.1:0", control_socket=None)
sender = atp.kafka.WindowSender(
    silent.getsockname(), topic="t", records=1, control_socket=None, peer_timeout=60.0
)
"""

CALLS = {
    "a_loop": "interrupted(lambda: list(received))",
    "flush": """
sender.send(0, b"")
interrupted(sender.flush)
assert sender.unconfirmed == 1
interrupted(sender.close)
sender.abandon()""",
    # The third window waits until the first one is confirmed.
    "send": """
def send():
    for offset in range(9):
        sender.send(offset, b"")
interrupted(send)
assert sender.unconfirmed > 0""",
    "a_block": """
def block():
    with sender:
        sender.send(0, b"")
        sender.flush()
interrupted(block)""",
}


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends(call: str) -> None:
    run = [sys.executable, "-c", INTERRUPTED + CALLS[call] + "\nos._exit(0)"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=6 * LIMIT_S)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines == ["interrupted"] * CALLS[call].count("interrupted("), done
