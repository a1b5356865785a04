"""Bad arguments: one sentence each, and never a crash."""

from __future__ import annotations

import errno
import math
import socket
from collections.abc import Callable
from typing import Any

import pytest

import atp
from ends import bind, connect, silent_peer


def job(**options: Any) -> Callable[[], Any]:
    return lambda: atp.Job("127.0.0.1:9", **{"control_socket": None, **options})


def receiver(**options: Any) -> Callable[[], Any]:
    return lambda: atp.Receiver("127.0.0.1:0", **{"control_socket": None, **options})


def job_to(peer: Any) -> Callable[[], Any]:
    return lambda: atp.Job(peer, control_socket=None)


ANY: Any = None
THREE: Any = 3

MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (job(msr=1.5), atp.MsrError, "must lie between 0 and 1, not 1.5"),
    (job(msr=math.nan), atp.MsrError, "not NaN"),
    (job(msr="high"), TypeError, "msr must be a number, not 'high'"),
    (job(messages=0), atp.NoMessagesError, "0 messages"),
    (job(messages=-1), ValueError, "messages must be an integer from 0 to 4294967295, not -1"),
    (job(messages=1 << 70), ValueError, "messages must be an integer"),
    (job(messages=1.5), TypeError, "messages must be an integer"),
    (job(messages=True), TypeError, "messages must be an integer"),
    (job(messages=1 << 31), atp.OptionsError, "options are invalid"),
    (job(mrdf="no"), TypeError, "mrdf must be True or False, not 'no'"),
    (job(peer_timeout=-1), ValueError, "peer_timeout must be seconds or a timedelta, 0 or more"),
    (job(peer_timeout=math.inf), ValueError, "peer_timeout must be seconds"),
    (job(peer_timeout="1 s"), TypeError, "peer_timeout must be seconds"),
    (job(timer_granularity=5), atp.OptionsError, "options are invalid"),
    (job(rate_max_bytes_per_s=1), atp.RateMaxError, "at least 1000"),
    (job(rules="fast"), ValueError, "rules must be one of paper"),
    (job(groups=3), TypeError, "groups must be a list of atp.Group, not 3"),
    (job(groups=[3]), TypeError, "groups must hold atp.Group, not 3"),
    (job(groups=[atp.Group(256)]), ValueError, "the id of a group must be an integer from 0 to 255"),
    (job(groups=[atp.Group(1), atp.Group(1)]), atp.OptionsError, "options are invalid"),
    (job(groups=[atp.Group(1, msr=2)]), atp.MsrError, "not 2"),
    (job(name_lost=1), TypeError, "name_lost must be True or False"),
    (job(requests="no"), TypeError, 'requests must be "obey", "refuse" or an atp.RequestBounds'),
    (job(requests=atp.RequestBounds(msr_max=2)), atp.MsrError, "not 2"),
    (job(requests=atp.RequestBounds(0.5, 0.4)), atp.MsrError, "0.5"),
    (job(requests=atp.RequestBounds(may_end=THREE)), TypeError, "may_end of requests must be True"),
    (job(id=[]), TypeError, "id must be an integer"),
    (job(id=-1), ValueError, "id must be an integer"),
    (job(speed=3), TypeError, 'Job has no option "speed"'),
    (job(control_socket=3), TypeError, "control_socket must be a path, or None"),
    (lambda: atp.Job(ANY), TypeError, 'an address must be "host:port" or a tuple'),
    (lambda: atp.Job(("127.0.0.1", 70_000)), ValueError, "the port of an address must be an integer"),
    (lambda: atp.Job(("127.0.0.1", ANY)), TypeError, "the port of an address must be an integer"),
    (lambda: atp.Job((ANY, 1)), TypeError, "an address must be"),
    (lambda: atp.Job("127.0.0.1:0", control_socket=None), atp.PeerError, "port other than 0"),
    (lambda: atp.Job("127.0.0.1", control_socket=None), atp.NameResolutionError, "host:port"),
    (lambda: atp.Job("\0:1", control_socket=None), atp.NameResolutionError, "host:port"),
    (job_to("[fe80::1]:9"), atp.NameResolutionError, "as in [fe80::1%eth0]:9"),
    (job_to(("fe80::1%nowhere7", 9)), atp.NameResolutionError, "`ip link` lists them"),
    (job_to(("fd00::1", 9, 0, 1)), atp.NameResolutionError, 'has no interface: leave out "%1"'),
    (job_to(("fe80::1", 9, 0, -1)), ValueError, "the scope of an address must be an integer"),
    (receiver(peers="db7"), ValueError, "a peer of peers must be an IP address, not 'db7'"),
    (receiver(peers="fe80::1%nowhere7"), ValueError, "`ip link` lists them"),
    (receiver(jobs=1.5), TypeError, "a job of jobs must be an integer"),
    (receiver(linger=None), TypeError, "linger must be seconds"),
    (receiver(line_rate_bytes_per_s=-1), ValueError, "line_rate_bytes_per_s must be an integer"),
    (receiver(queue_depth_packets="7"), TypeError, "queue_depth_packets must be an integer"),
    (receiver(msr=1), TypeError, 'Receiver has no option "msr"'),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_a_bad_option_is_one_sentence(number: int) -> None:
    call, error, words = MISTAKES[number]
    with pytest.raises(error) as raised:
        call()
    is_sentence(raised.value, words)


