"""The collective: a receiver for all ranks, and a channel for each array."""

from __future__ import annotations

import atexit
import ipaddress
import os
import threading
import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import atp
from atp.collective import values
from atp.collective.channel import Channel, Operation, Step
from atp.collective.errors import CollectiveError, described, one_line
from atp.collective.inbox import EXACT, Inbox
from atp.collective.layout import Layout, Region
from atp.collective.meeting import Meeting, meet, own_address
from atp.collective.options import Options
from atp.collective.parting import FAREWELL_S, LOOK_S, Tie, part
from atp.collective.stats import Stats
from atp.collective.store import Store
from atp.collective.values import Array

RANKS_MAX = 16
STREAMS_MAX = 16_384
"""Streams that a receiver takes. One host may have three quarters of them."""
MESSAGE_BYTES_MAX = 2 << 20
"""The longest messages are pieces of means, and chunks."""
BATCH = 256
BUFFER_BYTES = 4 << 20


@dataclass(frozen=True)
class Kind:
    """The operation and the layout of an array, the same in all of its steps."""

    operation: Operation
    regions: Sequence[Region] | None
    shards: Sequence[int] | None
    wire: str | None

    def is_cut_like(self, other: Kind) -> bool:
        return (
            _listed(self.regions) == _listed(other.regions)
            and _listed(self.shards) == _listed(other.shards)
            and self.wire == other.wire
        )


def _listed(parts: Sequence[Any] | None) -> list[Any] | None:
    return None if parts is None else list(parts)


