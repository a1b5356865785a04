"""The jobs of one channel to the other ranks. ``lost_rank`` checks whether the ranks answer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Any

import atp
from atp.collective.errors import CollectiveError
from atp.collective.inbox import EXACT, Inbox
from atp.collective.lost_rank import REASON_TIMEOUT_S, LostRankDetector
from atp.collective.options import Options

HELLO_WINDOW = 0
"""The window of the hello. The windows of each step follow."""
PARTS_WINDOW = HELLO_WINDOW + 1
"""The first window with parts."""
REPORT_S = 0.002
"""The longest wait for one peer's report. Another one's may be there by then."""


class Peers:
    """The jobs of a channel. In each step, ``begin`` is called first."""

    def __init__(
        self,
        name: str,
        windows: int,
        options: Options,
        inbox: Inbox,
        on_report: Callable[[int, atp.WindowReport], None],
    ):
        """``on_report``: gets each report of a window with parts, and its rank."""
        self._name, self._windows, self._options = name, windows, options
        self._inbox, self._on_report = inbox, on_report
        self.jobs: dict[int, atp.Job] = {}
        self._confirmed: dict[int, int] = {}
        """The last window with parts, or with the hello, that the peer has confirmed."""
        self._msrs = [float(msr) for msr in options.groups.msrs]
        self._step = 0
        self._deadline = 0.0
        self.lost_ranks = LostRankDetector(name, options.peer_timeout_s, inbox, self.jobs)

    def begin(self, step: int, deadline: float) -> None:
        """``deadline``: the end of what the step may take, ``time.monotonic``."""
        self._step, self._deadline = step, deadline
        self.lost_ranks.begin(step)

    def set_msrs(self, msrs: list[float]) -> None:
        """Sets the sampling rates of the next window."""
        for group, (before, now) in enumerate(zip(self._msrs, msrs, strict=True), start=1):
            is_exact = self._options.groups.msrs[group - 1] == 1
            if before != now and not is_exact:
                for job in self.jobs.values():
                    job.set_msr(group, now)
        self._msrs = msrs

    def send(
        self,
        peer: int,
        messages: Iterable[Any],
        group: int = EXACT,
        *,
        copy: bool | None = None,
    ) -> None:
        """Raises if the peer takes nothing until the deadline."""
        left_s = max(0.0, self._deadline - time.monotonic())
        try:
            self.jobs[peer].send_many(messages, group, copy=copy, timeout=left_s)
        except atp.TimedOutError as error:
            raise self._late(peer, f"reading step {self._step} of {self._name}") from error

    def send_hellos(self) -> None:
        """Begins the jobs with a window that has the hello alone. Waits until all peers have it.

        A peer keeps nothing of a job before the hello, which only ranks know. A chunk that overtook
        the hello would count as delivered, and be lost.
        """
        for peer in self.jobs:
            self.send(peer, [self._inbox.hello])
            self.end_window(peer)
        self.await_reports(HELLO_WINDOW, f"the first message of {self._name}", lambda peer: None)

    def end_window(self, peer: int) -> None:
        self.jobs[peer].begin_end_window()

    def take_reports(self, peer: int, wait_s: float = 0.0) -> None:
        """Hands over the reports of lost messages. Waits for one report at most."""
        job = self.jobs[peer]
        try:
            report = job.next_window(timeout=wait_s) if wait_s > 0 else job.try_window()
        except atp.TimedOutError:
            return
        while report is not None:
            if report.window == HELLO_WINDOW:
                self._confirmed[peer] = report.window
            elif (report.window - PARTS_WINDOW) % self._windows == 0:
                self._confirmed[peer] = report.window
                self._on_report(peer, report)
            report = job.try_window()

    def await_reports(
        self, window: int, what: str, then: Callable[[int], None], *, owes: bool = True
    ) -> None:
        """Waits until the peers have confirmed the parts that were sent as ``window``. Calls
        ``then`` for each peer that has. ``owes``: whether ``then`` sends something that the peers
        need."""
        waiting = list(self.jobs)
        while waiting:
            for peer in list(waiting):
                self.take_reports(peer)
                if self._confirmed.get(peer, -1) >= window:
                    waiting.remove(peer)
                    then(peer)
            if not waiting:
                return
            self.lost_ranks.raise_if_lost()
            # A rank that leaves now won't get the mean or the part that this one is about to send.
            if reason := self.lost_ranks.reason(waiting if owes else [], timeout_s=0.0):
                raise reason
            if not owes and not (waiting := [peer for peer in waiting if not self._is_done(peer)]):
                return
            if time.monotonic() > self._deadline:
                raise self._late(waiting[0], f"receipts for {what}")
            self.take_reports(waiting[0], REPORT_S)

    def _is_done(self, peer: int) -> bool:
        """Whether a peer that needs nothing more has left. It had all parts, or it would have
        waited for them. Its report may be in flight."""
        if not self._inbox.has_left(peer):
            return False
        with contextlib.suppress(atp.Error):
            self.take_reports(peer, REASON_TIMEOUT_S)
        return True

    def _late(self, peer: int, what: str) -> CollectiveError:
        return CollectiveError(f"rank {peer} is too late with {what}: it may have stalled")
