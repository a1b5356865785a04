"""The native module: jobs and receivers of approxlib."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from os import PathLike
from types import TracebackType
from typing import Any, Self, Unpack, final

from atp._answers import Answers
from atp._rows import Rows
from atp._types import (
    Address,
    Event,
    JobOptions,
    MessageData,
    Progress,
    ReceiverOptions,
    ReceiverStats,
    Report,
    Seconds,
    SourceProgress,
    WindowReport,
    WindowSenderOptions,
    WindowsOptions,
)
from atp._windows import Window, WindowStats
from atp.answers import Answering, Frame

__version__: str

ZERO_COPY_BYTES: int
"""Messages of this length or longer that nobody may change are sent without a copy, unless ``copy``
says otherwise."""

class Job:
    """The sending side of a job: messages to one receiver, of which a share must arrive. It may end
    windows before its own end, each with its own messages.

    Leaving a ``with`` block finishes the job; with an exception it cancels the job. After Ctrl-C it
    waits 0.25 s at most for the receiver to confirm that. Times are seconds or a ``timedelta``.
    """

    def __new__(cls, peer: Address, **options: Unpack[JobOptions]) -> Self: ...
    @property
    def id(self) -> int:
        """The job's id, a number."""
    @property
    def peer(self) -> tuple[str, int]:
        """The receiver's host and port."""
    @property
    def datapath(self) -> str:
        """``ebpf`` or ``userspace``."""
    @property
    def pacing(self) -> str:
        """``fq``, ``htb`` or ``userspace``."""
    @property
    def ended(self) -> bool:
        """Whether the job has ended, with a report or an error."""
    @property
    def report(self) -> Report | None:
        """The report of the job; ``None`` before its end."""
    def send(
        self,
        data: MessageData,
        group: int = 0,
        *,
        copy: bool | None = None,
        timeout: Seconds | None = None,
    ) -> int:
        """Sends a message, and returns its id. Waits while the buffer is full; after a
        ``TimedOutError`` the message isn't sent."""
    def send_many(
        self,
        messages: Iterable[MessageData] | Frame,
        group: int = 0,
        *,
        copy: bool | None = None,
        timeout: Seconds | None = None,
    ) -> range:
        """Sends several messages, or those of a ``Frame``, and returns their ids.
        ``TimedOutError.sent`` has the ids of those that the job had taken before the timeout."""
    def send_parts(
        self, messages: Iterable[MessageData] | Frame, group: int = 0, *, copy: bool | None = None
    ) -> Parts:
        """Iterates over the ids of each part that the job takes. After an exception or Ctrl-C the
        ids told so far are all that were taken, and the iterator goes on with the others."""
    def try_send_many(
        self, messages: Iterable[MessageData] | Frame, group: int = 0, *, copy: bool | None = None
    ) -> range:
        """Sends the first messages for which there is room now, and returns their ids, perhaps
        none. While a window ends it raises ``WindowEndingError``, unless windows overlap."""
    def set_msr(self, group: int, msr: float) -> None:
        """Changes a group's minimal sampling rate from the current window on; after ``end_window``,
        from the next one on. An exact group stays exact. Once the sender has asked the receiver to
        confirm the end, the rate can only fall."""
    def set_messages(self, group: int, messages: int) -> None:
        """Announces N of a group for the windows that begin after this call. The first one began
        when the job was opened: its N is the option ``messages``."""
    def end_window(self, *, timeout: Seconds | None = None) -> WindowReport:
        """Ends the input of the window, and waits for its end. The next message begins the next
        window. After a ``TimedOutError`` the window goes on: call it again.

        With ``overlap_windows`` call ``begin_end_window`` and ``next_window`` instead: another
        ``end_window`` would end another window."""
    def begin_end_window(self) -> None:
        """Ends the input of the window. Until its report was taken, sending raises
        ``WindowEndingError``. With ``overlap_windows`` messages of the next may follow; if nothing
        was sent since the last call, this one waits while two windows have not ended."""
    def try_begin_end_window(self) -> bool:
        """``begin_end_window``, or ``False`` where that would wait."""
    def next_window(self, *, timeout: Seconds | None = None) -> WindowReport | None:
        """Waits for the end of the oldest window whose input was ended and whose report was not
        returned. ``None`` if there is none."""
    def try_window(self) -> WindowReport | None:
        """``next_window`` without waiting: ``None`` also before the end."""
    @property
    def awaits_window(self) -> bool:
        """Whether ``next_window`` has a window to wait for."""
    def try_last_window(self) -> WindowReport | None:
        """The report of the window that was ended last, once all have ended; ``None`` before."""
    def progress(self) -> Progress:
        """The progress up to now. Waits for nothing."""
    def finish(self, *, timeout: Seconds | None = None) -> Report:
        """Ends the input, and waits for the end. After a ``TimedOutError`` the job goes on, and
        the call may be made again. The report is ``canceled`` if the deadline of the last window
        has passed, and ``ended_by_receiver`` if the receiver has ended the job: neither is an
        error. After ``end_window`` its groups are those of an empty last window."""
    def cancel(self, *, timeout: Seconds | None = None) -> Report:
        """Ends the job now, and waits for the receiver's confirmation."""
    def begin_finish(self) -> None:
        """The first step of ``finish``, which doesn't wait. ``try_outcome`` is the second."""
    def begin_cancel(self) -> None:
        """The first step of ``cancel``, which doesn't wait. ``try_outcome`` is the second."""
    def try_outcome(self) -> Report | None:
        """The report of a job that has ended, once; ``None`` before its end. It raises as
        ``finish`` does."""
    def fileno(self) -> int:
        """Readable when a call that didn't wait may succeed now."""
    def forget_waits(self) -> None:
        """Gives up the calls that found no room or no window. Without it, ``fileno`` is readable
        from when they would succeed until they are made again."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exception: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

@final
class Parts:
    """Messages on their way into a job: see ``Job.send_parts``."""

    @property
    def left(self) -> int:
        """Messages that the job has not taken."""
    def try_next(self) -> range | None:
        """The ids of the messages for which there is room now; ``None`` if there is none."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> range: ...

