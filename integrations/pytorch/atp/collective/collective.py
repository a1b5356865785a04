"""The collective: a receiver for all ranks, and a channel for each array."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Literal

import atp
from atp.collective.channel import Channel, Step
from atp.collective.ends import Ends
from atp.collective.errors import CollectiveError, described, one_line
from atp.collective.inbox import EXACT, Inbox, is_hello
from atp.collective.layout import Region, integer
from atp.collective.options import Options
from atp.collective.plan import Kind, Operation, planned
from atp.collective.shutdown import ABORT_TIMEOUT_S, PeerJob, abort, shut_down
from atp.collective.stats import Stats
from atp.collective.store import Store
from atp.collective.values import Array

RANKS_MAX = 16
BATCH = 256


class Collective:
    """Means of arrays over all ranks. All ranks reduce the same arrays in the same order.

    Raises ``CollectiveError`` if a rank is missing, or if ranks disagree. After an error no more
    arrays are reduced. A ``with`` block ends all threads.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        ranks: int,
        options: Options | None = None,
        *,
        name: str = "default",
    ):
        if not 2 <= ranks <= RANKS_MAX or not 0 <= rank < ranks:
            raise CollectiveError(f"rank {rank} of {ranks}: there are 2 to {RANKS_MAX} ranks")
        self.rank, self.ranks = rank, ranks
        self.options = options or Options()
        self.stats = Stats()
        self._channels: dict[str, Channel] = {}
        self._kinds: dict[str, Kind] = {}
        self._inboxes: dict[int, Inbox] = {}
        self._lock = threading.RLock()
        self._failure: CollectiveError | None = None
        self._is_closed = False
        self._counts: dict[str, int] = {}
        self._abort_jobs: dict[int, atp.Job] = {}
        """The jobs of a rank that failed before its first step."""
        self._process = os.getpid()
        self._ends = Ends(store, f"atp.collective/{name}", rank, ranks, self.options)
        self._receiver, self._rendezvous = self._ends.receiver, self._ends.rendezvous
        self._thread = threading.Thread(target=self._receive, name="atp receive", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def all_reduce(
        self,
        name: str,
        array: Array,
        regions: Sequence[Region] | None = None,
        step: int | None = None,
        *,
        wire: str | None = None,
    ) -> Future[Array]:
        """The mean of ``array`` over all ranks, as a new array of its shape and type: ``float64``,
        ``float32`` or ``float16``, in the order of C. Half precision is summed in single precision.

        ``name``, the type and the regions are the same in every step: they stand for jobs. Don't
        change the array before the future is done. ``step`` counts from 0; by default, by name.
        ``wire`` is the type of the elements in messages, if it isn't the array's and ``Options``
        have none.

        Raises ``CollectiveError`` for a wrong argument, and if an earlier step has failed. The
        future raises it if this one fails.
        """
        kind = Kind.of(Operation.ALL_REDUCE, array, regions, None, wire)
        return self._submit(name, array, step, kind)

    def reduce_scatter(
        self,
        name: str,
        array: Array,
        regions: Sequence[Region] | None = None,
        step: int | None = None,
        *,
        shards: Sequence[int] | None = None,
        op: Literal["mean", "sum"] = "mean",
        wire: str | None = None,
    ) -> Future[Array]:
        """The mean or sum over all ranks of this rank's shard of ``array``, as a new flat array.

        ``shards`` has the elements of each rank's shard, which follow each other in the flat
        array. By default they are equal, or differ by one. The rest is as in ``all_reduce``:
        a name is that of one operation or the other.
        """
        operations = {"mean": Operation.MEAN_OF_SHARD, "sum": Operation.SUM_OF_SHARD}
        if op not in operations:
            raise CollectiveError(f"op={op!r}: it is one of {', '.join(operations)}")
        kind = Kind.of(operations[op], array, regions, shards, wire)
        return self._submit(name, array, step, kind)

    def _submit(self, name: str, array: Array, step: int | None, kind: Kind) -> Future[Array]:
        if step is not None:
            step = integer(step, "step")
            if step < 0:
                raise CollectiveError(f"step={step}: steps count from 0")
        done: Future[Array] = Future()
        with self._lock:
            channel = self._channel(name, kind)
            step = self._counts.get(name, -1) + 1 if step is None else step
            self._counts[name] = step
            channel.submit(Step(step, array, done, kind.operation))
        return done

    @property
    def failure(self) -> CollectiveError | None:
        """Why no more arrays are reduced."""
        return self._failure

    def close(self) -> None:
        """Ends all threads. Waits for steps that were submitted, for ``timeout_s`` and
        ``peer_timeout_s`` at most, and then for some seconds to tell the other ranks. A thread in a
        user's group function ends when that returns."""
        if os.getpid() != self._process:
            return  # A forked child has no threads of its parent.
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            channels = list(self._channels.values())
            for channel in channels:
                channel.stop()
        atexit.unregister(self.close)
        deadline = time.monotonic() + self.options.timeout_s + self.options.peer_timeout_s
        try:
            for channel in channels:
                channel.join(max(0.0, deadline - time.monotonic()))
            if any(channel.is_alive for channel in channels):
                self._fail(CollectiveError(f"rank {self.rank} closed while steps were waiting"))
                deadline = time.monotonic() + ABORT_TIMEOUT_S
                for channel in channels:
                    channel.join(max(0.0, deadline - time.monotonic()))
            peer_timeout_s = self.options.peer_timeout_s
            shut_down(self._peer_jobs(), lambda: self._failure is not None, peer_timeout_s)
        finally:
            self._receiver.close()
            self._thread.join()

    def __enter__(self) -> Collective:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: Any) -> None:
        try:
            if error is not None and self._failure is None:
                self._fail(CollectiveError(described(error)))
        finally:
            self.close()

    def _channel(self, name: str, kind: Kind) -> Channel:
        """The array's channel. The caller holds the lock."""
        if self._is_closed:
            raise CollectiveError("the collective is closed")
        if self._failure is not None:
            raise self._failure
        if name in self._kinds:
            kind.require_like(self._kinds[name], name)
        else:
            self._channels[name] = self._new_channel(name, kind)
            self._kinds[name] = kind
        return self._channels[name]

    def _new_channel(self, name: str, kind: Kind) -> Channel:
        serial = len(self._channels)
        if serial >= self._ends.arrays_max:
            raise CollectiveError(f"more than {serial} arrays: use their names again")
        return Channel(
            planned(name, kind, self.options, self.ranks),
            self.rank,
            self.options,
            self._inbox(serial),
            lambda jobs, part_bytes: self._ends.open(jobs, serial, part_bytes),
            self.stats,
            self._fail,
        )

    def _inbox(self, serial: int) -> Inbox:
        inbox = self._inboxes.get(serial)
        if inbox is None:
            inbox = self._inboxes.setdefault(serial, Inbox(self._rendezvous.hello))
            if self._failure is not None:
                inbox.fail(self._failure)
        return inbox

    def _receive(self) -> None:
        """The thread that hands events to the channels."""
        try:
            while True:
                for event in self._receiver.recv_batch(BATCH):
                    self._on_event(event)
        except atp.ClosedError:
            return
        except BaseException as error:  # No caller may wait forever, whatever the error is.
            self._fail(error)

    def _on_event(self, event: atp.Event) -> None:
        place = self._rendezvous.place(event.job, event.source)
        if place is None:
            return
        serial, rank = place
        if serial >= self._ends.arrays_max:
            return
        match event:
            case atp.Message():
                if event.group == EXACT and self._rendezvous.is_abort(event.data):
                    self._fail(self._rendezvous.abort_reason(event.data, rank), is_relayed=True)
                    return
                inbox = self._inboxes.get(serial)
                # A rank may begin an array before this one does.
                if inbox is None and is_hello(event, self._rendezvous.hello):
                    inbox = self._inbox(serial)
                if not (inbox and inbox.add(rank, event)):
                    self.stats.add(messages_refused=1)
            case atp.WindowEnded(summary=summary):
                if inbox := self._inboxes.get(serial):
                    inbox.end_window(rank, event.run, summary.window)
            case atp.Finished():
                if inbox := self._inboxes.get(serial):
                    inbox.leave(rank, event.run)

    def _fail(self, error: BaseException, is_relayed: bool = False) -> CollectiveError:
        """Ends all channels, and sends the other ranks the reason. Returns the first failure.

        ``is_relayed``: the reason came from another rank.
        """
        if isinstance(error, CollectiveError):
            failure = error
        elif isinstance(error, atp.Error):
            # The error of the transport, with its place.
            failure = CollectiveError(f"rank {self.rank}: {one_line(str(error))}")
        else:
            failure = CollectiveError(f"rank {self.rank} failed: {described(error)}")
            failure.__cause__ = error
        with self._lock:
            if self._failure is not None:
                return self._failure
            self._failure = failure
        for inbox in list(self._inboxes.values()):
            inbox.fail(failure)
        # A rank relays the reason: else others see it leave before they know why.
        if not is_relayed:
            self._open_abort_jobs()
        message = self._rendezvous.abort_message(str(failure))
        jobs = [each.job for each in self._peer_jobs()]
        abort(jobs, message, 0.0 if is_relayed else ABORT_TIMEOUT_S)
        return failure

    def _open_abort_jobs(self) -> None:
        """Others may wait for the first step of a rank that never begins one."""
        with self._lock:
            reached = {peer for channel in self._channels.values() for peer in list(channel.peers.jobs)}
        try:
            self._ends.open(self._abort_jobs, 0, 0, without=reached)
        except atp.Error:
            pass

    def _peer_jobs(self) -> list[PeerJob]:
        """Every job, with the state of its peer."""
        with self._lock:
            channels = list(self._channels.values())
        jobs = [
            PeerJob(job, partial(channel.inbox.has_left, peer))
            for channel in channels
            for peer, job in list(channel.peers.jobs.items())
        ]
        for peer, job in list(self._abort_jobs.items()):
            jobs.append(PeerJob(job, partial(self._inbox(0).has_left, peer)))
        return jobs
