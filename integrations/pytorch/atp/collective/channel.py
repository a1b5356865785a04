"""One array that is reduced in every step: in PyTorch, a bucket. It has a stream to each rank.

A step of an all-reduce is two windows of each stream. The first one (an even number) has this
rank's part of the peer's shard. The second one has the mean of this rank's own shard, exactly. A
step of a reduce-scatter is the first window alone.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum

import numpy as np

import atp
from atp.collective import manifest, messages, values
from atp.collective.contribution import Contribution
from atp.collective.errors import CollectiveError
from atp.collective.inbox import EXACT, Inbox
from atp.collective.layout import Layout
from atp.collective.options import Options
from atp.collective.reduction import Reduction
from atp.collective.shard_mean import ShardMean
from atp.collective.stats import Stats
from atp.collective.values import Array

PIECE_BYTES = 1 << 20
"""The longest message of phase 2."""
REPORT_S = 0.002
"""The longest wait for one peer's report. Another one's may be there by then."""
REASON_S = 0.5
"""How long a rank whose stream has ended waits for the reason."""
ASK_S = 1.0
"""A rank that waits asks so often whether the others are there."""
NAME_MAX = 200
"""Characters of a name that ranks compare."""


class Operation(Enum):
    """What a step gives each rank."""

    ALL_REDUCE = "all-reduce"
    """The mean of the array."""
    MEAN_OF_SHARD = "reduce-scatter of the mean"
    """The mean of the rank's own shard."""
    SUM_OF_SHARD = "reduce-scatter of the sum"

    @property
    def windows(self) -> int:
        """Windows of a step."""
        return 2 if self is Operation.ALL_REDUCE else 1


@dataclass
class Step:
    """An array to reduce."""

    number: int
    array: Array
    done: Future[Array]
    operation: Operation = Operation.ALL_REDUCE


