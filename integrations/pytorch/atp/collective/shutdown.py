"""How a rank leaves: the other ranks may still lack its last means.

A rank that is done calls ``shut_down``. A rank that failed calls ``abort`` first, which tells the
others the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

import atp
from atp.collective.inbox import EXACT

SHUTDOWN_TIMEOUT_S = 2.0
"""How long a rank that closes waits for its streams to end."""
ABORT_TIMEOUT_S = 2.0
"""How long a rank that failed tries to send the reason."""
POLL_S = 0.005


@dataclass
class PeerStream:
    """A stream to a rank, and whether that rank has ended its own stream to this one."""

    stream: atp.Stream
    has_peer_left: Callable[[], bool]


def shut_down(
    streams: Collection[PeerStream], has_failed: Callable[[], bool], peer_timeout_s: float
) -> None:
    """Ends all streams.

    A rank leaves once it has all of its results. So a rank that has left needs nothing more, even
    if it didn't answer before it left: the answer may have been lost.
    """
    _wait_for(streams, lambda each: has_failed() or _is_confirmed(each), peer_timeout_s)
    for each in streams:
        _try(each.stream.begin_finish if has_failed() else each.stream.begin_cancel)
    timeout_s = ABORT_TIMEOUT_S if has_failed() else SHUTDOWN_TIMEOUT_S
    _wait_for(streams, _has_ended, min(timeout_s, peer_timeout_s))
    for each in streams:
        _try(partial(each.stream.finish, timeout=0))


def abort(streams: Collection[atp.Stream], message: bytes, timeout_s: float) -> None:
    """Ends the streams with the abort message. A stream that has no room for it waits for its
    window, for ``timeout_s`` at most."""
    waiting = list(streams)
    deadline = time.monotonic() + timeout_s
    while waiting := [stream for stream in waiting if not _try_abort(stream, message)]:
        if time.monotonic() >= deadline:
            return
        time.sleep(POLL_S)


def _try_abort(stream: atp.Stream, message: bytes) -> bool:
    """Whether the stream has the message, or has ended."""
    try:
        if not stream.try_send_many([message], EXACT):
            stream.try_window()
            return False
        stream.begin_finish()
    except Exception:  # The stream has ended.
        pass
    return True


def _is_confirmed(each: PeerStream) -> bool:
    """Whether the peer has confirmed all windows, or needs them no more."""
    if each.has_peer_left():
        return True
    try:
        while each.stream.try_window() is not None:
            pass
        return not each.stream.awaits_window
    except atp.Error:
        return True


def _has_ended(each: PeerStream) -> bool:
    if each.has_peer_left():
        return True
    try:
        return each.stream.try_outcome() is not None
    except atp.Error:
        return True


def _wait_for(
    streams: Collection[PeerStream], holds: Callable[[PeerStream], bool], timeout_s: float
) -> None:
    """Waits until ``holds`` is true of all streams, or for ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not all([holds(each) for each in streams]) and time.monotonic() < deadline:
        time.sleep(POLL_S)


def _try(work: Callable[[], object]) -> None:
    """A stream that has failed needs no end."""
    try:
        work()
    except atp.Error:
        pass
