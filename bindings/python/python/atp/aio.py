"""``Job``, ``Receiver``, ``send_dataframe`` and ``receive`` for asyncio.

They wait for the descriptors of the native classes, and call those methods that don't wait.
Cancelling a task loses no message that was handed over. Call ``recv``, ``finish``, ``cancel`` or
``end_window`` again to go on. With ``overlap_windows`` that is ``next_window``, as ``end_window``
would end another window. ``send_many`` would send its first messages twice: ``send_parts`` tells
which ones the job has taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from atp import _native, _tables
from atp._error import Error
from atp._errors import ClosedError, ForkedError, SplitError
from atp._receive import receive_async
from atp._types import (
    Address,
    Event,
    JobOptions,
    MessageData,
    Progress,
    ReceiverOptions,
    ReceiverStats,
    Report,
    SourceProgress,
    WindowReport,
)
from atp.answers import Frame, Table

T = TypeVar("T")

INTERRUPTED_S = 0.25
"""How long a cancelled ``async with`` block waits for the receiver to learn of the end."""

receive = receive_async
"""``atp.receive`` for asyncio. Cancelling the task ends the receiver."""


class _Readable:
    """Wakes all tasks that wait for one descriptor."""

    def __init__(self, fileno: Callable[[], int], forget: Callable[[], None] | None = None) -> None:
        self._fileno, self._forget = fileno, forget
        self._waiting: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def until(self, attempt: Callable[[], T | None]) -> T:
        """Tries at once, and whenever the descriptor is readable."""
        while (done := attempt()) is None:
            await self._wait()
        return done

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        fd = self._fileno()
        if not self._waiting:
            self._loop = loop
            loop.add_reader(fd, self.wake)
        elif self._loop is not loop:
            raise RuntimeError("a task of another event loop waits already: use one loop")
        self._waiting.add(future)
        try:
            await future
        except asyncio.CancelledError:
            # The descriptor stays readable for a call that nobody makes again.
            if self._forget is not None:
                self._forget()
            raise
        finally:
            self._waiting.discard(future)
            if not self._waiting:
                loop.remove_reader(fd)

    def wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)


class Job:
    """A job for asyncio: see ``atp.Job``. Opened by ``async with`` or ``await open()``."""

    def __init__(self, peer: Address, **options: Unpack[JobOptions]) -> None:
        self._open = lambda: _native.Job(peer, **options)
        self._job: _native.Job | None = None
        self._opening = asyncio.Lock()
        self._turn = asyncio.Lock()

    async def open(self) -> Self:
        """Opens the job. Names are resolved on another thread."""
        async with self._opening:
            if self._job is None:
                job = await asyncio.to_thread(self._open)
                self._job, self._changed = job, _Readable(job.fileno, job.forget_waits)
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        exception: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        try:
            if self.native.ended:
                return
        except ForkedError:
            return  # The job is the parent's: the block ends as it would without it.
        if exception is None:
            await self.finish()
            return
        # A cancelled task, or Ctrl-C: the job goes on telling the receiver until it is dropped.
        wait_s = None if issubclass(exception, Exception) else INTERRUPTED_S
        try:
            async with asyncio.timeout(wait_s):
                await self.cancel()
        except (Error, TimeoutError):
            pass  # The exception that ended the block says more.

    @property
    def native(self) -> _native.Job:
        """The job itself: its id, its peer, its descriptor."""
        if self._job is None:
            raise ValueError("the job isn't open: use `async with`, or await its open()")
        return self._job

    @property
    def report(self) -> Report | None:
        """The report of a job that has ended."""
        return self.native.report

    async def send(self, data: MessageData, group: int = 0, *, copy: bool | None = None) -> int:
        """Sends a message, and returns its id. Waits while the buffer is full."""
        return (await self.send_many((data,), group, copy=copy)).start

    async def send_many(
        self, messages: Iterable[MessageData] | Frame, group: int = 0, *, copy: bool | None = None
    ) -> range:
        """Sends several messages, or those of a ``Frame``, and returns their ids. Waits while the
        buffer is full."""
        parts = self.native.send_parts(messages, group, copy=copy)
        await asyncio.sleep(0)  # A task that never has to wait lets others run.
        async with self._turn:
            ids = await self._changed.until(parts.try_next)
            is_split = False
            while parts.left:
                new = await self._changed.until(parts.try_next)
                is_split |= new.start != ids.stop
                ids = range(ids.start, new.stop)
        if is_split:
            raise SplitError("the job has taken the batch, but its ids aren't in a row: see send_parts")
        return ids

    async def send_parts(
        self, messages: Iterable[MessageData] | Frame, group: int = 0, *, copy: bool | None = None
    ) -> AsyncGenerator[range, None]:
        """Sends several messages, and gives the ids of each part that the job has taken. If the
        task is cancelled or the job fails, no others were taken."""
        parts = self.native.send_parts(messages, group, copy=copy)
        is_first = True
        while parts.left or is_first:
            await asyncio.sleep(0)
            async with self._turn:
                ids = await self._changed.until(parts.try_next)
            is_first = False
            yield ids

    def set_msr(self, group: int, msr: float) -> None:
        """Changes a group's minimal sampling rate. It waits for the job's own thread, never for the
        network or a window."""
        self.native.set_msr(group, msr)

    def progress(self) -> Progress:
        """What was sent and delivered up to now."""
        return self.native.progress()

    def set_messages(self, group: int, messages: int) -> None:
        """Announces N of a group for the windows that begin after this call."""
        self.native.set_messages(group, messages)

    async def end_window(self) -> WindowReport:
        """Ends the input of the window, and waits for the window's end."""
        await self.begin_end_window()
        return await self._changed.until(self.native.try_last_window)

    async def begin_end_window(self) -> None:
        """Ends the input of the window: ``next_window`` waits for its end. With
        ``overlap_windows`` messages of the next may follow."""
        await self._changed.until(lambda: self.native.try_begin_end_window() or None)

    async def next_window(self) -> WindowReport | None:
        """Waits for the end of the oldest window whose input was ended and whose report was not
        returned. ``None`` if there is none."""
        if not self.native.awaits_window:
            return None
        return await self._changed.until(self.native.try_window)

    async def finish(self) -> Report:
        """Ends the input, and waits for the job's end. Returns the report again if it has ended."""
        return await self._end(self.native.begin_finish)

    async def cancel(self) -> Report:
        """Ends the job now, with the messages delivered so far. Of a job that has ended: its report
        again."""
        return await self._end(self.native.begin_cancel)

    async def _end(self, begin: Callable[[], None]) -> Report:
        try:
            begin()
            return await self._changed.until(self.native.try_outcome)
        except ClosedError:
            # Another task has got the report, perhaps before this one began.
            if self.report is not None:
                return self.report
            raise


