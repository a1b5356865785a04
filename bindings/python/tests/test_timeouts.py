"""Timeouts of calls that wait, and windows that overlap."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

import atp
from ends import LIMIT_S, Call, bind, connect, receive, silent_peer

SOON_S = 0.1


def test_a_timeout_of_send_says_what_was_taken() -> None:
    """A full buffer, which a peer that never answers doesn't empty."""
    with silent_peer() as peer:
        job = connect(peer.getsockname(), buffer_bytes=4_000, peer_timeout=600.0)
        begun = time.monotonic()
        with pytest.raises(atp.TimedOutError, match="timeout") as late:
            job.send_many([bytes(1_000)] * 10, timeout=SOON_S)
        assert time.monotonic() - begun >= SOON_S
        assert late.value.sent == (range(4),)
        assert isinstance(late.value, TimeoutError)
        with pytest.raises(atp.TimedOutError) as late:
            job.send(bytes(1_000), timeout=timedelta(milliseconds=10))
        assert late.value.sent == () and job.progress().messages == 4
        with pytest.raises(atp.TimedOutError, match="job goes on"):
            job.finish(timeout=SOON_S)
        assert not job.ended
        with pytest.raises(atp.TimedOutError):
            job.cancel(timeout=0)
        with pytest.raises(ValueError, match="timeout must be seconds"):
            job.finish(timeout=-1)


def test_calls_go_on_after_a_timeout() -> None:
    """The receiver is bound after the timeouts: nothing was lost before."""
    with bind() as taken:
        address = taken.address
    windows = connect(address, peer_timeout=LIMIT_S)
    assert windows.send_many([b"message"] * 5) == range(5)
    for _ in range(2):
        with pytest.raises(atp.TimedOutError):
            windows.end_window(timeout=SOON_S)
    with atp.Receiver(address, control_socket=None) as receiver:
        receiving = Call(lambda: receive(receiver))
        assert windows.end_window(timeout=LIMIT_S).groups[0].delivered == 5
        assert windows.finish(timeout=LIMIT_S).windows == 2
        messages, ended, _ = receiving.result()
    assert len(messages) == 5 and len(ended) == 1


def test_a_job_opens_within_its_timeout() -> None:
    with silent_peer() as peer:
        connect(peer.getsockname(), timeout=LIMIT_S)
        connect(peer.getsockname(), timeout=None)
        with pytest.raises(atp.TimedOutError, match="opened in time"):
            for _ in range(1_000):  # One of them takes longer than a nanosecond.
                connect(peer.getsockname(), timeout=1e-9)


def test_two_windows_are_open_at_once() -> None:
    """No window ends. Without overlap, messages of a second one are refused."""
    with silent_peer() as peer:
        windows = connect(peer.getsockname(), peer_timeout=600.0, overlap_windows=True)
        assert not windows.awaits_window and windows.next_window() is None
        for _ in range(2):
            assert windows.send(b"part") == 0
            windows.begin_end_window()
        assert windows.awaits_window and windows.try_window() is None
        assert windows.try_send_many([b"part"]) == range(0)
        with pytest.raises(atp.TimedOutError) as late:
            windows.send(b"part", timeout=SOON_S)
        assert late.value.sent == ()
        assert not windows.try_begin_end_window()
        with pytest.raises(atp.TimedOutError):
            windows.next_window(timeout=SOON_S)
        alone = connect(peer.getsockname(), peer_timeout=600.0)
        alone.send(b"part")
        alone.begin_end_window()
        with pytest.raises(atp.WindowEndingError):
            alone.send(b"part")


def test_a_window_is_sent_before_the_end_of_the_last() -> None:
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        reports = []
        with connect(receiver, msr=0.5, overlap_windows=True) as windows:
            for number in range(20):
                assert windows.send_many([bytes([number])] * 30, timeout=LIMIT_S) == range(30)
                windows.begin_end_window()
                if number > 0:
                    reports.append(windows.next_window(timeout=LIMIT_S))
            reports.append(windows.next_window())
            windows.send(b"of the last")
            assert windows.end_window().window == 20
        messages, ended, _ = receiving.result()
    assert [report.window for report in reports if report] == list(range(20))
    assert [event.summary.window for event in ended] == list(range(21))
    for message in messages:
        assert message.window == 20 or bytes(message) == bytes([message.window])


def test_windows_of_a_task_overlap() -> None:
    async def main() -> list[int]:
        async with atp.aio.Receiver("127.0.0.1:0", control_socket=None) as receiver:
            options: atp.JobOptions = {"control_socket": None, "overlap_windows": True}
            async with atp.aio.Job(receiver.address, **options) as windows:
                # No report is taken meanwhile: each window waits until the one before the last
                # has ended.
                for _ in range(20):
                    await windows.send_many([b"part"] * 10)
                    await windows.begin_end_window()
                await windows.begin_end_window()
                numbers = []
                while (report := await windows.next_window()) is not None:
                    numbers.append(report.window)
                return numbers

    assert asyncio.run(asyncio.wait_for(main(), LIMIT_S)) == list(range(21))