class Channel:
    """The streams of one array, and the thread that reduces it."""

    def __init__(
        self,
        name: str,
        layout: Layout,
        wire: str,
        windows: int,
        options: Options,
        rank: int,
        inbox: Inbox,
        open_streams: Callable[[dict[int, atp.Stream], int], None],
        stats: Stats,
        on_error: Callable[[BaseException], CollectiveError],
    ):
        self.name, self._layout, self._wire, self._options = name, layout, wire, options
        self._rank, self.inbox, self._stats, self._on_error = rank, inbox, stats, on_error
        self._open_streams = open_streams
        self.windows = windows
        """Windows of a step: the same in all steps, so that a window's number says what it has."""
        self.streams: dict[int, atp.Stream] = {}
        self._parts: dict[int, Contribution] = {}
        self._confirmed: dict[int, int] = {}
        """The last window with parts that the peer has confirmed."""
        self._means: list[ShardMean] = []
        self._msrs: list[float] = []
        self._window = 0
        self._step = 0
        self._next_question = 0.0
        self._steps: queue.SimpleQueue[Step | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"atp {name}", daemon=True)
        self._thread.start()

    @property
    def elements(self) -> int:
        return self._layout.elements

    def submit(self, step: Step) -> None:
        self._steps.put(step)

    def stop(self) -> None:
        """Ends the thread after the steps that were submitted."""
        self._steps.put(None)

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    @property
    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while (step := self._steps.get()) is not None:
            if not step.done.set_running_or_notify_cancel():
                continue
            try:
                reduced = self._reduce(step)
            except atp.Error as error:
                step.done.set_exception(self._on_error(self._explained(error)))
            except BaseException as error:  # Whatever it is, nobody may wait for ever.
                step.done.set_exception(self._on_error(error))
            else:
                step.done.set_result(reduced)
        self._refuse_the_rest()

    def _refuse_the_rest(self) -> None:
        """Steps that were submitted beside the end."""
        while not self._steps.empty():
            step = self._steps.get()
            if step is not None and step.done.set_running_or_notify_cancel():
                step.done.set_exception(CollectiveError("the collective is closed"))

    def _reduce(self, step: Step) -> Array:
        if not self._parts:
            self._open()
        self._step = step.number
        flat = step.array.reshape(-1)
        deadline = time.monotonic() + self._options.timeout_s
        self._ask_later()
        own = self._manifest(step, flat)
        if self.windows == 1:
            what = f"the step before step {step.number} of {self.name}"
            self._await_reports(self._window - 1, deadline, what, lambda peer: None)
        self._send_parts(step.number, flat, own)
        reduction = self._reduce_shard(step.number, flat, own, deadline)
        match step.operation:
            case Operation.ALL_REDUCE:
                whole = self._exchange(step.number, reduction.mean(), deadline)
                result = whole.reshape(step.array.shape)
            case Operation.MEAN_OF_SHARD:
                result = reduction.mean()
            case Operation.SUM_OF_SHARD:
                result = reduction.sum()
        result = self._checked(result.astype(flat.dtype, copy=False), step.number)
        self._window += self.windows
        self.inbox.forget_before(self._window)
        self._stats.add(reductions=1)
        return result

    def _checked(self, result: Array, step: int) -> Array:
        """Numbers may get too large in sums, and with what earlier steps owe."""
        if self._options.nonfinite == "error" and not values.are_finite(result, str(result.dtype)):
            raise CollectiveError(
                f"the result of step {step} of {self.name} is too large for {self._wire}: lower the "
                "learning rate, or set nonfinite='propagate' for a gradient scaler"
            )
        return result

    def _open(self) -> None:
        largest = max(shard.elements for shard in self._layout.shards)
        self._open_streams(self.streams, largest * values.item_bytes(self._wire))
        self._parts = {
            peer: Contribution(self._layout.shards[peer], self._options, self._wire, self._rank)
            for peer in self.streams
        }
        self._confirmed = dict.fromkeys(self.streams, -1)
        self._means = [
            ShardMean(shard, self._wire, is_whole=self._options.mean_share == 1)
            for shard in self._layout.shards
        ]
        self._msrs = [float(msr) for msr in self._options.groups.msrs]

    def _manifest(self, step: Step, flat: Array) -> bytes:
        return manifest.pack(
            ranks=len(self._layout.shards),
            name=self.name[:NAME_MAX],
            step=step.number,
            operation=step.operation.value,
            elements=self._layout.elements,
            type=str(flat.dtype),
            wire=self._wire,
            layout=self._layout.digest,
            msrs=self._options.msrs(step.number),
            # Also values that are too large for the elements of messages.
            nonfinite_values=not values.are_finite(flat, self._wire),
            **self._options.agreement(),
        )

    def _send_parts(self, step: int, flat: Array, own: bytes) -> None:
        """Phase 1: to each rank its shard of this rank's values."""
        for peer, stream in self.streams.items():
            shard, part = self._layout.shards[peer], self._parts[peer]
            self._set_msrs(step, stream)
            stream.send(own, EXACT)
            self._take_reports(peer)
            for batch in part.batches(flat[shard.start : shard.stop], self._seed(step, peer)):
                stream.send_many(batch.messages, batch.group)
                self._stats.add(bytes_sent=sum(map(len, batch.messages)))
            stream.begin_end_window()
        self._msrs = self._options.msrs(step)

    def _set_msrs(self, step: int, stream: atp.Stream) -> None:
        for group, (before, now) in enumerate(
            zip(self._msrs, self._options.msrs(step), strict=True), start=1
        ):
            is_exact = self._options.groups.msrs[group - 1] == 1
            if before != now and not is_exact:
                stream.set_msr(group, now)

    def _take_reports(self, peer: int, wait_s: float = 0.0) -> None:
        """Tells the peer's contribution what was lost, as far as that is known. Waits for one report
        at most."""
        stream = self.streams[peer]
        try:
            report = stream.next_window(timeout=wait_s) if wait_s > 0 else stream.try_window()
        except atp.TimedOutError:
            return
        while report is not None:
            if report.window % self.windows == 0:
                self._confirmed[peer] = report.window
                self._parts[peer].on_report(report)
            report = stream.try_window()

    def _await_reports(
        self, window: int, deadline: float, what: str, then: Callable[[int], None]
    ) -> None:
        """Waits until the peers have confirmed the parts that were sent as ``window``. Calls
        ``then`` for each peer that has."""
        waiting = list(self.streams)
        while waiting:
            for peer in list(waiting):
                self._take_reports(peer)
                if self._confirmed[peer] >= window:
                    waiting.remove(peer)
                    then(peer)
            if not waiting:
                return
            self._check_streams()
            self.inbox.check()
            if time.monotonic() > deadline:
                raise CollectiveError(
                    f"rank {waiting[0]} is too late with receipts for {what}: it may have stalled"
                )
            self._take_reports(waiting[0], REPORT_S)

    def _reduce_shard(
        self, step: int, flat: Array, own: bytes, deadline: float
    ) -> Reduction:
        """Sums this rank's shard, in the order of ranks: the result is the same in every run."""
        shard = self._layout.shards[self._rank]
        wire = values.wire_type(self._wire)
        seed = self._seed(step, self._rank)
        ranks = len(self._layout.shards)
        reduction = Reduction(shard, self._options, self._wire, ranks, seed)
        for rank in range(ranks):
            if rank == self._rank:
                reduction.add_own(flat[shard.start : shard.stop])
                continue
            what = f"its part of step {step} of {self.name}"
            began = time.monotonic()
            received = self.inbox.take_window(
                rank, self._window, deadline, what, self._check_streams
            )
            self._stats.add(waited_s=time.monotonic() - began)
            exact = [m for m in received if m.group == EXACT]
            their = bytes(exact[0]) if exact else b""
            manifest.check(their, rank, own, self._rank, self.name)
            chunks = [m for m in received if m.group != EXACT] + exact[1:]
            rows, arrived = messages.unpack(chunks, shard, wire, rank)
            self._stats.add(chunks=shard.chunks, chunks_arrived=int(arrived.sum()))
            reduction.add(rows, arrived)
        return reduction

    def _exchange(self, step: int, mean: Array, deadline: float) -> Array:
        """Phase 2: this rank's shard to all, and theirs."""
        encoded, own = self._means[self._rank].write(mean, self._options.share_of_mean(step))
        pieces = [encoded[at : at + PIECE_BYTES] for at in range(0, len(encoded), PIECE_BYTES)]

        def send(peer: int) -> None:
            stream = self.streams[peer]
            # The array isn't used again, so nothing changes while it is sent.
            stream.send_many(pieces, EXACT, copy=False)
            stream.begin_end_window()
            self._stats.add(bytes_sent=len(encoded))

        # Switches would let the mean pass this rank's part, and the peer needs the part first.
        what = f"its part of step {step} of {self.name}"
        self._await_reports(self._window, deadline, what, send)
        result = np.empty(self._layout.elements, own.dtype)
        for rank, shard in enumerate(self._layout.shards):
            if rank == self._rank:
                # Rounded as at all other ranks.
                result[shard.start : shard.stop] = own
                continue
            what = f"its mean of step {step} of {self.name}"
            began = time.monotonic()
            received = self.inbox.take_exact(
                rank, self._window + 1, self._means[rank].length, deadline, what,
                self._check_streams,
            )  # fmt: skip
            self._stats.add(waited_s=time.monotonic() - began)
            data = b"".join(message.data for message in received)
            expected = self._means[rank].length(received)
            if len(data) != expected:
                raise CollectiveError(f"rank {rank} sent {len(data)} bytes instead of {expected}")
            result[shard.start : shard.stop] = self._means[rank].read(data)
        return result

    def _check_streams(self) -> None:
        """Raises if a peer doesn't answer: its host or process may be gone."""
        for peer, stream in self.streams.items():
            try:
                stream.try_outcome()
            except atp.ShortError as error:
                silent = CollectiveError(f"rank {peer} doesn't answer: {error}")
                raise self._reason([peer]) or silent from error
        self._ask()

    def _explained(self, error: atp.Error) -> BaseException:
        """An error of a stream, as one about its rank."""
        if reason := self._reason(list(self.streams)):
            return reason
        for peer, stream in self.streams.items():
            try:
                stream.try_outcome()
            except atp.Error as ended:
                return CollectiveError(f"rank {peer} doesn't answer: {ended}")
        return error

    def _reason(self, peers: list[int]) -> CollectiveError | None:
        """Why the stream to one of these ranks may have ended. A rank that leaves says so before it
        refuses the streams of others, but the receiving thread may hand it over later."""
        deadline = time.monotonic() + REASON_S
        while time.monotonic() < deadline:
            left = [peer for peer in peers if self.inbox.has_left(peer)]
            # A rank that failed told the reason first, and then left.
            if self.inbox.failure is not None:
                return self.inbox.failure
            if left:
                return CollectiveError(
                    f"rank {left[0]} left before step {self._step} of {self.name} was over"
                )
            time.sleep(REPORT_S)
        return None

    def _ask(self) -> None:
        """Sends each rank an empty message now and then while this one waits.

        A process that died after it had got this rank's part owes no answer, so only a question
        shows its end.
        """
        if time.monotonic() < self._next_question:
            return
        self._ask_later()
        for stream in self.streams.values():
            stream.try_send_many([b""], EXACT)

    def _ask_later(self) -> None:
        self._next_question = time.monotonic() + min(ASK_S, self._options.peer_timeout_s / 4)

    def _seed(self, step: int, owner: int) -> int:
        """The same at all ranks."""
        return step * 64 + owner * 2
