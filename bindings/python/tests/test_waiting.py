"""Waiting: timeouts, threads, signals, forks, and the use of what has ended."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import atp
from ends import LIMIT_S, Call, bind, connect, receive, silent_peer

INTERRUPTED = """
import os, signal, socket, threading, time
import atp

silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 0))
options = {"control_socket": None, "peer_timeout": 60.0}
sent_at = 0.0

def interrupt():
    global sent_at
    sent_at = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)

def interrupted(call, limit_s=30.0):
    threading.Timer(0.3, interrupt).start()
    try:
        call()
    except KeyboardInterrupt:
        took = time.monotonic() - sent_at
        # Without the signal these calls take a minute, or never end.
        print("interrupted" if took < limit_s else f"late: {took}", flush=True)

receiver = atp.Receiver("127.0.0.1:0", control_socket=None)
job = atp.Job(silent.getsockname(), buffer_bytes=100_000, **options)
"""

CALLS = {
    "recv": "interrupted(receiver.recv)",
    "recv_batch": "interrupted(lambda: receiver.recv_batch(8, 60))",
    "iteration": "interrupted(lambda: next(receiver))",
    "send": """
def fill():
    while True:
        job.send(bytes(1_000))
interrupted(fill)
taken = job.progress().messages
assert taken >= 90, taken
job.begin_cancel()""",
    "send_many": "interrupted(lambda: job.send_many([bytes(1_000)] * 10_000))",
    "send_of_large_buffers": "interrupted(lambda: job.send_many([bytes(50_000)] * 10))",
    "finish": """
job.send(b"message")
interrupted(job.finish)
assert not job.ended
assert job.try_outcome() is None
interrupted(job.finish)
interrupted(job.cancel)""",
    "end_window": """
job.send(b"message")
interrupted(job.end_window)
assert job.try_window() is None
interrupted(job.end_window)""",
    "next_window": """
windows = atp.Job(silent.getsockname(), overlap_windows=True, **options)
windows.send(b"message")
windows.begin_end_window()
interrupted(windows.next_window)
assert windows.awaits_window
interrupted(windows.next_window)""",
    "begin_end_window": """
windows = atp.Job(silent.getsockname(), overlap_windows=True, **options)
for _ in range(2):
    windows.send(b"message")
    windows.begin_end_window()
interrupted(windows.begin_end_window)
assert not windows.try_begin_end_window()""",
    "opening": """
import tempfile
mute = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
path = tempfile.mkdtemp() + "/daemon"
mute.bind(path)
mute.listen()
options["control_socket"] = path
interrupted(lambda: atp.Job(silent.getsockname(), **options))
interrupted(lambda: atp.Receiver("127.0.0.1:0", control_socket=path))""",
    # Its sender never hears of the end.
    "close": """
ending = atp.Receiver("127.0.0.1:0", control_socket=None, linger=60)
hears = True
def forward():
    sender = None
    while True:
        packet, source = silent.recvfrom(65_535)
        if source != ending.address:
            sender = source
            silent.sendto(packet, ending.address)
        elif hears:
            silent.sendto(packet, sender)
threading.Thread(target=forward, daemon=True).start()
job.send(b"message")
while job.progress().delivered == 0:
    time.sleep(0.001)
hears = False
job.begin_finish()
while not isinstance(ending.recv(10), atp.Finished):
    pass
interrupted(ending.close)""",
    "a_block": """
def block():
    with job:
        job.send(b"message")
interrupted(block)""",
    # The block cancels the job, whose peer never confirms it, and waits 0.25 s.
    "a_call_in_a_block": """
def block():
    with job:
        job.send(b"message")
        job.finish()
interrupted(block, 15.0)""",
    "send_dataframe": """
