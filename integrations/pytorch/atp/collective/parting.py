"""How a rank leaves: its last means may still be on their way to the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

import atp
from atp.collective.inbox import EXACT

PARTING_S = 2.0
"""How long a rank that closes tells the others so."""
FAREWELL_S = 2.0
"""How long a rank that failed tries to tell the others why."""
LOOK_S = 0.005


@dataclass
class Tie:
    """A stream to a rank, and whether that rank has ended its own stream to this one."""

    stream: atp.Stream
    has_peer_left: Callable[[], bool]


def part(ties: Collection[Tie], has_failed: Callable[[], bool], peer_timeout_s: float) -> None:
    """Ends all streams.

    A rank leaves once it has all of its results. So a rank that has left needs nothing more, even
    if it didn't answer before it went: the answer may have been lost.
    """
    _wait_for(ties, lambda tie: has_failed() or _is_confirmed(tie), peer_timeout_s)
    for tie in ties:
        _try(tie.stream.begin_finish if has_failed() else tie.stream.begin_cancel)
    limit_s = FAREWELL_S if has_failed() else PARTING_S
    _wait_for(ties, _has_ended, min(limit_s, peer_timeout_s))
    for tie in ties:
        _try(partial(tie.stream.finish, timeout=0))


def tell(streams: Collection[atp.Stream], farewell: bytes, patience_s: float) -> None:
    """Ends the streams with this message. One that has to wait for a window gets ``patience_s``."""
    untold = list(streams)
    deadline = time.monotonic() + patience_s
    while untold := [stream for stream in untold if not _tell(stream, farewell)]:
        if time.monotonic() >= deadline:
            return
        time.sleep(LOOK_S)


def _tell(stream: atp.Stream, farewell: bytes) -> bool:
    """Whether nothing is left to do."""
    try:
        if not stream.try_send_many([farewell], EXACT):
            stream.try_window()
            return False
        stream.begin_finish()
    except Exception:  # The stream has ended.
        pass
    return True


def _is_confirmed(tie: Tie) -> bool:
    """Whether the peer has confirmed all windows, or needs them no more."""
    if tie.has_peer_left():
        return True
    try:
        while tie.stream.try_window() is not None:
            pass
        return not tie.stream.awaits_window
    except atp.Error:
        return True


def _has_ended(tie: Tie) -> bool:
    if tie.has_peer_left():
        return True
    try:
        return tie.stream.try_outcome() is not None
    except atp.Error:
        return True


def _wait_for(ties: Collection[Tie], holds: Callable[[Tie], bool], limit_s: float) -> None:
    """Waits until it holds for all, or for ``limit_s``."""
    deadline = time.monotonic() + limit_s
    while not all([holds(tie) for tie in ties]) and time.monotonic() < deadline:
        time.sleep(LOOK_S)


def _try(work: Callable[[], object]) -> None:
    """A stream that has failed needs no end."""
    try:
        work()
    except atp.Error:
        pass
