"""The other ranks, as one channel knows them: a stream to each, and whether it still answers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import atp
from atp.collective.errors import CollectiveError
from atp.collective.inbox import EXACT, Inbox
from atp.collective.options import Options

REPORT_S = 0.002
"""The longest wait for one peer's report. Another one's may be there by then."""
REASON_S = 1.0
"""How long a rank whose stream has ended waits for the reason."""
ASK_S = 1.0
"""A rank that waits asks so often whether the others are there."""


class Peers:
    """The streams of a channel. In each step, ``begin`` is called first."""

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
        self.streams: dict[int, atp.Stream] = {}
        self._confirmed: dict[int, int] = {}
        """The last window with parts that the peer has confirmed."""
        self._msrs = [float(msr) for msr in options.groups.msrs]
        self._step = 0
        self._deadline = 0.0
        self._next_question = 0.0

    def begin(self, step: int, deadline: float) -> None:
        """``deadline``: the end of what the step may take, ``time.monotonic``."""
        self._step, self._deadline = step, deadline
        self._ask_later()

    def set_msrs(self, msrs: list[float]) -> None:
        """Sets the sampling rates of the next window."""
        for group, (before, now) in enumerate(zip(self._msrs, msrs, strict=True), start=1):
            is_exact = self._options.groups.msrs[group - 1] == 1
            if before != now and not is_exact:
                for stream in self.streams.values():
                    stream.set_msr(group, now)
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
            self.streams[peer].send_many(messages, group, copy=copy, timeout=left_s)
        except atp.TimedOutError as error:
            raise self._late(peer, f"reading step {self._step} of {self._name}") from error

    def end_window(self, peer: int) -> None:
        self.streams[peer].begin_end_window()

    def take_reports(self, peer: int, wait_s: float = 0.0) -> None:
        """Hands over what is known of lost messages. Waits for one report at most."""
        stream = self.streams[peer]
        try:
            report = stream.next_window(timeout=wait_s) if wait_s > 0 else stream.try_window()
        except atp.TimedOutError:
            return
        while report is not None:
            if report.window % self._windows == 0:
                self._confirmed[peer] = report.window
                self._on_report(peer, report)
            report = stream.try_window()

    def await_reports(
        self, window: int, what: str, then: Callable[[int], None], *, owes: bool = True
    ) -> None:
        """Waits until the peers have confirmed the parts that were sent as ``window``. Calls
        ``then`` for each peer that has. ``owes``: whether ``then`` sends something that the peers
        need."""
        waiting = list(self.streams)
        while waiting:
            for peer in list(waiting):
                self.take_reports(peer)
                if self._confirmed.get(peer, -1) >= window:
                    waiting.remove(peer)
                    then(peer)
            if not waiting:
                return
            self.check()
            # A rank that leaves now won't get the mean or the part that this one is about to send.
            if reason := self._reason(waiting if owes else [], patience_s=0.0):
                raise reason
            if not owes and not (waiting := [peer for peer in waiting if not self._is_done(peer)]):
                return
            if time.monotonic() > self._deadline:
                raise self._late(waiting[0], f"receipts for {what}")
            self.take_reports(waiting[0], REPORT_S)

    def _is_done(self, peer: int) -> bool:
        """Whether a peer to which nothing is owed has left: it had all parts, or it would have waited
        for them. Its report may be on the way."""
        if not self._inbox.has_left(peer):
            return False
        with contextlib.suppress(atp.Error):
            self.take_reports(peer, REASON_S)
        return True

    def check(self) -> None:
        """Raises if a peer doesn't answer: its host or process may be gone. One that has left is
        done, and needs no answer."""
        for peer, stream in self._present():
            try:
                stream.try_outcome()
            except atp.ShortError as error:
                reason = self._reason([peer], _patience_s(error))
                # It has left in the meantime, or another one has failed.
                if self._inbox.failure is not None:
                    raise self._inbox.failure from error
                if reason is None:
                    raise self._silent(peer, error) from error
        self._ask()

    def explained(self, error: atp.Error) -> BaseException:
        """An error of a stream, as one about its rank."""
        # One that has left may be done. Another one is more likely the cause.
        for peer, stream in [*self._present(), *self.streams.items()]:
            try:
                stream.try_outcome()
            except atp.Error as ended:
                return self._reason([peer], _patience_s(ended)) or self._silent(peer, ended)
        return self._inbox.failure or error

    def _present(self) -> list[tuple[int, atp.Stream]]:
        return [each for each in self.streams.items() if not self._inbox.has_left(each[0])]

    def _silent(self, peer: int, error: atp.Error) -> CollectiveError:
        return CollectiveError(f"rank {peer} doesn't answer: {error}")

    def _late(self, peer: int, what: str) -> CollectiveError:
        return CollectiveError(f"rank {peer} is too late with {what}: it may have stalled")

    def _reason(
        self, peers: Sequence[int], patience_s: float = REASON_S
    ) -> CollectiveError | None:
        """Why the stream to one of these ranks may have ended. A rank that leaves says so before it
        refuses the streams of others, but the receiving thread may hand it over later."""
        deadline = time.monotonic() + patience_s
        while True:
            left = [peer for peer in peers if self._inbox.has_left(peer)]
            # A rank that failed told the reason first, and then left.
            if self._inbox.failure is not None:
                return self._inbox.failure
            if left:
                return CollectiveError(
                    f"rank {left[0]} left before step {self._step} of {self._name} was over"
                )
            if time.monotonic() >= deadline:
                return None
            time.sleep(REPORT_S)

    def _ask(self) -> None:
        """Sends each rank an empty message now and then while this one waits.

        A process that died after it had got this rank's part owes no answer, so only a question
        shows its end.
        """
        if time.monotonic() < self._next_question:
            return
        self._ask_later()
        for _, stream in self._present():
            try:
                stream.try_send_many([b""], EXACT)
            except atp.Error:
                pass  # It has just ended: the next check says why.

    def _ask_later(self) -> None:
        self._next_question = time.monotonic() + min(ASK_S, self._options.peer_timeout_s / 4)


def _patience_s(error: atp.Error) -> float:
    """How long to wait for the reason of an error. A rank that left or failed said so before its
    port was closed."""
    return 0.0 if isinstance(error, atp.ShortError) and error.port_unreachable else REASON_S
