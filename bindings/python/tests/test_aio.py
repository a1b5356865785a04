"""Jobs and receivers with asyncio."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import time
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


def test_a_job_ends_window_by_window() -> None:
    async def main() -> list[int]:
        async with atp.aio.Receiver("127.0.0.1:0", control_socket=None) as receiver:
            receiving = asyncio.create_task(receive(receiver))
            async with atp.aio.Job(receiver.address, control_socket=None) as job:
                windows = []
                for _ in range(3):
                    await job.send(b"part")
                    windows.append((await job.end_window()).window)
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


def test_a_cancelled_batch_tells_what_was_taken() -> None:
    async def main() -> None:
        options: atp.JobOptions = {"control_socket": None, "peer_timeout": 0.3}
        options["buffer_bytes"] = 100_000
        with silent_peer() as peer:
            job = atp.aio.Job(peer.getsockname(), **options)
            await job.open()
            taken: list[int] = []

            async def send() -> None:
                async for ids in job.send_parts([bytes(1_000)] * 500):
                    taken.extend(ids)

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(send(), 0.1)
            assert 0 < len(taken) < 500
            assert taken == list(range(job.progress().messages))
            with pytest.raises(atp.ShortError):
                await job.cancel()

    run(main())


def test_batches_of_several_tasks_have_their_own_ids() -> None:
    async def main() -> None:
        async with atp.aio.Receiver("127.0.0.1:0", control_socket=None) as receiver:
            receiving = asyncio.create_task(receive(receiver))
            options: atp.JobOptions = {"control_socket": None, "buffer_bytes": 50_000}
            async with atp.aio.Job(receiver.address, **options) as job:
                batches = [[bytes([task]) * 900] * 200 for task in range(4)]
                ids = await asyncio.gather(*(job.send_many(batch) for batch in batches))
            assert sorted(number for part in ids for number in part) == list(range(800))
            for event in await receiving:
                if isinstance(event, atp.Message):
                    assert event.message in ids[event.data[0]]

    run(main())


def test_close_wakes_what_waits() -> None:
    async def main() -> None:
        receiver = await atp.aio.Receiver("127.0.0.1:0", control_socket=None).open()
        loop, recv = asyncio.create_task(receive(receiver)), asyncio.create_task(receiver.recv())
        await asyncio.sleep(0.1)
        await receiver.close()
        assert await loop == []
        with pytest.raises(atp.ClosedError, match="receiver has ended"):
            await recv

    run(main())


def test_a_receiver_asks_and_counts() -> None:
    async def main() -> None:
        async with atp.aio.Receiver("127.0.0.1:0", control_socket=None) as receiver:
            async with atp.aio.Job(receiver.address, msr=0.5, control_socket=None) as job:
                await job.send_many([b"message"] * 10)
                async for event in receiver:
                    if isinstance(event, atp.Message):
                        break
                (running,) = await receiver.progress()
                assert (running.job, running.run) == (job.native.id, event.run)
                assert running.window == 0
                assert running.groups[0].group == 0 and 1 <= running.groups[0].delivered <= 10
                receiver.request_msr(event.run, 0, 0.25)
                async for event in receiver:
                    if isinstance(event, atp.TermsChanged):
                        assert event.terms.groups[0].msr == 0.25
                        receiver.request_end(event.run)
                        break
                async for event in receiver:
                    if isinstance(event, atp.Finished):
                        break
            assert job.report is not None and job.report.ended_by_receiver

    run(main())


def test_a_job_opens_once() -> None:
    async def main() -> None:
        async with atp.aio.Receiver("127.0.0.1:0", control_socket=None) as receiver:
            job = atp.aio.Job(receiver.address, control_socket=None)
            natives = await asyncio.gather(job.open(), job.open())
            assert natives[0].native is natives[1].native
            async with job:
                await job.send(b"message")

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


def test_tasks_that_end_a_job_at_once_share_its_report() -> None:
    async def main() -> None:
        async with atp.aio.Receiver("127.0.0.1:0", control_socket=None) as receiver:
            async with atp.aio.Job(receiver.address, control_socket=None) as job:
                await job.send(b"message")
                reports = await asyncio.gather(job.finish(), job.finish(), job.cancel())
                assert reports[0].job == job.native.id
                assert all(report is job.report for report in reports)
                assert await job.finish() is await job.cancel() is job.report

    run(main())


def test_a_task_that_finds_the_end_wakes_the_others() -> None:
    async def main() -> None:
        async with atp.aio.Receiver("127.0.0.1:0", control_socket=None) as receiver:
            async with atp.aio.Job(receiver.address, control_socket=None) as job:
                waiting = asyncio.create_task(job.finish())
                await asyncio.sleep(0)
                time.sleep(0.5)  # The job ends, and the loop has not looked.
                assert await job.finish() is await waiting

    run(main())


FORKED = """
import asyncio, os, sys
import atp

async def main():
    try:
        await use_both()
    except SystemExit as end:
        os._exit(end.code)  # Closing the loop would take the descriptors from the parent's epoll.

async def use_both():
    async with atp.aio.Receiver("127.0.0.1:0", control_socket=None) as receiver:
        async with atp.aio.Job(receiver.address, control_socket=None) as job:
            await job.send(b"before")
            child = os.fork()
            if child == 0:
                sys.exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            await job.send(b"after")
        print(job.report.groups[0].delivered)

asyncio.run(main())
"""


def test_a_block_in_a_forked_child_ends_as_without_the_job() -> None:
    run = [sys.executable, "-c", FORKED]
    done = subprocess.run(run, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout.split()) == (0, ["7", "2"]), done


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


def test_a_cancelled_block_does_not_wait_for_its_peer() -> None:
    """The end is never confirmed. With the peer's timeout the block would take a minute."""

    async def main() -> None:
        options: atp.JobOptions = {"control_socket": None, "peer_timeout": 60.0}
        with silent_peer() as peer:
            entered = asyncio.Event()

            async def block() -> None:
                async with atp.aio.Job(peer.getsockname(), **options) as job:
                    await job.send(b"message")
                    entered.set()
                    await job.finish()

            sending = asyncio.create_task(block())
            await entered.wait()
            sending.cancel()
            await asyncio.wait({sending}, timeout=LIMIT_S / 2)
            assert sending.cancelled()

    run(main())


def test_a_cancelled_receive_leaves_no_error_to_the_loop() -> None:
    async def main() -> None:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, error: reported.append(error))
        receiving = asyncio.create_task(
            atp.aio.receive("127.0.0.1:0", query="avg(x)", control_socket=None)
        )
        await asyncio.sleep(0.1)
        receiving.cancel()
        await asyncio.wait({receiving})
        assert receiving.cancelled()
        # asyncio reports what nobody took when the future goes.
        del receiving
        gc.collect()
        assert not reported, reported

    run(main())


def test_what_is_not_open_says_so() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="the job isn't open"):
            await atp.aio.Job("127.0.0.1:9").send(b"message")
        with pytest.raises(ValueError, match="the receiver isn't open"):
            await atp.aio.Receiver("127.0.0.1:9").recv()

    run(main())


def test_tasks_of_two_loops_cannot_wait_for_one_receiver() -> None:
    async def main() -> None:
        async with atp.aio.Receiver("127.0.0.1:0", control_socket=None) as receiver:
            waiting = asyncio.create_task(receiver.recv())
            await asyncio.sleep(0.05)
            with pytest.raises(RuntimeError, match="another event loop waits already"):
                await asyncio.to_thread(lambda: asyncio.run(receiver.recv()))
            await receiver.close()
            with pytest.raises(atp.ClosedError):
                await waiting

    run(main())