def test_a_link_local_address_keeps_its_interface() -> None:
    index = socket.if_nametoindex("lo")
    given = ["[fe80::1%lo]:9", f"[fe80::1%{index}]:9", ("fe80::1%lo", 9), ("fe80::1", 9, 0, index)]
    for peer in given:
        # No host has it on its loopback. The kernel would call an address without its interface
        # an invalid argument.
        with pytest.raises(atp.SocketError, match=rf"\[fe80::1%{index}\]:9") as raised:
            job_to(peer)()
        assert raised.value.errno != errno.EINVAL


def is_sentence(error: BaseException, words: str) -> None:
    text = str(error)
    assert words in text and "\n" not in text and ". " not in text and len(text) < 250, text


def test_bad_arguments_of_calls_are_one_sentence() -> None:
    with silent_peer() as peer:
        job = connect(peer.getsockname(), msr=0.5, peer_timeout=0.2)
        mistakes: list[tuple[Callable[[], Any], type[Exception], str]] = [
            (lambda: job.send("text"), TypeError, "not str: encode text"),  # type: ignore[arg-type]
            (lambda: job.send(ANY), TypeError, "not NoneType"),
            (lambda: job.send(b"", 256), ValueError, "group must be an integer from 0 to 255"),
            (lambda: job.send(b"", ANY), TypeError, "group must be an integer"),
            (lambda: job.send(b"", copy=THREE), TypeError, "copy"),
            (lambda: job.send_many(b"abc"), TypeError, "not int"),  # type: ignore[arg-type]
            (lambda: job.send_many(ANY), TypeError, "send_many takes several messages"),
            (lambda: job.set_msr(0, 1.5), atp.MsrError, "not 1.5"),
            (lambda: job.set_msr(9, 0.5), atp.MsrRefusedError, ""),
            (lambda: job.set_msr(0, ANY), TypeError, "msr must be a number"),
        ]
        for call, error, words in mistakes:
            with pytest.raises(error) as raised:
                call()
            is_sentence(raised.value, words)
        assert job.send_many([]) == range(0)
        assert job.send(b"") == 0
    with bind() as receiver:
        mistakes = [
            (lambda: receiver.recv(-1), ValueError, "timeout must be seconds"),
            (lambda: receiver.recv("1"), TypeError, "timeout must be seconds"),  # type: ignore[arg-type]
            (lambda: receiver.recv_batch(0), ValueError, "max must be at least 1"),
            (lambda: receiver.recv_batch(-1), ValueError, "max must be an integer"),
            (lambda: receiver.recycle(ANY), TypeError, "Message"),
        ]
        for call, error, words in mistakes:
            with pytest.raises(error) as raised:
                call()
            is_sentence(raised.value, words)


def test_a_limited_receiver_refuses_others() -> None:
    with bind(jobs=["wanted", 7], peers=["127.0.0.1"]) as receiver:
        job = connect(receiver, id="other", peer_timeout=2.0)
        job.send(b"message")
        with pytest.raises(atp.ShortError) as error:
            job.finish()
        assert error.value.cause == "refused"
        with connect(receiver, id=7) as wanted:
            wanted.send(b"message")
            assert isinstance(receiver.recv(10), atp.Message)


def test_an_interrupt_in_an_argument_s_own_code_passes_through() -> None:
    class Interrupted:
        def __index__(self) -> int:
            raise KeyboardInterrupt

    interrupted: Any = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        atp.Job("127.0.0.1:9", messages=interrupted, control_socket=None)