@final
class Message:
    """A complete message. Its buffer is the memory that the library received it into."""

    __match_args__ = ("data",)
    @property
    def source(self) -> tuple[str, int]:
        """The sender's host and port."""
    @property
    def job(self) -> int:
        """The job's id."""
    @property
    def run(self) -> int:
        """The run of the job, as ``Started`` has it."""
    @property
    def window(self) -> int:
        """The number of the window, from 0."""
    @property
    def group(self) -> int:
        """The group's id."""
    @property
    def message(self) -> int:
        """The id of the message in its window and group, from 0."""
    @property
    def data(self) -> memoryview:
        """The bytes, read-only and without a copy. A view keeps their memory."""
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __bytes__(self) -> bytes: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Receiver:
    """Receives messages of any number of senders at one port. Iterates over events.
    Times are seconds or a ``timedelta``."""

    def __new__(cls, address: Address, **options: Unpack[ReceiverOptions]) -> Self: ...
    @property
    def address(self) -> tuple[str, int]:
        """The host and port that it receives at."""
    @property
    def datapath(self) -> str:
        """``ebpf`` or ``userspace``."""
    def recv(self, timeout: Seconds | None = None) -> Event | None:
        """The next event; ``None`` after ``timeout``. Without a timeout it waits. ``ClosedError``
        after ``close``."""
    def recv_batch(self, max: int, timeout: Seconds | None = None) -> list[Event]:
        """The events that are there, ``max`` at most, once there is one; an empty list after
        ``timeout``. It costs less than ``recv`` for each."""
    def recycle(self, message: Message) -> None:
        """Gives the memory of a message to later ones, unless a view uses it."""
    def request_msr(self, run: int, group: int, msr: float) -> None:
        """Asks a sender to set a group's sampling rate. ``TermsChanged`` answers."""
    def request_end(self, run: int) -> None:
        """Asks a sender to end its job with the messages delivered so far."""
    def progress(self) -> tuple[SourceProgress, ...]:
        """The running jobs of which a message has arrived. Takes milliseconds."""
    def stats(self) -> ReceiverStats:
        """The counters of the receiver."""
    def close(self) -> None:
        """Ends the receiver, and the loops of other threads over it."""
    def fileno(self) -> int:
        """A descriptor that is readable while there are events, for ``select`` and its like."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> Event: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exception: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

@final
class Batches:
    """Record batches of one schema, for Arrow's interface for C."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def to_bytes(self) -> bytes:
        """The batches as a stream of Arrow's IPC format. ``pickle`` and ``copy`` use it."""
    @staticmethod
    def from_bytes(data: MessageData) -> Batches:
        """The batches of ``to_bytes``, or of any such stream."""

