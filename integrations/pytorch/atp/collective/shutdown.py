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
"""How long a rank that closes waits for its jobs to end."""
ABORT_TIMEOUT_S = 2.0
"""How long a rank that failed tries to send the reason."""
POLL_S = 0.005


@dataclass
class PeerJob:
    """A job to a rank, and whether that rank has ended its own job to this one."""

    job: atp.Job
    has_peer_left: Callable[[], bool]


def shut_down(
    jobs: Collection[PeerJob], has_failed: Callable[[], bool], peer_timeout_s: float
) -> None:
    """Ends all jobs.

    A rank leaves once it has all of its results. So a rank that has left needs nothing more, even
    if it didn't answer before it left: the answer may have been lost.
    """
    _wait_for(jobs, lambda each: has_failed() or _is_confirmed(each), peer_timeout_s)
    for each in jobs:
        _try(each.job.begin_finish if has_failed() else each.job.begin_cancel)
    timeout_s = ABORT_TIMEOUT_S if has_failed() else SHUTDOWN_TIMEOUT_S
    _wait_for(jobs, _has_ended, min(timeout_s, peer_timeout_s))
    for each in jobs:
        _try(partial(each.job.finish, timeout=0))


def abort(jobs: Collection[atp.Job], message: bytes, timeout_s: float) -> None:
    """Ends the jobs with the abort message. A job that has no room for it waits for its
    window, for ``timeout_s`` at most."""
    waiting = list(jobs)
    deadline = time.monotonic() + timeout_s
    while waiting := [job for job in waiting if not _try_abort(job, message)]:
        if time.monotonic() >= deadline:
            return
        time.sleep(POLL_S)


def _try_abort(job: atp.Job, message: bytes) -> bool:
    """Whether the job has the message, or has ended."""
    try:
        if not job.try_send_many([message], EXACT):
            job.try_window()
            return False
        job.begin_finish()
    except Exception:  # The job has ended.
        pass
    return True


def _is_confirmed(each: PeerJob) -> bool:
    """Whether the peer has confirmed all windows, or needs them no more."""
    if each.has_peer_left():
        return True
    try:
        while each.job.try_window() is not None:
            pass
        return not each.job.awaits_window
    except atp.Error:
        return True


def _has_ended(each: PeerJob) -> bool:
    if each.has_peer_left():
        return True
    try:
        return each.job.try_outcome() is not None
    except atp.Error:
        return True


def _wait_for(
    jobs: Collection[PeerJob], holds: Callable[[PeerJob], bool], timeout_s: float
) -> None:
    """Waits until ``holds`` is true of all jobs, or for ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not all([holds(each) for each in jobs]) and time.monotonic() < deadline:
        time.sleep(POLL_S)


def _try(work: Callable[[], object]) -> None:
    """A job that has failed needs no end."""
    try:
        work()
    except atp.Error:
        pass
