"""Jobs: messages, groups, windows, reports, and their use as context managers."""

from __future__ import annotations

import random
import time
from datetime import timedelta

import pytest

import atp
from ends import LIMIT_S, Call, bind, connect, receive, silent_peer

NOT_ASKED = atp.UnknownIds("not_asked", "")


def test_every_message_of_an_exact_job_arrives_in_order(rng: random.Random) -> None:
    sent = [rng.randbytes(rng.choice([0, 1, 700, 1_400, 20_000, 100_000])) for _ in range(200)]
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with connect(receiver) as job:
            ids = [job.send(data) for data in sent[:100]]
            ids += job.send_many(sent[100:])
        messages, _, summary = receiving.result()
    assert ids == list(range(200))
    assert [bytes(message) for message in messages] == sent
    assert [message.message for message in messages] == ids
    assert (summary.messages, summary.delivered, summary.complete) == (200, 200, True)
    assert job.ended and job.report is not None
    assert job.report.groups == (atp.GroupReport(0, 200, 200, 200, 0, 1.0, NOT_ASKED),)
    assert job.report.timeline[0].rtt_us is None  # It is older than any ACK.


def test_an_approximate_job_delivers_its_share() -> None:
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with connect(receiver, id="training", messages=1_000, msr=0.8) as job:
            job.send_many([bytes(700)] * 1_000)
            report = job.finish()
        _, _, summary = receiving.result()
    group = report.groups[0]
    assert group.needed == 800 <= group.delivered <= summary.delivered
    assert report.job == job.id == 0x7B9B7437
    lost = sum(len(ids) for ids in summary.groups[0].lost)
    assert lost == summary.messages - summary.delivered


def test_groups_have_rates_of_their_own() -> None:
    groups = [atp.Group(1, msr=0.125), atp.Group(2, msr=0.9, messages=50), atp.Group(3)]
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with connect(receiver, groups=groups) as job:
            for group in (1, 2, 3):
                assert job.send_many([b"message"] * 50, group) == range(50)
            job.set_msr(1, 0.25)
        messages, _, summary = receiving.result()
    assert job.report is not None
    assert [group.needed for group in job.report.groups] == [13, 45, 50]
    assert [group.group for group in summary.groups] == [1, 2, 3]
    assert [m.message for m in messages if m.group == 3] == list(range(50))
    with bind() as receiver, connect(receiver, groups=groups) as job:
        with pytest.raises(atp.NoGroupError, match="no group 0") as error:
            job.send(b"nobody's")
        assert error.value.group == 0
        job.cancel()


def test_a_job_ends_window_by_window() -> None:
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with connect(receiver, msr=0.9, window_deadline=timedelta(seconds=10)) as windows:
            reports = []
            for number in (20, 30):
                assert windows.send_many([b"part"] * number) == range(number)
                reports.append(windows.end_window())
        _, ended, _ = receiving.result()
    assert [report.window for report in reports] == [0, 1]
    assert [report.groups[0].messages for report in reports] == [20, 30]
    assert [event.summary.messages for event in ended] == [20, 30]
    assert windows.report is not None and windows.report.windows == 3


def test_a_window_that_is_ending_takes_no_messages() -> None:
    with silent_peer() as peer, connect(peer.getsockname(), peer_timeout=0.5) as windows:
        windows.send(b"part")
        windows.begin_end_window()
        assert windows.try_window() is None
        with pytest.raises(atp.WindowEndingError, match="the window is ending"):
            windows.send(b"of the next")
        with pytest.raises(atp.ShortError):
            windows.end_window()
        with pytest.raises(atp.ShortError):  # Once more: the failure isn't lost.
            windows.finish()
        assert windows.ended


def test_a_job_that_announces_n_has_one_window_without_the_option() -> None:
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with connect(receiver, messages=20) as job:
            assert job.send_many([b"part"] * 20) == range(20)
            for end in (job.end_window, job.begin_end_window, job.try_begin_end_window):
                with pytest.raises(atp.OptionsError, match="set the option windows"):
                    end()
        assert receiving.result()[1] == []
        assert job.report is not None and job.report.windows == 1
        receiving = Call(lambda: receive(receiver))
        with connect(receiver, messages=20, windows=True) as job:
            for window in range(2):
                assert job.send_many([b"part"] * 20) == range(20)
                assert job.end_window().window == window
        assert len(receiving.result()[1]) == 2


def test_a_short_job_names_group_and_shortfall() -> None:
    with silent_peer() as peer:
        job = connect(peer.getsockname(), msr=0.5, peer_timeout=0.3)
        job.send_many([b"lost"] * 10)
        with pytest.raises(atp.ShortError, match="0 of 5 needed messages delivered") as error:
            job.finish()
    short = error.value
    assert short.groups == (atp.ShortGroup(group=0, delivered=0, needed=5),)
    assert (short.cause, short.peer) == ("peer_silent", job.peer)
    assert short.report.groups[0].messages == 10
    assert isinstance(short, atp.Error) and job.ended and job.report is None


def arrived(receiver: atp.Receiver) -> None:
    """Waits for a message: a sender without any gives no event, also at its end."""
    deadline = time.monotonic() + LIMIT_S
    while receiver.stats().messages == 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_block_that_raises_cancels_its_job() -> None:
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with pytest.raises(ZeroDivisionError):
            with connect(receiver, messages=10) as job:
                job.send_many([b"message"] * 5)
                arrived(receiver)
                raise ZeroDivisionError
        _, _, summary = receiving.result()
    assert job.report is not None and job.report.canceled
    assert not summary.complete and summary.messages == 10


def test_progress_counts_accepted_messages() -> None:
    with bind() as receiver, connect(receiver) as job:
        receiving = Call(lambda: receive(receiver))
        job.send_many([b"message"] * 7)
        assert job.progress().messages == 7
        job.finish()
        receiving.result()


def test_a_name_is_resolved_or_named_in_the_error() -> None:
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with atp.Job(f"localhost:{receiver.address[1]}", control_socket=None) as job:
            job.send(b"message")
        receiving.result()
    with pytest.raises(atp.NameResolutionError, match="no.such.host.*host:port"):
        atp.Job("no such host:4747", control_socket=None)
    with pytest.raises(OSError):
        atp.Job("no such host:4747", control_socket=None)


def test_an_address_in_use_is_named() -> None:
    with bind() as receiver:
        with pytest.raises(atp.SocketError, match="choose another one") as error:
            atp.Receiver(receiver.address, control_socket=None)
        assert error.value.errno == 98
    with pytest.raises(atp.DaemonError, match="no ATP daemon answers"):
        atp.Receiver("127.0.0.1:0", control_socket="/nonexistent/socket")