@final
class Receiving:
    """A table that arrives: ``atp.receive`` and ``atp.aio.receive`` run it."""

    def __new__(
        cls,
        address: Address,
        query: object,
        *,
        emax: float | None,
        end_in_doubt: bool,
        confidence: float,
        senders: int,
        timeout: Seconds,
        rows_bytes_max: int,
        options: ReceiverOptions,
    ) -> Self: ...
    @property
    def address(self) -> tuple[str, int]:
        """The address that the receiver is bound to."""
    def run(self, seconds: float) -> bool:
        """Receives for a number of seconds, 1 at most, or until the end: it is true then."""
    def progress(self) -> tuple[str | None, int, int | None] | None:
        """The state of the answer in a line, and the messages that arrived and were sent; ``None``
        if it was asked for a moment ago."""
    @property
    def messages(self) -> int:
        """Messages of the table that arrived."""
    def interrupt(self) -> None:
        """Awaits no sender any longer: the next ``run`` takes what has arrived."""
    def end(self) -> Answers | Rows:
        """Ends the session: its answers, or its rows. Another call returns them again."""
    def close(self) -> None:
        """Ends the receiver."""

@final
class Windows:
    """Receives windows of records at ``address``, of any number of senders: the program
    ``atp-kafka``, or a ``WindowSender``. Iterates over those that have ended:

    ``for window in atp.kafka.windows("0.0.0.0:4747", state="windows.json"): ...``

    A window is confirmed when the loop asks for the next one. Its sender repeats a window that was
    not confirmed: the body has raised, or has left the loop by ``break``. ``confirm()`` confirms it
    before.

    ``state`` is a file that keeps which offsets were counted, so that a restarted receiver doesn't
    count a repeated window again. It is written before each confirmation, and is this receiver's
    alone; ``StateError`` if it is damaged or another receiver uses it. Without ``state`` the
    offsets are kept in memory: a window that was handled, and whose confirmation its sender didn't
    get, is handled again after a restart of the receiver. With ``state`` that happens only if the
    program dies between the end of the body and the next window: keep the window's offsets with
    its results, if that matters.

    After ``timeout`` without a window the loop ends with ``TimedOutError``. Windows that are open
    may have ``memory_bytes_max`` bytes, by default 1 GiB. Only one loop at a time uses it. Other
    threads run while it waits, and may ``close`` it, which ends the loop."""

    def __new__(
        cls,
        address: Address,
        *,
        state: str | PathLike[str] | None = None,
        timeout: Seconds | None = None,
        memory_bytes_max: int | None = None,
        **options: Unpack[WindowsOptions],
    ) -> Self: ...
    @property
    def address(self) -> tuple[str, int]:
        """The host and port that it receives at."""
    @property
    def stats(self) -> WindowStats:
        """The counters so far. ``logging`` has the reasons, as ``atp.kafka``."""
    def confirm(self) -> bool:
        """Confirms the window that the loop has, before a ``break`` or a long rest of the body.
        False if there is none."""
    def close(self) -> None:
        """Ends the receiver, and the loop of another thread over it. A window that is not confirmed
        is sent again."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> Window: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exception: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

@final
class Record:
    """A record of a window."""

    @property
    def offset(self) -> int:
        """The place of the record in its partition."""
    @property
    def timestamp(self) -> datetime | None:
        """The event time (UTC); ``None`` also beyond the years 1 to 9999."""
    @property
    def timestamp_ms(self) -> int | None:
        """The event time, milliseconds since 1970."""
    @property
    def key(self) -> bytes | None:
        """The key, if there is one."""
    @property
    def value(self) -> bytes | None:
        """The value; ``None`` for a tombstone."""
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """Names and values of the headers, in their order."""
    @property
    def group(self) -> str:
        """The name of the record's group in ``Window.groups``."""
    @property
    def weight(self) -> float:
        """The records of the group that this one stands for: N by those that arrived."""
    def json(self) -> Any:
        """The value as JSON; ``None`` for a tombstone. ``ValueError`` if it is none."""