class AllReduce:
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
        self._store, self._prefix = store, f"atp.collective/{name}"
        self._counts: dict[str, int] = {}
        self._farewells: dict[int, atp.Stream] = {}
        """Streams of a rank that failed before its first step."""
        self._arrays_max = STREAMS_MAX * 3 // 4 // (ranks - 1)
        self._process = os.getpid()
        self._receiver = self._bind()
        self._meeting = self._meet()
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
        """The mean of ``array`` over all ranks, as a new array of its shape and type.

        ``name`` and the regions are the same in every step: they stand for streams. Don't change
        the array before the future is done. ``step`` counts from 0; by default, by name. ``wire``
        is the type of the elements, if it isn't the array's and ``Options`` have none.
        """
        return self._submit(name, array, step, Kind(Operation.ALL_REDUCE, regions, None, wire))

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
        return self._submit(name, array, step, Kind(operations[op], regions, shards, wire))

    def _submit(self, name: str, array: Array, step: int | None, kind: Kind) -> Future[Array]:
        done: Future[Array] = Future()
        with self._lock:
            channel = self._channel(name, array, kind)
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
        ``peer_timeout_s`` at most."""
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
                for channel in channels:
                    channel.join(FAREWELL_S)
            part(self._ties(), lambda: self._failure is not None, self.options.peer_timeout_s)
        finally:
            self._receiver.close()
            self._thread.join()

    def __enter__(self) -> AllReduce:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: Any) -> None:
        try:
            if error is not None and self._failure is None:
                self._fail(CollectiveError(described(error)))
        finally:
            self.close()

    def _daemon(self) -> dict[str, Any]:
        socket_path = self.options.control_socket
        return {} if socket_path == "default" else {"control_socket": socket_path}

    def _bind(self) -> atp.Receiver:
        host = self.options.address or own_address()
        try:
            receiver = atp.Receiver(
                (host, 0),
                sources_max=STREAMS_MAX,
                message_bytes_max=MESSAGE_BYTES_MAX,
                **self._daemon(),
            )
        except atp.Error as error:
            raise CollectiveError(f"can't receive at {host}: {error}; set the address") from error
        if ipaddress.ip_address(receiver.address[0]).is_unspecified:
            receiver.close()
            raise CollectiveError(
                f"address={host!r} stands for all addresses of this host: give the one that the "
                "other ranks reach"
            )
        return receiver

    def _meet(self) -> Meeting:
        try:
            return meet(
                self._store, self._prefix, self.rank, self.ranks,
                self._receiver.address, self.options.timeout_s,
            )  # fmt: skip
        except BaseException:
            self._receiver.close()
            raise

    def _channel(self, name: str, array: Array, kind: Kind) -> Channel:
        """The array's channel. The caller holds the lock."""
        if self._is_closed:
            raise CollectiveError("the collective is closed")
        if self._failure is not None:
            raise self._failure
        channel = self._channels.get(name)
        if channel is None:
            channel = self._new_channel(name, array, kind)
            self._channels[name], self._kinds[name] = channel, kind
        if channel.windows != kind.operation.windows:
            raise CollectiveError(
                f"{name} is the name of another operation: give this {kind.operation.value} another "
                "name"
            )
        if channel.elements != array.size:
            raise CollectiveError(
                f"{name} has {array.size} elements, and had {channel.elements}: give an array of "
                "another length another name"
            )
        if not kind.is_cut_like(self._kinds[name]):
            raise CollectiveError(
                f"{name} has other regions, shards or types than before: give it another name"
            )
        return channel

    def _new_channel(self, name: str, array: Array, kind: Kind) -> Channel:
        serial = len(self._channels)
        if serial >= self._arrays_max:
            raise CollectiveError(f"more than {self._arrays_max} arrays: use their names again")
        if str(array.dtype) not in values.TYPES:
            raise CollectiveError(f"{name} is of {array.dtype}, not of {', '.join(values.TYPES)}")
        wire = self.options.wire or kind.wire or str(array.dtype)
        if wire not in values.WIRES:
            raise CollectiveError(f"{name} is of {wire}, not of {', '.join(values.WIRES)}")
        regions = [Region(array.size)] if kind.regions is None else kind.regions
        if not self.options.groups.by_name:
            regions = [Region(region.elements, "", region.exact) for region in regions]
        width = max(1, self.options.chunk_bytes // values.item_bytes(wire))
        layout = Layout(regions, self.ranks, width, kind.shards)
        if layout.elements != array.size:
            raise CollectiveError(
                f"the regions of {name} have {layout.elements} elements, the array {array.size}"
            )

        def open_streams(streams: dict[int, atp.Stream], part_bytes: int) -> None:
            self._open_streams(streams, serial, part_bytes)

        return Channel(
            name, layout, wire, kind.operation.windows, self.options, self.rank,
            self._inbox(serial), open_streams, self.stats, self._fail,
        )  # fmt: skip

    def _open_streams(
        self,
        streams: dict[int, atp.Stream],
        serial: int,
        part_bytes: int,
        without: Collection[int] = (),
    ) -> None:
        """A stream to each rank, the next rank first: not all ranks begin with the same one."""
        msrs = self.options.groups.msrs
        groups = [atp.Group(EXACT, name="exact")]
        groups += [atp.Group(at, msr=msr) for at, msr in enumerate(msrs, start=1)]
        options: dict[str, Any] = self._daemon()
        if self.options.rate_max_bytes_per_s is not None:
            options["rate_max_bytes_per_s"] = self.options.rate_max_bytes_per_s
        for distance in range(1, self.ranks):
            peer = (self.rank + distance) % self.ranks
            if peer in without:
                continue
            streams[peer] = atp.Stream(
                self._meeting.addresses[peer],
                id=self._meeting.job(serial, self.rank),
                groups=groups,
                overlap_windows=True,
                name_lost=self.options.missing == "feedback",
                # Both phases of two steps: no rank waits for its own library.
                buffer_bytes=BUFFER_BYTES + 4 * part_bytes,
                peer_timeout=self.options.peer_timeout_s,
                requests="refuse",
                **options,
            )

    def _inbox(self, serial: int) -> Inbox:
        inbox = self._inboxes.get(serial)
        if inbox is None:
            inbox = self._inboxes.setdefault(serial, Inbox())
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
        except BaseException as error:  # Whatever it is, nobody may wait for ever.
            self._fail(error)

    def _on_event(self, event: atp.Event) -> None:
        place = self._meeting.place(event.job, event.source)
        if place is None:
            return
        serial, rank = place
        if serial >= self._arrays_max:
            return
        match event:
            case atp.Message():
                if event.group == EXACT and self._meeting.is_farewell(event.data):
                    self._fail(self._meeting.reason(event.data, rank), is_told=True)
                    return
                self._inbox(serial).add(rank, event)
            case atp.WindowEnded(summary=summary):
                self._inbox(serial).end_window(rank, summary.window)
            case atp.Finished():
                self._inbox(serial).leave(rank)

    def _fail(self, error: BaseException, is_told: bool = False) -> CollectiveError:
        """Ends all channels, and tells the other ranks. Returns the first failure."""
        if isinstance(error, CollectiveError):
            failure = error
        elif isinstance(error, atp.Error):
            failure = CollectiveError(f"rank {self.rank} lost its connection: {one_line(str(error))}")
        else:
            failure = CollectiveError(f"rank {self.rank} failed: {described(error)}")
            failure.__cause__ = error
        with self._lock:
            if self._failure is not None:
                return self._failure
            self._failure = failure
        for inbox in list(self._inboxes.values()):
            inbox.fail(failure)
        # A rank that was told tells it again: else others see it leave before they know why.
        if not is_told:
            self._open_farewells()
        self._tell_all(failure, 0.0 if is_told else FAREWELL_S)
        return failure

    def _open_farewells(self) -> None:
        """Others may wait for the first step of a rank that never begins one."""
        with self._lock:
            reached = {peer for channel in self._channels.values() for peer in list(channel.streams)}
        try:
            self._open_streams(self._farewells, 0, 0, without=reached)
        except atp.Error:
            pass

    def _tell_all(self, failure: CollectiveError, patience_s: float) -> None:
        untold = [tie.stream for tie in self._ties()]
        deadline = time.monotonic() + patience_s
        while untold := [stream for stream in untold if not self._tell(stream, failure)]:
            if time.monotonic() >= deadline:
                return
            time.sleep(LOOK_S)

    def _tell(self, stream: atp.Stream, failure: CollectiveError) -> bool:
        """Sends the reason. Whether that is done: the stream may have to wait for a window."""
        try:
            if not stream.try_send_many([self._meeting.farewell(str(failure))], EXACT):
                stream.try_window()
                return False
            stream.begin_finish()
        except Exception:  # The stream has ended.
            pass
        return True

    def _ties(self) -> list[Tie]:
        """Every stream, with what is known of its peer."""
        with self._lock:
            channels = list(self._channels.values())
        ties = [
            Tie(stream, partial(channel.inbox.has_left, peer))
            for channel in channels
            for peer, stream in list(channel.streams.items())
        ]
        for peer, stream in list(self._farewells.items()):
            ties.append(Tie(stream, partial(self._inbox(0).has_left, peer)))
        return ties
