"""Memory: messages that aren't copied, and buffers that are given back."""

from __future__ import annotations

import array
import ctypes
import gc
import os
import subprocess
import sys
import weakref
from typing import Any

import numpy
import pytest

import atp
from ends import LIMIT_S, Call, bind, connect, receive, silent_peer

LARGE = atp.ZERO_COPY_BYTES


def address(view: memoryview) -> int:
    return int(numpy.frombuffer(view, numpy.uint8).__array_interface__["data"][0])


def test_all_kinds_of_buffers_are_messages() -> None:
    numbers = numpy.arange(12, dtype=numpy.float64).reshape(3, 4)
    sent: list[Any] = [
        b"bytes",
        bytearray(b"bytearray"),
        memoryview(b"memoryview")[3:],
        memoryview(b"strided")[::2],
        array.array("i", [1, 2, 3]),
        (ctypes.c_uint16 * 3)(1, 2, 3),
        numbers,
        numbers.T,
        numpy.asfortranarray(numbers),
        numpy.zeros((0, 4)),
        numpy.ones(LARGE * 2, numpy.uint8)[::2],
    ]
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with connect(receiver) as job:
            job.send_many(sent)
            job.send_many(numbers)  # rows
        messages, _, _ = receiving.result()
    expected = [memoryview(data).tobytes() for data in sent] + [row.tobytes() for row in numbers]
    assert [bytes(message) for message in messages] == expected


def test_a_received_message_is_its_memory() -> None:
    numbers = numpy.arange(10_000, dtype=numpy.float32)
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with connect(receiver) as job:
            job.send(numbers)
        message: Any = receiving.result()[0][0]  # numpy's types don't know every buffer.
        first = numpy.frombuffer(message, numpy.float32)
        assert (first == numbers).all() and not first.flags.writeable
        second = numpy.frombuffer(message, numpy.float32)
        at = first.__array_interface__["data"][0]
        assert at == second.__array_interface__["data"][0] == address(message.data)
        with pytest.raises(BufferError, match="still uses its memory"):
            receiver.recycle(message)
        del first, second
        receiver.recycle(message)
        for use in (len, bytes, memoryview, receiver.recycle):
            with pytest.raises(atp.ClosedError, match="given back"):
                use(message)
        assert "recycled" in repr(message)


def test_an_array_keeps_the_memory_of_its_message() -> None:
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with connect(receiver) as job:
            job.send(b"x" * 100_000)
        (message,), _, _ = receiving.result()
    kept = numpy.frombuffer(message, numpy.uint8)
    del message, receiver
    gc.collect()
    assert (kept == ord("x")).all()


def test_a_large_buffer_is_held_until_it_is_no_longer_needed() -> None:
    large, writable = bytearray(LARGE), bytearray(LARGE)
    with silent_peer() as peer:
        job = connect(peer.getsockname(), peer_timeout=0.3)
        job.send_many([memoryview(large).toreadonly(), writable])
        writable.append(0)  # It was copied: the program might have changed it.
        with pytest.raises(BufferError):
            large.append(0)  # It is sent from where it lies.
        with pytest.raises(atp.ShortError):
            job.finish()
    large.append(0)


def test_copy_says_what_is_copied() -> None:
    small, large = bytearray(10), bytearray(LARGE)
    with silent_peer() as peer:
        job = connect(peer.getsockname(), peer_timeout=0.3)
        job.send(memoryview(large).toreadonly(), copy=True)
        large.append(0)
        job.send(small, copy=False)
        with pytest.raises(BufferError):
            small.append(0)
        with pytest.raises(atp.ShortError):
            job.cancel()
    small.append(0)


def test_a_delivered_buffer_is_given_back_to_its_owner() -> None:
    class Owner(bytearray):
        pass

    owner = Owner(LARGE)
    gone = weakref.ref(owner)
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with connect(receiver) as job:
            job.send(owner, copy=False)
            del owner
            assert gone() is not None
        receiving.result()
    assert gone() is None