class Receiver:
    """A receiver for asyncio: see ``atp.Receiver``. ``async for`` iterates over events."""

    def __init__(self, address: Address, **options: Unpack[ReceiverOptions]) -> None:
        self._open = lambda: _native.Receiver(address, **options)
        self._receiver: _native.Receiver | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def open(self) -> Self:
        """Binds the receiver. Names are resolved on another thread."""
        async with self._opening:
            if self._receiver is None:
                receiver = await asyncio.to_thread(self._open)
                self._receiver, self._readable = receiver, _Readable(receiver.fileno)
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        exception: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        try:
            await self.close()
        except ForkedError:
            pass  # The receiver is the parent's.

    @property
    def native(self) -> _native.Receiver:
        """The receiver itself."""
        if self._receiver is None:
            raise ValueError("the receiver isn't open: use `async with`, or await its open()")
        return self._receiver

    @property
    def address(self) -> tuple[str, int]:
        """The address that the receiver is bound to."""
        return self.native.address

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        try:
            return await self.recv()
        except ClosedError:
            if self._closed:
                raise StopAsyncIteration from None
            raise

    async def recv(self) -> Event:
        """Waits for the next event."""
        native = self.native
        return await self._until(lambda: native.recv(0))

    async def recv_batch(self, max: int) -> list[Event]:
        """Waits for an event, and returns it with those behind it, ``max`` at most."""
        native = self.native
        return await self._until(lambda: native.recv_batch(max, 0) or None)

    async def _until(self, attempt: Callable[[], T | None]) -> T:
        def unless_closed() -> T | None:
            if self._closed:
                raise ClosedError("the receiver has ended: open another one")
            return attempt()

        return await self._readable.until(unless_closed)

    def request_msr(self, run: int, group: int, msr: float) -> None:
        """Asks a sender to set a group's sampling rate. ``TermsChanged`` answers."""
        self.native.request_msr(run, group, msr)

    def request_end(self, run: int) -> None:
        """Asks a sender to end its job with the messages delivered so far."""
        self.native.request_end(run)

    async def progress(self) -> tuple[SourceProgress, ...]:
        """The running jobs of which a message has arrived."""
        return await asyncio.to_thread(self.native.progress)

    def recycle(self, message: _native.Message) -> None:
        """Gives a message's memory back, for later messages."""
        self.native.recycle(message)

    def stats(self) -> ReceiverStats:
        """Counters of the receiver, up to now."""
        return self.native.stats()

    async def close(self) -> None:
        """Ends the receiver, its loops and waits, and waits until the senders of ended jobs know of
        the end."""
        if self._receiver is not None:
            with suppress(ClosedError):
                self._receiver.stats()  # A forked child has none of the threads of `to_thread`.
            self._closed = True
            self._readable.wake()
            await asyncio.to_thread(self._receiver.close)


async def send_dataframe(
    data: Any,
    peer: Address,
    *,
    rows: int | None = None,
    ordered: bool = False,
    **options: Unpack[JobOptions],
) -> Report:
    """As ``atp.send_dataframe``. Another thread divides the frame."""
    if ordered and isinstance(data, Iterator):
        stream = await asyncio.to_thread(_tables.stream, data, rows, options)
        async with Job(peer, **options) as job:
            parts = stream.parts()
            while (part := await asyncio.to_thread(next, parts, None)) is not None:
                await job.send_many(*part)
            return await job.finish()
    table = await asyncio.to_thread(_tables.divided, data, rows, ordered, options)
    _tables.set_groups(table, options)
    async with Job(peer, **options) as job:
        await job.send_many(table.heads, Table.HEADER_GROUP)
        await job.send_many(_tables.rows_of(table), Table.ROWS_GROUP)
        return await job.finish()
