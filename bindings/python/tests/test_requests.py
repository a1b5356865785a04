"""What both ends learn of a job: requests and their policy, lost messages, progress, and ids."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import atp
from ends import LIMIT_S, Call, bind, connect, receive, silent_peer


def asked_for(requests: atp.RequestBounds | str | None, msr: float) -> tuple[float, atp.Report]:
    """The rate that a receiver gets who asks for one, and the report after it asked for the end."""
    options = {} if requests is None else {"requests": requests}
    with bind() as receiver, connect(receiver, msr=0.5, **options) as job:
        job.send_many([b"message"] * 10)
        rate = None
        for event in receiver:
            match event:
                case atp.Started(run=run):
                    receiver.request_msr(run, 0, msr)
                case atp.TermsChanged(terms=terms, run=run) if rate is None:
                    rate = terms.groups[0].msr
                    receiver.request_end(run)
                    break
        time.sleep(0.2)  # for the request
        finishing = Call(job.finish)
        receive(receiver)
        assert rate is not None
        return rate, finishing.result()


def test_a_policy_obeys_bounds_or_refuses() -> None:
    rate, report = asked_for(None, 0.2)
    assert rate == 0.2 and report.ended_by_receiver
    rate, report = asked_for("refuse", 0.2)
    assert rate == 0.5 and not report.ended_by_receiver and report.groups[0].delivered >= 5
    rate, report = asked_for(atp.RequestBounds(msr_min=0.4), 0.2)
    assert abs(rate - 0.4) < 1e-6 and not report.ended_by_receiver
    rate, report = asked_for(atp.RequestBounds(0.1, 0.7, may_end=True), 0.9)
    assert abs(rate - 0.7) < 1e-6 and report.ended_by_receiver


def test_reports_name_lost_messages_if_asked() -> None:
    for name_lost in (False, True):
        with bind() as receiver:
            receiving = Call(lambda: receive(receiver))
            with connect(receiver, messages=20, msr=0.5, name_lost=name_lost) as job:
                job.send_many([b"message"] * 12)
                while job.progress().delivered < 12:
                    time.sleep(0.01)
                report = job.cancel()
            _, _, summary = receiving.result()
        group = report.groups[0]
        assert group.lost == 8 and summary.groups[0].lost == (range(12, 20),)
        if name_lost:
            assert group.lost_ids == (range(12, 20),)
        else:
            assert isinstance(group.lost_ids, atp.UnknownIds)
            assert group.lost_ids.reason == "not_asked"


@pytest.mark.parametrize(
    "read",
    [bool, list, len, lambda ids: ids or (), lambda ids: 3 in ids, lambda ids: ids[0]],
)
def test_unknown_ids_are_no_list(read: Callable[[Any], object]) -> None:
    """Also not an empty one."""
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with connect(receiver) as job:
            job.send(b"message")
            report = job.finish()
        receiving.result()
    with pytest.raises(atp.UnknownError, match="not known: the job was opened without name_lost"):
        read(report.groups[0].lost_ids)


def test_a_type_checker_refuses_ids_that_may_be_unknown(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(
        "import atp\n"
        "def lost(report: atp.GroupReport) -> int:\n"
        "    return sum(len(ids) for ids in report.lost_ids)\n"
    )
    check = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run([*check, str(sample)], capture_output=True, text=True)
    assert done.returncode == 1 and '"UnknownIds"' in done.stdout, done.stdout + done.stderr


def test_a_receiver_tells_progress() -> None:
    with bind() as receiver:
        assert receiver.progress() == ()
        groups = [atp.Group(2, msr=0.9), atp.Group(5)]
        with connect(receiver, groups=groups) as job:
            job.send_many([b"message"] * 3, group=2)
            job.send_many([b"message"] * 4, group=5)
            deadline = time.monotonic() + LIMIT_S
            while job.progress().delivered < 7:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            (running,) = receiver.progress()
            assert (running.job, running.window) == (job.id, 0)
            assert running.groups == (atp.GroupArrivals(2, 3), atp.GroupArrivals(5, 4))
            receiving = Call(lambda: receive(receiver))
        assert running.source == receiving.result()[0][0].source
        assert receiver.progress() == ()
    with pytest.raises(atp.ClosedError):
        receiver.progress()


def test_batches_of_several_threads_have_their_own_ids() -> None:
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with connect(receiver, buffer_bytes=50_000) as job:
            batches = [[bytes([thread]) * 900] * 300 for thread in range(4)]
            calls = [Call(partial(job.send_many, batch)) for batch in batches]
            parts = Call(lambda: [i for ids in job.send_parts([b"p"] * 300) for i in ids])
            ids = [call.result() for call in calls]
            told = [number for part in ids for number in part] + parts.result()
            assert sorted(told) == list(range(1_500))
        for message in receiving.result()[0]:
            of = bytes(message)[0]
            assert message.message in (ids[of] if of < 4 else parts.result())


# In a process of its own: what is tested might hang it.
TURNS = """
import socket, threading, time
import atp

silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 0))
options = {"buffer_bytes": 4_000, "peer_timeout": 1.0, "control_socket": None}
job = atp.Job(silent.getsockname(), **options)

def fill():
    try:
        job.send_many([bytes(1_000)] * 10)
    except atp.ShortError:
        print("short")

filling = threading.Thread(target=fill)
filling.start()
while job.progress().messages < 4:
    time.sleep(0.001)
try:
    job.send(b"late", timeout=0.3)
except atp.TimedOutError as late:
    print(late.sent)
filling.join()
"""


def test_a_batch_waits_for_its_turn_until_its_timeout() -> None:
    """The batch of another thread waits for room, and none comes."""
    run = [sys.executable, "-c", TURNS]
    done = subprocess.run(run, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout.split()) == (0, ["()", "short"]), done


def test_parts_are_used_by_several_threads() -> None:
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with connect(receiver, buffer_bytes=20_000) as job:
            parts = job.send_parts([bytes(1_000)] * 500)
            calls = [Call(lambda: [i for ids in parts for i in ids]) for _ in range(3)]
            lefts = [500]
            while lefts[-1]:
                lefts.append(parts.left)
            told = [number for call in calls for number in call.result()]
        assert sorted(told) == list(range(500)) and lefts == sorted(lefts, reverse=True)
        receiving.result()
    assert list(parts) == [] and parts.try_next() is None


def test_parts_tell_what_a_failed_job_has_taken() -> None:
    with silent_peer() as peer:
        job = connect(peer.getsockname(), buffer_bytes=100_000, peer_timeout=0.5)
        parts = job.send_parts([bytes(1_000)] * 500)
        taken = 0
        with pytest.raises(atp.ShortError):
            for ids in parts:
                assert ids.start == taken
                taken = ids.stop
        assert 0 < taken < 500 and parts.left == 500 - taken
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with connect(receiver, messages=5) as job:
            assert list(job.send_parts([b"message"] * 3)) == [range(3)]
            assert list(job.send_parts([])) == [range(3, 3)]
            parts = job.send_parts([b"message"] * 2)
            assert (parts.try_next(), parts.try_next(), parts.left) == (range(3, 5), None, 0)
            with pytest.raises(StopIteration):
                next(parts)
        assert len(receiving.result()[0]) == 5


FORK_IN_BLOCKS = """
import os, sys
import atp

with atp.Receiver("127.0.0.1:0", control_socket=None, linger=0) as receiver:
    with atp.Job(receiver.address, msr=0.0, control_socket=None) as job:
        child = os.fork()
        if child == 0:
            for use in (lambda: job.send(b"x"), lambda: job.send_many([b"x"])):
                try:
                    use()
                except atp.ForkedError:
                    pass
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        job.cancel()
print("parent", flush=True)
os._exit(0)
"""


def test_a_block_that_forks_ends_in_the_child_as_without_a_job() -> None:
    run = [sys.executable, "-W", "ignore", "-c", FORK_IN_BLOCKS]
    done = subprocess.run(run, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout) == (0, "parent\n"), done.stderr


def test_the_list_of_pending_buffers_survives_a_fork() -> None:
    """Sender threads give buffers back all the time; the child gives its own back as well."""
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with connect(receiver, buffer_bytes=200_000) as job:
            sending = Call(lambda: [job.send(b"x" * 100, copy=False) for _ in range(5_000)])
            for _ in range(20):
                child = os.fork()
                if child == 0:
                    try:
                        job.send(b"y", copy=False)
                    except atp.ForkedError:
                        os._exit(0)
                    os._exit(1)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            sending.result()
        assert len(receiving.result()[0]) == 5_000