def test_a_dropped_job_gives_its_buffers_back() -> None:
    large = bytearray(LARGE)
    with silent_peer() as peer:
        job = connect(peer.getsockname())
        job.send(large, copy=False)
        del job
        with connect(peer.getsockname(), peer_timeout=0.2) as job:
            job.progress()  # Any call gives back what the library has released.
            large.append(0)
            with pytest.raises(atp.ShortError):
                job.cancel()


def test_refused_buffers_are_given_back() -> None:
    large = bytearray(LARGE)
    with silent_peer() as peer:
        job = connect(peer.getsockname(), message_bytes_max=LARGE, messages=1, peer_timeout=0.2)
        with pytest.raises(atp.TooLargeError) as error:
            job.send(bytes(LARGE + 1))
        assert (error.value.bytes, error.value.bytes_max) == (LARGE + 1, LARGE)
        with pytest.raises(atp.NoGroupError):
            job.send(large, 9, copy=False)
        large.append(0)
        large.pop()
        job.send(b"the only one")
        with pytest.raises(atp.TooManyError, match="all of its 1 messages"):
            job.send(large, copy=False)
        large.append(0)


def test_a_batch_with_one_message_too_long_is_refused_as_a_whole() -> None:
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with connect(receiver, message_bytes_max=2 * LARGE) as job:
            batch = [b"short", bytes(LARGE), bytes(2 * LARGE + 1)]
            for send in (job.send_many, job.send_parts, job.try_send_many):
                with pytest.raises(atp.TooLargeError, match=f"{2 * LARGE}"):
                    send(batch)
            assert job.progress().messages == 0
            assert job.send_many(batch[:2]) == range(2)
        assert [len(message) for message in receiving.result()[0]] == [5, LARGE]


TOO_LONG = """
import resource, socket
import numpy
import atp

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
    silent.bind(("127.0.0.1", 0))
    options = {"control_socket": None, "peer_timeout": 0.2}
    job = atp.Job(silent.getsockname(), **options)
    endless = numpy.broadcast_to(numpy.uint8(0), (1 << 40,))
    sends = [job.send, lambda data: job.send_many([b"short", data])]
    sends += [lambda data: job.send_parts([data]), lambda data: job.try_send_many([data])]
    for send in sends:
        try:
            send(endless)
        except atp.TooLargeError as error:
            print(error.bytes == 1 << 40 and error.bytes_max == 64 << 20)
    assert job.progress().messages == 0
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    # Less than a message and enough for all else, then less than the copies of a message and a row.
    for room in (52 << 20, 100 << 20):
        resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))
        for send in (job.send, lambda data: atp.answers.Answering.of_csv("count(*)", data)):
            try:
                send(endless[: 60 << 20])
            except MemoryError as error:
                print("62914560 bytes" in str(error))
"""


def test_an_array_of_any_length_aborts_no_process() -> None:
    """With a stride of 0 it takes a byte."""
    run = [sys.executable, "-c", TOO_LONG]
    # Of one arena: an arena of a thread takes 64 MiB, and gives them back at any time.
    one_arena = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(run, capture_output=True, text=True, timeout=LIMIT_S, env=one_arena)
    assert (done.returncode, done.stdout.split()) == (0, ["True"] * 8), done


def test_an_array_of_objects_is_no_message() -> None:
    """The elements of such an array are addresses of this process."""
    objects: Any = numpy.array([None, "text"], dtype=object)
    with bind() as receiver, connect(receiver) as job:
        for message in (objects, memoryview(objects), objects[::-1]):
            with pytest.raises(TypeError, match="not an array of Python objects"):
                job.send(message)
            with pytest.raises(TypeError, match="not an array of Python objects"):
                job.send_many([message])
        job.cancel()


def test_a_message_that_no_receiver_takes_back_is_kept() -> None:
    with bind() as receiver:
        receiving = Call(lambda: receive(receiver))
        with connect(receiver) as job:
            job.send(b"kept")
        (message,), _, _ = receiving.result()
    with pytest.raises(atp.ClosedError, match="receiver has ended"):
        receiver.recycle(message)
    assert bytes(message) == b"kept"