import pyarrow
table = pyarrow.table({"v": [1, 2]})
interrupted(lambda: atp.send_dataframe(table, silent.getsockname(), **options), 15.0)""",
}


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends(call: str) -> None:
    script = INTERRUPTED + CALLS[call] + "\nos._exit(0)"
    run = [sys.executable, "-c", script]
    done = subprocess.run(run, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines == ["interrupted"] * CALLS[call].count("interrupted("), done


def test_set_msr_waits_for_no_window() -> None:
    """Nor for room, nor for the peer: none of them comes."""
    with silent_peer() as peer:
        for overlaps in (False, True):
            windows = connect(peer.getsockname(), msr=0.9, overlap_windows=overlaps)
            for _ in range(1 + overlaps):
                windows.send(b"message")
                windows.begin_end_window()
            Call(partial(windows.set_msr, 0, 0.5)).result()
        full = connect(peer.getsockname(), msr=0.9, buffer_bytes=1_000, peer_timeout=0.5)
        sending = Call(lambda: full.send_many([bytes(1_000)] * 2))
        while not full.progress().messages:
            time.sleep(0.001)
        Call(partial(full.set_msr, 0, 0.5)).result()
        with pytest.raises(atp.ShortError):
            sending.result()


def test_an_interrupted_job_goes_on() -> None:
    """An exception of a signal handler while `finish` waits loses nothing."""

    class Alarm(Exception):
        pass

    def on_alarm(*_: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, on_alarm)
    try:
        with bind() as receiver, connect(receiver) as job:
            job.send_many([bytes(LARGE)] * 20)
            # The receiver's application takes nothing yet, but its library does.
            signal.setitimer(signal.ITIMER_REAL, 0.000_1)
            try:
                job.finish()
            except Alarm:
                assert not job.ended
                job.finish()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            messages, _, _ = receive(receiver)
            assert len(messages) == 20
    finally:
        signal.signal(signal.SIGALRM, before)


LARGE = 100_000


def test_recv_returns_none_after_its_timeout() -> None:
    with bind() as receiver:
        assert receiver.recv(0) is None
        started = time.monotonic()
        assert receiver.recv(0.2) is None
        assert receiver.recv_batch(8, 0.1) == []
        assert time.monotonic() - started >= 0.3


def test_recv_batch_returns_what_waits() -> None:
    with bind() as receiver:
        with connect(receiver) as job:
            job.send_many([b"message"] * 100)
        events: list[atp.Event] = []
        while not events or not isinstance(events[-1], atp.Finished):
            batch = receiver.recv_batch(30, LIMIT_S)
            assert 1 <= len(batch) <= 30
            events += batch
        assert sum(isinstance(event, atp.Message) for event in events) == 100


def test_an_event_that_cannot_be_made_loses_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise MemoryError("on purpose")

    messages: list[atp.Event] = []

    def take_until_a_failure(receiver: atp.Receiver) -> None:
        with pytest.raises(MemoryError, match="on purpose"):
            while events := receiver.recv_batch(3, LIMIT_S):
                messages.extend(events)
            raise TimeoutError("no event fails")

    with bind() as receiver:
        with connect(receiver) as job:
            job.send_many([b"message"] * 6)
            monkeypatch.setattr("atp._types.Started", fail)
            # A job that ends earlier may end without it.
            take_until_a_failure(receiver)
            monkeypatch.setattr("atp._types.Finished", fail)
        take_until_a_failure(receiver)
        assert [event.message for event in messages if isinstance(event, atp.Message)] == [*range(6)]


def test_a_receiver_is_an_iterator() -> None:
    with bind() as receiver:
        with connect(receiver) as job:
            job.send_many([b"message"] * 3)
        kinds = []
        for event in receiver:
            if not isinstance(event, (atp.Started, atp.TermsChanged)):
                kinds.append(type(event))
            if isinstance(event, atp.Finished):
                break
        assert kinds == [atp.Message] * 3 + [atp.Finished]


def test_a_receiver_asks_for_less_and_for_the_end() -> None:
    with bind() as receiver:
        groups = [atp.Group(3, msr=0.9, name="flights")]
        with connect(receiver, groups=groups) as job:
            sending = Call(lambda: send_until_complete(job))
            changed = 0
            for event in receiver:
                match event:
                    case atp.Started(run=run, terms=terms):
                        assert (terms.groups[0].name, terms.groups[0].msr) == ("flights", 0.9)
                        assert terms.groups[0].messages is None
                        receiver.request_msr(run, 3, 0.25)
                    case atp.TermsChanged(run=run, terms=terms):
                        changed += 1
                        assert changed > 1 or terms.groups[0].msr == 0.25
                        receiver.request_end(run)
                    case atp.Finished(summary=summary):
                        assert summary.complete and changed > 0
                        break
            sending.result()
            report = job.finish()
        assert report.ended_by_receiver and report.requests >= 2
        assert report.groups[0].needed == 0
        with pytest.raises(atp.MsrError):
            receiver.request_msr(1, 0, 1.5)
        with pytest.raises(ValueError, match="group must be an integer from 0 to 255, not 300"):
            receiver.request_msr(1, 300, 0.5)
        with pytest.raises(ValueError, match="run must be an integer"):
            receiver.request_end(-1)
        text: Any = "a"
        with pytest.raises(TypeError, match="msr must be a number, not 'a'"):
            receiver.request_msr(1, 0, text)


def send_until_complete(job: atp.Job) -> None:
    while not job.progress().complete:
        job.send(bytes(100), group=3)
        time.sleep(0.001)


def test_closing_a_receiver_ends_loops_and_waits_of_other_threads() -> None:
    receiver = bind()
    looping = Call(lambda: list(receiver))
    waiting = Call(receiver.recv)
    time.sleep(0.2)
    receiver.close()
    assert looping.result() == []
    with pytest.raises(atp.ClosedError):
        waiting.result()


def test_what_has_ended_says_so() -> None:
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        job = connect(receiver)
        job.send(b"message")
        job.finish()
        receiving.result()
    of_job: list[Callable[[], Any]] = [
        job.finish,
        job.cancel,
        job.progress,
        job.try_outcome,
        job.begin_finish,
        lambda: job.send(b"message"),
        lambda: job.send_many([bytes(LARGE)]),
        lambda: job.set_msr(0, 1.0),
    ]
    for use in of_job:
        with pytest.raises(atp.ClosedError, match="^the job has ended: open another one$"):
            use()
    job.__exit__(None, None, None)
    of_receiver: list[Callable[[], Any]] = [receiver.recv, receiver.stats, receiver.fileno]
    for use in [*of_receiver, lambda: receiver.recv_batch(1)]:
        with pytest.raises(atp.ClosedError, match="^the receiver has ended: open another one$"):
            use()
    receiver.close()
    with silent_peer() as peer:
        windows = connect(peer.getsockname(), peer_timeout=0.2)
        with pytest.raises(atp.ShortError):
            windows.send(b"message")
            windows.finish()
        of_windows: list[Callable[[], Any]] = [windows.end_window, windows.try_window]
        for use in [*of_windows, lambda: windows.set_messages(0, 1)]:
            with pytest.raises(atp.ClosedError):
                use()


def test_a_finished_input_takes_no_messages() -> None:
    with silent_peer() as peer:
        job = connect(peer.getsockname(), peer_timeout=2.0)
        job.send(b"message")
        job.begin_finish()
        with pytest.raises(atp.EndedError, match="takes no more messages"):
            job.send(b"late")
        with pytest.raises(atp.ShortError):
            job.finish()


def test_threads_share_jobs_and_receivers() -> None:
    messages_each, threads = 500, 4
    with bind() as receiver:
        done = threading.Event()
        got: list[atp.Event] = []

        def take() -> int:
            taken = 0
            while not done.is_set():
                for event in receiver.recv_batch(16, 0.05):
                    got.append(event)
                    taken += isinstance(event, (atp.Message, atp.Finished))
                    if isinstance(event, atp.Finished):
                        done.set()
            return taken

        takers = [Call(take) for _ in range(3)]
        with connect(receiver, buffer_bytes=50_000) as job:

            def send(number: int) -> list[int]:
                ids = []
                for index in range(messages_each):
                    ids.append(job.send(bytes([number]) * (20_000 if index % 50 == 0 else 100)))
                    job.progress()
                return ids

            senders = [Call(partial(send, number)) for number in range(threads)]
            ids = [number for sender in senders for number in sender.result()]
        assert sum(taker.result() for taker in takers) == messages_each * threads + 1
    assert sorted(ids) == list(range(messages_each * threads))
    messages = [event.message for event in got if isinstance(event, atp.Message)]
    assert sorted(messages) == sorted(ids)


def test_other_threads_run_while_a_call_waits() -> None:
    with bind() as receiver:
        waiting = Call(lambda: receiver.recv(1.0))
        turns = 0
        ends = time.monotonic() + 0.5
        while time.monotonic() < ends:
            turns += 1
        assert turns > 1_000 and receiver.stats().messages == 0
        assert waiting.result() is None


def test_a_forked_child_is_told() -> None:
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with connect(receiver) as job:
            job.send(b"before")
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    for use in (receiver.recv, job.finish, job.progress):
                        try:
                            use()
                        except atp.ForkedError as error:
                            assert "not to this fork" in str(error)
                        else:
                            os._exit(2)
                    del job, receiver  # Must not hang, nor end the parent's.
                    with bind() as own, connect(own) as other:
                        other.send(b"in the child")
                        other.finish()
                    code = 0
                finally:
                    os._exit(code)
            deadline = time.monotonic() + LIMIT_S
            while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
                assert time.monotonic() < deadline, "the child hangs"
                time.sleep(0.02)
            assert os.waitstatus_to_exitcode(ended[1]) == 0
            job.send(b"after")
        messages, _, _ = receiving.result()
    assert [bytes(message) for message in messages] == [b"before", b"after"]


def test_several_threads_end_a_job_at_once() -> None:
    """One of them gets the report, or the error; the others get the report or `ClosedError`."""
    for _ in range(20):
        with bind() as receiver:
            receiving = Call(lambda: receive(receiver))
            job = connect(receiver)
            job.send(b"message")
            calls = [Call(job.finish) for _ in range(4)]
            reports = 0
            for call in calls:
                try:
                    reports += call.result().job == job.id
                except atp.ClosedError:
                    pass
            assert reports >= 1 and job.report is not None
            receiving.result()


def test_an_endless_timeout_waits() -> None:
    with bind() as receiver:
        waiting = Call(lambda: receiver.recv(float("inf")))
        with connect(receiver) as job:
            job.send(b"message")
        assert waiting.result() is not None


def test_a_call_that_was_given_up_wakes_nobody() -> None:
    """Otherwise an event loop that polls the descriptor would spin once there is room."""
    with bind() as receiver, connect(receiver, buffer_bytes=100_000) as job:
        poll = select.poll()
        poll.register(job.fileno(), select.POLLIN)
        with pytest.raises(atp.TimedOutError):
            job.send_many([bytes(50_000)] * 100_000, timeout=0.05)
        limit = time.monotonic() + LIMIT_S
        while job.progress().delivered < job.progress().messages and time.monotonic() < limit:
            time.sleep(0.05)
        assert job.try_outcome() is None  # takes the change that the timeout was
        assert poll.poll(100) == []
        job.cancel()
