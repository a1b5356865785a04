"""Where a rank notices that another rank is lost: ``LostRankDetector.raise_if_lost``.

A rank calls it whenever it waits. The three signs of a lost rank, and where each is found:

| sign | error | found by |
|---|---|---|
| a job to the rank ended: timeout, or a closed port | doesn't answer | ``raise_if_lost`` |
| the rank ended its job before it sent everything | left before | ``Inbox``, ``reason`` |
| the rank answers, but sends nothing before the deadline | is too late | ``Inbox``, ``Peers`` |

A rank that fails sends an abort message with the reason. Then that reason is the error.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import atp
from atp.collective.errors import CollectiveError
from atp.collective.inbox import EXACT, Inbox

POLL_S = 0.002
REASON_TIMEOUT_S = 1.0
"""How long a rank whose job has ended waits for the reason."""
KEEPALIVE_S = 1.0
"""The interval between the keepalives of a rank that waits."""


class LostRankDetector:
    """Whether the other ranks of one channel still answer. In each step, ``begin`` is called
    first."""

    def __init__(
        self, name: str, peer_timeout_s: float, inbox: Inbox, jobs: Mapping[int, atp.Job]
    ):
        """``jobs``: the job to each rank, which the channel opens later."""
        self._name, self._inbox, self._jobs = name, inbox, jobs
        self._keepalive_s = min(KEEPALIVE_S, peer_timeout_s / 4)
        self._next_keepalive = 0.0
        self._step = 0

    def begin(self, step: int) -> None:
        self._step = step
        self._delay_keepalives()

    def raise_if_lost(self) -> None:
        """Raises if a rank doesn't answer: its host or process may have died. A rank that has left
        is done, and needs no answer."""
        for peer, job in self._remaining():
            try:
                job.try_outcome()
            except atp.ShortError as error:
                reason = self.reason([peer], _reason_timeout_s(error))
                # The rank has left in the meantime, or another one has failed.
                if self._inbox.failure is not None:
                    raise self._inbox.failure from error
                if reason is None:
                    raise _lost(peer, error) from error
        self._send_keepalives()

    def explained(self, error: atp.Error) -> BaseException:
        """An error of a job, as one about its rank."""
        # A rank that has left may be done. Another one is more likely the cause.
        for peer, job in [*self._remaining(), *self._jobs.items()]:
            try:
                job.try_outcome()
            except atp.Error as ended:
                return self.reason([peer], _reason_timeout_s(ended)) or _lost(peer, ended)
        return self._inbox.failure or error

    def reason(self, peers: Sequence[int], timeout_s: float) -> CollectiveError | None:
        """Why the job to one of ``peers`` may have ended. A rank that leaves ends its own
        jobs before it refuses those of others, but the receiving thread may hand that over
        later."""
        deadline = time.monotonic() + timeout_s
        while True:
            left = [peer for peer in peers if self._inbox.has_left(peer)]
            # A rank that failed sent the reason first, and then left.
            if self._inbox.failure is not None:
                return self._inbox.failure
            if left:
                return CollectiveError(
                    f"rank {left[0]} left before step {self._step} of {self._name} was over"
                )
            if time.monotonic() >= deadline:
                return None
            time.sleep(POLL_S)

    def _remaining(self) -> list[tuple[int, atp.Job]]:
        """The ranks that haven't left, and the jobs to them."""
        return [each for each in self._jobs.items() if not self._inbox.has_left(each[0])]

    def _send_keepalives(self) -> None:
        """Sends each rank an empty message now and then while this one waits.

        A process that died after it had received this rank's part owes no answer. Only a keepalive
        shows its death.
        """
        if time.monotonic() < self._next_keepalive:
            return
        self._delay_keepalives()
        for _, job in self._remaining():
            try:
                job.try_send_many([b""], EXACT)
            except atp.Error:
                pass  # The job has just ended: the next check says why.

    def _delay_keepalives(self) -> None:
        self._next_keepalive = time.monotonic() + self._keepalive_s


def _lost(peer: int, error: atp.Error) -> CollectiveError:
    return CollectiveError(f"rank {peer} doesn't answer: {error}")


def _reason_timeout_s(error: atp.Error) -> float:
    """How long to wait for the reason of an error. A rank that left or failed said so before its
    port was closed."""
    is_closed = isinstance(error, atp.ShortError) and error.port_unreachable
    return 0.0 if is_closed else REASON_TIMEOUT_S
