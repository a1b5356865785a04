"""Jobs and receivers with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

import atp
from ends import LIMIT_S, silent_peer


T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(main, LIMIT_S))


async def receive(receiver: atp.aio.Receiver) -> list[atp.Event]:
    events: list[atp.Event] = []
    async for event in receiver:
        events.append(event)
        if isinstance(event, atp.Finished):
            break
    return events


def test_a_job_and_a_receiver_share_a_loop() -> None:
    async def main() -> list[atp.Event]:
        async with atp.aio.Receiver("127.0.0.1:0", control_socket=None) as receiver:
            receiving = asyncio.create_task(receive(receiver))
            options: atp.JobOptions = {"control_socket": None, "buffer_bytes": 50_000}
            async with atp.aio.Job(receiver.address, **options) as job:
                assert [await job.send(b"message") for _ in range(3)] == [0, 1, 2]
                assert await job.send_many([bytes(1_000)] * 300) == range(3, 303)
                assert await job.send_many([bytes(40_000)] * 5) == range(303, 308)
                assert await job.send_many([]) == range(308, 308)
                assert job.progress().messages == 308
            assert job.report is not None and job.report.groups[0].delivered == 308
            return await receiving

    assert sum(isinstance(event, atp.Message) for event in run(main())) == 308


def test_a_stream_ends_window_by_window() -> None:
    async def main() -> list[int]:
        async with atp.aio.Receiver("127.0.0.1:0", control_socket=None) as receiver:
            receiving = asyncio.create_task(receive(receiver))
            async with atp.aio.Stream(receiver.address, control_socket=None) as stream:
                windows = []
                for _ in range(3):
                    await stream.send(b"part")
                    windows.append((await stream.end_window()).window)
            ended = [e for e in await receiving if isinstance(e, atp.WindowEnded)]
            assert len(ended) == 3
            return windows

    assert run(main()) == [0, 1, 2]


def test_cancelling_a_task_loses_nothing() -> None:
    async def main() -> None:
        async with atp.aio.Receiver("127.0.0.1:0", control_socket=None) as receiver:
            for wait in (receiver.recv(), receiver.recv_batch(3)):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(wait, 0.1)
            async with atp.aio.Job(receiver.address, control_socket=None) as job:
                await job.send(b"message")
            assert isinstance(await receiver.recv(), atp.Message)
            events = await receiver.recv_batch(9)
            while not isinstance(events[-1], atp.Finished):
                events += await receiver.recv_batch(9)
            assert not any(isinstance(event, atp.Message) for event in events)

    run(main())


def test_a_finish_that_was_cancelled_goes_on() -> None:
    async def main() -> None:
        with silent_peer() as peer:
            job = atp.aio.Job(peer.getsockname(), control_socket=None, peer_timeout=0.6)
            await job.open()
            await job.send(b"message")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(job.finish(), 0.1)
            assert not job.native.ended
            with pytest.raises(atp.ShortError):
                await job.finish()

    run(main())


def test_several_tasks_wait_for_one_receiver() -> None:
    async def main() -> None:
        async with atp.aio.Receiver("127.0.0.1:0", control_socket=None) as receiver:
            tasks = [asyncio.create_task(receiver.recv()) for _ in range(4)]
            await asyncio.sleep(0.05)
            async with atp.aio.Job(receiver.address, control_socket=None) as job:
                await job.send_many([b"message"] * 3)
            events = await asyncio.gather(*tasks)
            assert sum(isinstance(event, atp.Message) for event in events) == 3

    run(main())


def test_a_block_that_raises_cancels_its_job() -> None:
    async def main() -> None:
        with silent_peer() as peer, pytest.raises(ZeroDivisionError):
            options: atp.JobOptions = {"control_socket": None, "peer_timeout": 0.2}
            async with atp.aio.Job(peer.getsockname(), **options) as job:
                await job.send(b"message")
                raise ZeroDivisionError

    run(main())


def test_what_is_not_open_says_so() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="the job isn't open"):
            await atp.aio.Job("127.0.0.1:9").send(b"message")
        with pytest.raises(ValueError, match="the receiver isn't open"):
            await atp.aio.Receiver("127.0.0.1:9").recv()

    run(main())
