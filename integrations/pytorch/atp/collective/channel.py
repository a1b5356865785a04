"""One array that is reduced in every step: in PyTorch, a bucket. It has a job to each rank.

Each job begins with a window that has the hello alone. A step of an all-reduce is two windows of
each job. The first one has this rank's part of the peer's shard. The second one has the mean of
this rank's own shard, exactly. A step of a reduce-scatter is the first window alone.
"""

from __future__ import annotations

import math
import queue
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

import atp
from atp.collective import limits, manifest, messages, values
from atp.collective.contribution import Contribution, chunk_seed
from atp.collective.errors import CollectiveError
from atp.collective.inbox import EXACT, Budget, Inbox
from atp.collective.options import Options
from atp.collective.peers import PARTS_WINDOW, Peers
from atp.collective.plan import Operation, Plan
from atp.collective.reduction import Reduction
from atp.collective.shard_mean import ShardMean
from atp.collective.stats import Stats
from atp.collective.values import Array

PIECE_BYTES = 1 << 20
"""The longest message of phase 2."""
NAME_MAX = 200
"""Characters of a name that ranks compare."""


@dataclass
class Step:
    """An array to reduce."""

    number: int
    array: Array
    done: Future[Array]
    operation: Operation = Operation.ALL_REDUCE


class Channel:
    """The thread that reduces one array."""

    def __init__(
        self,
        plan: Plan,
        rank: int,
        options: Options,
        inbox: Inbox,
        open_jobs: Callable[[dict[int, atp.Job], int], None],
        stats: Stats,
        on_error: Callable[[BaseException], CollectiveError],
    ):
        """``open_jobs(jobs, part_bytes)`` opens a job to each rank, and adds it to
        ``jobs``. ``part_bytes``: the length of the longest part."""
        self._plan, self._rank, self._options = plan, rank, options
        self._layout, self._name, self._wire = plan.layout, plan.name, plan.wire
        self.inbox, self._open_jobs, self._stats = inbox, open_jobs, stats
        self._on_error = on_error
        inbox.budget = _budget(plan)
        self.peers = Peers(plan.name, plan.windows, options, inbox, self._on_report)
        self._parts: dict[int, Contribution] = {}
        self._means: list[ShardMean] = []
        self._window = PARTS_WINDOW
        self._steps: queue.SimpleQueue[Step | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"atp {plan.name}", daemon=True)
        self._thread.start()

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
                step.done.set_exception(self._on_error(self.peers.lost_ranks.explained(error)))
            except BaseException as error:  # No caller may wait forever, whatever the error is.
                step.done.set_exception(self._on_error(error))
            else:
                step.done.set_result(reduced)
        self._refuse_the_rest()

    def _refuse_the_rest(self) -> None:
        """Fails the steps that were submitted while the collective closed."""
        while not self._steps.empty():
            step = self._steps.get()
            if step is not None and step.done.set_running_or_notify_cancel():
                step.done.set_exception(CollectiveError("the collective is closed"))

    def _reduce(self, step: Step) -> Array:
        flat = step.array.reshape(-1)
        deadline = time.monotonic() + self._options.timeout_s
        self.peers.begin(step.number, deadline)
        if not self._parts:
            self._open()
            self.peers.send_hellos()
        own = self._manifest(step, flat)
        if self._plan.windows == 1:
            what = f"the step before step {step.number} of {self._name}"
            self.peers.await_reports(self._window - 1, what, lambda peer: None)
        self._send_parts(step.number, flat, own)
        reduction = self._reduce_shard(step.number, flat, own, deadline)
        match step.operation:
            case Operation.ALL_REDUCE:
                result = self._exchange(step.number, reduction.mean(), deadline)
            case Operation.MEAN_OF_SHARD:
                result = reduction.mean()
            case Operation.SUM_OF_SHARD:
                result = reduction.sum()
        result = self._checked(result, flat.dtype, step.number)
        self._window += self._plan.windows
        self.inbox.forget_before(self._window)
        self._stats.add(reductions=1)
        is_whole = step.operation is Operation.ALL_REDUCE
        return result.reshape(step.array.shape) if is_whole else result

    def _checked(self, result: Array, kind: np.dtype[np.generic], step: int) -> Array:
        """The flat ``result`` as the array's type. Sums of finite numbers may be infinite."""
        if self._options.nonfinite == "error" and not values.are_finite(result, str(kind)):
            raise self._too_large_result(result, kind, step)
        with np.errstate(over="ignore"):
            return result.astype(kind, copy=False)

    def _too_large_result(
        self, result: Array, kind: np.dtype[np.generic], step: int
    ) -> CollectiveError:
        own = result.dtype if not np.isfinite(result).all() else kind
        what = f"the result of step {step} of {self._name}"
        return CollectiveError(limits.in_result(what, str(own)))

    def _too_large(
        self, what: str, error: limits.TooLarge, owner: int, is_rotated: bool = False
    ) -> CollectiveError:
        """The error about a value that is sent: an element of the shard of ``owner``."""
        element = self._layout.shards[owner].start + error.element
        # A rotated value mixes many parameters, so the error names none.
        parameter = "" if is_rotated else limits.parameter_at(self._plan.regions, element)
        return CollectiveError(limits.in_messages(what, error.value, parameter, self._wire))

    def _open(self) -> None:
        largest = max(shard.elements for shard in self._layout.shards)
        self._open_jobs(self.peers.jobs, largest * values.item_bytes(self._wire))
        self._parts = {
            peer: Contribution(self._layout.shards[peer], self._options, self._wire, self._rank)
            for peer in self.peers.jobs
        }
        self._means = [
            ShardMean(
                shard,
                self._wire,
                is_whole=self._options.mean_share == 1,
                is_strict=self._options.nonfinite == "error",
            )
            for shard in self._layout.shards
        ]

    def _on_report(self, peer: int, report: atp.WindowReport) -> None:
        unknown = self._parts[peer].on_report(report)
        if unknown and self._stats.chunks_unknown == 0:
            warnings.warn(
                f"rank {peer} didn't tell which of {unknown} chunks of {self._name} arrived: the "
                "next step has the share of them that was lost (Stats.chunks_unknown)",
                RuntimeWarning,
                stacklevel=1,
            )
        self._stats.add(chunks_unknown=unknown)

    def _manifest(self, step: Step, flat: Array) -> bytes:
        return manifest.pack(
            ranks=len(self._layout.shards),
            name=self._name[:NAME_MAX],
            step=step.number,
            operation=step.operation.value,
            elements=self._layout.elements,
            type=str(flat.dtype),
            wire=self._wire,
            layout=self._layout.digest,
            msrs=self._options.msrs(step.number),
            unfit=self._unfit(flat),
            **self._options.agreement(),
        )

    def _unfit(self, flat: Array) -> tuple[float, str] | None:
        """A value that messages can't hold, and its parameter's name."""
        if self._options.nonfinite == "propagate":
            return None  # Without a pass over all values.
        unfit = limits.first_unfit(flat, self._wire)
        if unfit is None:
            return None
        return unfit[0], limits.parameter_at(self._plan.regions, unfit[1])

    def _send_parts(self, step: int, flat: Array, own: bytes) -> None:
        """Phase 1: to each rank its shard of this rank's values."""
        self.peers.set_msrs(self._options.msrs(step))
        for peer, part in self._parts.items():
            shard = self._layout.shards[peer]
            self.peers.send(peer, [self.inbox.hello + own])
            self.peers.take_reports(peer)
            try:
                for batch in part.batches(flat[shard.start : shard.stop], chunk_seed(step, peer)):
                    self.peers.send(peer, batch.messages, batch.group)
                    self._stats.add(bytes_sent=sum(map(len, batch.messages)))
            except limits.TooLarge as error:
                is_rotated = self._options.missing == "hadamard"
                how = "rotated by 'hadamard'" if is_rotated else "with lost values of earlier steps"
                what = f"{self._name} of rank {self._rank} in step {step}, {how},"
                raise self._too_large(what, error, peer, is_rotated) from None
            self.peers.end_window(peer)

    def _reduce_shard(
        self, step: int, flat: Array, own: bytes, deadline: float
    ) -> Reduction:
        """Sums this rank's shard, its own values first, then in the order of ranks: the result is
        the same in every run."""
        shard = self._layout.shards[self._rank]
        wire = values.wire_type(self._wire)
        seed = chunk_seed(step, self._rank)
        ranks = len(self._layout.shards)
        reduction = Reduction(shard, self._options, self._wire, ranks, seed)
        reduction.begin(flat[shard.start : shard.stop])
        for rank in range(ranks):
            if rank == self._rank:
                continue
            what = f"its part of step {step} of {self._name}"
            began = time.monotonic()
            received = self.inbox.take_window(
                rank, self._window, deadline, what, self.peers.lost_ranks.raise_if_lost
            )
            self._stats.add(waited_s=time.monotonic() - began)
            exact = [m for m in received if m.group == EXACT]
            their = bytes(exact[0]).removeprefix(self.inbox.hello) if exact else b""
            manifest.check(their, rank, own, self._rank, self._name)
            chunks = [m for m in received if m.group != EXACT] + exact[1:]
            rows, arrived = messages.unpack(chunks, shard, wire, rank)
            self._stats.add(chunks=shard.chunks, chunks_arrived=int(arrived.sum()))
            reduction.add(rows, arrived)
        return reduction

    def _exchange(self, step: int, mean: Array, deadline: float) -> Array:
        """Phase 2: this rank's shard to all, and theirs."""
        try:
            encoded, own = self._means[self._rank].write(mean, self._options.share_of_mean(step))
        except limits.TooLarge as error:
            if not math.isfinite(error.value):  # All parts were finite.
                raise self._too_large_result(mean, mean.dtype, step) from None
            what = f"the mean of step {step} of {self._name}"
            raise self._too_large(what, error, self._rank) from None
        pieces = [encoded[at : at + PIECE_BYTES] for at in range(0, len(encoded), PIECE_BYTES)]

        def send(peer: int) -> None:
            # The array isn't used again, so nothing changes while it is sent.
            self.peers.send(peer, pieces, copy=False)
            self.peers.end_window(peer)
            self._stats.add(bytes_sent=len(encoded))

        # Switches would let the mean pass this rank's part, and the peer needs the part first.
        what = f"its part of step {step} of {self._name}"
        self.peers.await_reports(self._window, what, send, owes=len(encoded) > 0)
        result = np.empty(self._layout.elements, own.dtype)
        for rank, shard in enumerate(self._layout.shards):
            if rank == self._rank:
                # Rounded as at all other ranks.
                result[shard.start : shard.stop] = own
                continue
            what = f"its mean of step {step} of {self._name}"
            began = time.monotonic()
            received = self.inbox.take_exact(
                rank, self._window + 1, self._means[rank].length, deadline, what,
                self.peers.lost_ranks.raise_if_lost,
            )  # fmt: skip
            self._stats.add(waited_s=time.monotonic() - began)
            data = b"".join(message.data for message in received)
            expected = self._means[rank].length(received)
            if len(data) != expected:
                raise CollectiveError(f"rank {rank} sent {len(data)} bytes instead of {expected}")
            result[shard.start : shard.stop] = self._means[rank].read(data)
        return result


def _budget(plan: Plan) -> Budget:
    """The most that a rank sends in one window: a manifest and all chunks of a shard, or its
    mean."""
    item_bytes = values.item_bytes(plan.wire)
    chunk_bytes = max(messages.HEAD_BYTES + shard.width * item_bytes for shard in plan.layout.shards)
    all_bytes = 2 * manifest.BYTES_MAX + plan.layout.chunks * chunk_bytes
    return Budget(2 + plan.layout.chunks + all_bytes // PIECE_BYTES, all_bytes)