@final
class Records:
    """The records of a window that arrived and count."""

    def all(self) -> list[Record]: ...
    def sample(self) -> list[tuple[int, Record | None]]: ...
    def columns(self) -> dict[str, list[Any]]: ...
    def batches(self) -> Batches: ...
    def answering(self, query: str, columns: Sequence[str]) -> Answering: ...

@final
class WindowSender:
    """Sends the records of one stream to ``atp.kafka.windows`` at ``peer``, in windows: with the
    number ``records`` each, or of event times of the span ``length``, which close at the first
    record that is ``watermark_delay`` behind their end.

    ``groups`` are names with minimal sampling rates, such as ``{"readings": 0.9}``. Records without
    a group have the rate ``msr``, by default 1: all arrive. While windows are confirmed soon, up to
    ``msr_max`` of the records are sent. The stream is the ``partition`` of the ``topic`` as the
    ``group`` of consumers reads it in the ``cluster``; its offsets count once. ``position`` goes on
    where another sender has ended. A window of more than ``window_bytes_max`` bytes, by default
    32 MiB, is sent in parts.

    Leaving a ``with`` block sends all windows and waits until they are confirmed; with an exception
    it abandons them. After an error windows stay unconfirmed: open another sender at ``position``,
    and give it the records from there on."""

    def __new__(
        cls,
        peer: Address,
        *,
        topic: str,
        partition: int = 0,
        group: str = "",
        cluster: str = "",
        records: int | None = None,
        length: Seconds | None = None,
        watermark_delay: Seconds | None = None,
        groups: Mapping[str, float] | None = None,
        msr: float = 1.0,
        msr_max: float = 0.0,
        position: str | None = None,
        window_bytes_max: int | None = None,
        **options: Unpack[WindowSenderOptions],
    ) -> Self: ...
    @property
    def confirmed(self) -> int:
        """The number of windows, and parts of them, that are confirmed."""
    @property
    def unconfirmed(self) -> int:
        """The number of those that are closed and not confirmed."""
    @property
    def position(self) -> str | None:
        """Where the next sender goes on if this one ends now: its first word is the offset.
        ``None`` before a window is confirmed."""
    def send(
        self,
        offset: int,
        value: MessageData | str | None,
        key: MessageData | str | None = None,
        timestamp: datetime | float | None = None,
        headers: Iterable[tuple[str, MessageData | str | None]] | None = None,
        group: str | None = None,
    ) -> None:
        """Takes a record. Offsets ascend. ``timestamp`` is a time with a zone, or seconds since
        1970. Waits while more than two closed windows aren't confirmed. The record is taken, also
        if the wait is interrupted."""
    def flush(self, *, timeout: Seconds | None = None) -> None:
        """Closes the open windows, and waits until all are confirmed."""
    def close(self, *, timeout: Seconds | None = None) -> None:
        """``flush``, and the end of the sender."""
    def abandon(self) -> None:
        """Ends the sender at once. Windows that are not confirmed are lost, unless another sender
        sends them."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exception: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
