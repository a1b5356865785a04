"""Receives a table: the answers of a query, or its rows."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from atp._native import Receiving
from atp._progress import progress as _progress

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from atp._answers import Answers
    from atp._rows import Rows
    from atp._types import Address, ReceiverOptions
    from atp.answers import Query

SLICE_S = 0.1
"""The call looks for an interrupt and redraws the bar after this time."""

CANCELLED = contextvars.ContextVar("CANCELLED", default=threading.Event())
"""The event that stops this call. The task of asyncio that made the call sets it when the task is
cancelled."""

CONFIDENCE = 0.95
ROWS_BYTES_MAX = 4 << 30

P = ParamSpec("P")
T = TypeVar("T")


@overload
def receive(
    bind: Address,
    *,
    query: Query | str,
    emax: float | None = None,
    end_in_doubt: bool = False,
    confidence: float = CONFIDENCE,
    senders: int = 1,
    timeout: float | timedelta = 60.0,
    progress: bool | None = None,
    **options: Unpack[ReceiverOptions],
) -> Answers: ...
@overload
def receive(
    bind: Address,
    *,
    as_: Literal["frame"],
    rows_bytes_max: int = ROWS_BYTES_MAX,
    senders: int = 1,
    timeout: float | timedelta = 60.0,
    progress: bool | None = None,
    **options: Unpack[ReceiverOptions],
) -> Rows: ...
def receive(
    bind: Address,
    *,
    query: Query | str | None = None,
    as_: Literal["answers", "frame"] = "answers",
    emax: float | None = None,
    end_in_doubt: bool = False,
    confidence: float = CONFIDENCE,
    rows_bytes_max: int = ROWS_BYTES_MAX,
    senders: int = 1,
    timeout: float | timedelta = 60.0,
    progress: bool | None = None,
    **options: Unpack[ReceiverOptions],
) -> Answers | Rows:
    """Receives a table that ``send_dataframe``, ``send_csv``, ``atp-user send --csv`` or a program
    in C sends to the address ``bind``, such as ``"0.0.0.0:4747"``. Returns the answers of
    ``query`` with their intervals; or with ``as_="frame"`` the rows that arrived.

    Ends when ``senders`` senders have reached their MSRs, as ``atp-user recv`` does. With ``emax``,
    the accepted relative error of each answer, it asks the senders for as much as that needs, or
    for the end. ``min``, ``max`` and ``count(distinct)`` are bounds and have no error. With
    ``end_in_doubt`` the senders end also while a warning puts the answer in doubt. After
    ``timeout`` seconds without a packet it gives what has arrived, with a warning, or raises
    ``TimedOutError`` if that has no answer. An interrupt (Ctrl-C) gives the answer so far; a second
    one raises. ``progress`` shows a bar on which the interval shrinks; by default in terminals and
    notebooks. Rows beyond ``rows_bytes_max``, 4 GiB, are left out with a warning. ``options`` are
    those of ``Receiver``: with ``jobs`` and ``peers`` no stranger takes a sender's place.

    Raises ``QueryError`` for a query that can't be answered of the table, such as one of an unknown
    column."""
    bar = _progress(progress)
    receiving = _begin(
        bind,
        query,
        as_,
        emax=emax,
        end_in_doubt=end_in_doubt,
        confidence=confidence,
        senders=senders,
        timeout=timeout,
        rows_bytes_max=rows_bytes_max,
        options=options,
    )
    cancelled = CANCELLED.get()
    try:
        try:
            while not receiving.run(SLICE_S):
                if cancelled.is_set():
                    raise _CancelledError
                bar.show(receiving)
        except KeyboardInterrupt:
            _interrupt(receiving)
        return _end(receiving)
    finally:
        bar.end()
        receiving.close()


def _end(receiving: Receiving) -> Answers | Rows:
    """The end, also if an interrupt comes meanwhile. A second one raises."""
    try:
        return receiving.end()
    except KeyboardInterrupt:
        return receiving.end()


def _interrupt(receiving: Receiving) -> None:
    """Takes what has arrived."""
    receiving.interrupt()
    while not receiving.run(SLICE_S):
        pass
    if not receiving.messages:
        raise KeyboardInterrupt


class _CancelledError(Exception):
    """Ends the thread of a cancelled task."""


def _for_asyncio(call: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The call with the same keywords for asyncio, on a thread of its own: those of the loop are
    for short calls. If the task is cancelled, the thread ends the receiver first."""

    @functools.wraps(call)
    async def receive_async(*args: P.args, **wanted: P.kwargs) -> T:
        cancelled, context = threading.Event(), contextvars.copy_context()
        context.run(CANCELLED.set, cancelled)
        thread = ThreadPoolExecutor(1, "atp-receive")
        running = asyncio.wrap_future(thread.submit(lambda: context.run(call, *args, **wanted)))
        thread.shutdown(wait=False)
        # The outcome of a cancelled task has no other taker, and asyncio would report it.
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait({running})
            raise
        return running.result()

    receive_async.__doc__ = "As ``atp.receive``. Cancelling the task ends the receiver."
    return receive_async


receive_async = _for_asyncio(receive)


def _begin(
    bind: Address,
    query: Query | str | None,
    as_: str,
    *,
    options: Any,
    **of_query: Any,
) -> Receiving:
    """Begins to receive."""
    if as_ not in ("answers", "frame"):
        raise ValueError(f'as_ must be "answers" or "frame", not {as_!r}')
    if (as_ == "frame") == (query is not None):
        raise TypeError('give one of query="avg(x) by key" and as_="frame"')
    is_changed = {
        "emax": of_query["emax"] is not None,
        "end_in_doubt": of_query["end_in_doubt"] is not False,
        "confidence": of_query["confidence"] != CONFIDENCE,
        "rows_bytes_max": of_query["rows_bytes_max"] != ROWS_BYTES_MAX,
    }
    of_rows = {"rows_bytes_max"}
    for name in of_rows if query is not None else is_changed.keys() - of_rows:
        if is_changed[name]:
            other = 'as_="frame"' if query is not None else "a query"
            raise TypeError(f"{name} is an option of {other}: leave it out")
    if is_changed["end_in_doubt"] and of_query["emax"] is None:
        raise TypeError("end_in_doubt is an option of emax: give both, or leave it out")
    return Receiving(bind, query, options=options, **of_query)
