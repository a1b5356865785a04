"""Options, reports and events. The native module makes objects of these classes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import IPv4Address, IPv6Address
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict

from atp._error import UnknownError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from atp._native import Message

Address: TypeAlias = str | tuple[str, int] | tuple[str, int, int, int]
"""``"host:port"``, a tuple of host and port, or an IPv6 address of the module ``socket``.

The host of a link-local address has its interface: ``"[fe80::2%eth0]:4747"``.
"""

Seconds: TypeAlias = float | timedelta
"""A time: seconds, or a ``timedelta``."""


class HasArrayInterface(Protocol):
    """An array. Before Python 3.12 numpy doesn't say that its arrays are buffers."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


MessageData: TypeAlias = "Buffer | HasArrayInterface"
"""``bytes``, or any other object with the buffer protocol."""


Order: TypeAlias = Literal["unknown", "ordered", "shuffled"]
"""The order of messages: shuffled, or that of the data, such as time."""


@dataclass(frozen=True, slots=True)
class Group:
    """Messages of a job with a minimal sampling rate of their own. At 1 the group is exact."""

    id: int
    msr: float = 1.0
    messages: int | None = None
    """N in each window, if it is known."""
    name: str = ""
    """For people, at most 32 bytes: the receiver gets it in ``Started``."""
    order: Order = "unknown"
    """The order in which the messages are sent, which the receiver gets in ``Started``. The library
    doesn't change it. Of an incomplete group whose messages aren't shuffled, answers warn."""
    shuffle_buffer: int | None = None
    """The number of shuffled messages among which each one was drawn; ``None`` for all of them."""


@dataclass(frozen=True, slots=True)
class RequestBounds:
    """Requests of the receiver that a job obeys. A request beyond a bound sets the bound."""

    msr_min: float = 0.0
    msr_max: float = 1.0
    may_end: bool = False
    """Whether the receiver may end the job."""


class JobOptions(TypedDict, total=False):
    """The options of a job. Those that are left out have the library's defaults."""

    id: int | str | None
    """A number or a name. Default: the job of the process's cgroup if a daemon knows one, else a
    random id."""
    messages: int | None
    """N of group 0 in each window. Default: counted at the end."""
    msr: float
    """The minimal sampling rate of group 0. Default: 1."""
    order: Order
    """The order of the messages of group 0, as in ``Group``. Default: unknown."""
    groups: Iterable[Group]
    """The job's groups. With them, group 0 is there if it is listed, or set by ``msr``,
    ``messages`` or ``order``. Default: group 0 only."""
    try_every_message: bool
    """The job isn't complete before every message was tried once. Default: off."""
    window_deadline: Seconds | None
    """The most time of a window, or of a job without windows, from its first message. If N isn't
    announced, it takes effect at ``end_window`` or ``finish``. Default: no limit."""
    control_socket: str | PathLike[str] | None
    """The daemon's socket; ``None`` works without a daemon. Default: the default daemon if
    it takes the job, else none."""
    rate_max_bytes_per_s: int
    """Without a daemon: the port's rate. Default: 125,000,000 (1 Gbit/s)."""
    peer_timeout: Seconds
    """Give up after this long without an answer. Default: 10 s."""
    refused_timeout: Seconds
    """Give up after this long if the peer's host says that nothing listens on the port. Default:
    ``peer_timeout``, which is its maximum."""
    timer_granularity: Seconds
    """Assumed timer granularity of the hosts, 1 us to 25 ms. Default: 1 ms."""
    buffer_bytes: int
    """Bytes of messages in the library before ``send`` waits. Default: 4 MiB."""
    payload_bytes: int | None
    """Message bytes per packet. Default: as many as the path's MTU allows."""
    message_bytes_max: int
    """The longest message. Default: 64 MiB."""
    mrdf: bool
    """Whether to send the message with the least remaining data first. Default: on."""
    packing: bool
    """Whether short messages share packets. Default: on."""
    initial_window_packets: int
    """The most packets in flight until the peer or its host has answered; a few more are until the
    first advice. 0: no limit. Default: 16."""
    rank_by_bytes: bool
    """MRDF compares messages by bytes instead of by packets. Default: off."""
    rules: str
    """Without a daemon: the rate law. Default: the law ``"yield"``."""
    windows: bool
    """Whether a job may end several windows although every group announces N; other jobs don't need
    it. Without it such a job ends with its first window, and ``end_window`` raises
    ``OptionsError``. Default: off."""
    overlap_windows: bool
    """Whether a window may begin while the last one ends, at most two at a time. It includes
    ``windows``. Default: off."""
    timeout: Seconds | None
    """How long the opening may take, with the resolution of a name: ``TimedOutError`` after that.
    Default: no limit."""
    name_lost: bool
    """Whether reports name the lost messages: ``GroupReport.lost_ids``. Default: off."""
    requests: Literal["obey", "refuse"] | RequestBounds
    """What the receiver may ask for. Default: ``"obey"``."""


class ReceiverOptions(TypedDict, total=False):
    """The options of a receiver. Those that are left out have the library's defaults."""

    jobs: int | str | Iterable[int | str]
    """Accept these jobs. Default: any job."""
    peers: str | IPv4Address | IPv6Address | Iterable[str | IPv4Address | IPv6Address]
    """Accept senders at these addresses. Default: any address."""
    sources_max: int
    """Senders at once. Default 256."""
    message_bytes_max: int
    """The longest message. Default 64 MiB."""
    incomplete_bytes_max: int
    """Bytes of incomplete messages per sender. Default 64 MiB."""
    memory_bytes_max: int
    """Bytes of incomplete and waiting messages and of records, of all senders. Default 256 MiB."""
    buffer_bytes: int
    """Bytes of complete messages that wait for ``recv``. Default 64 MiB."""
    linger: Seconds
    """How long a closed receiver stays for a sender that may not know of its end. Default 2 s."""
    line_rate_bytes_per_s: int
    """Without a daemon: the rate of this host's line, of which senders are advised their share.
    Default 0: unknown, and no advice."""
    queue_depth_packets: int
    """Without a daemon: the packets that each approximate queue holds at the switch's port to this
    host. Default 7; the profile ``default`` has 96."""
    control_socket: str | PathLike[str] | None
    """The daemon's socket; ``None`` works without a daemon. Default: the default daemon, if it
    runs."""


class WindowsOptions(TypedDict, total=False):
    """The options of a receiver of windows. Those that are left out have the library's defaults."""

    peers: str | IPv4Address | IPv6Address | Iterable[str | IPv4Address | IPv6Address]
    """Accept senders at these addresses. Default: any address."""
    sources_max: int
    """Senders at once, each of one partition. Default 256."""
    message_bytes_max: int
    """The longest record. Default 64 MiB."""
    incomplete_bytes_max: int
    """Bytes of incomplete messages per sender. Default 64 MiB."""
    buffer_bytes: int
    """Bytes of complete messages that wait to be sorted into windows. Default 64 MiB."""
    linger: Seconds
    """How long a closed receiver stays for a sender that may not know of its end. Default 2 s."""
    control_socket: str | PathLike[str] | None
    """The daemon's socket; ``None`` works without a daemon. Default: the default daemon, if it
    runs."""


class WindowSenderOptions(TypedDict, total=False):
    """The options of a sender of windows. Those that are left out have the library's defaults."""

    id: int | str | None
    """The id of the job: a number or a name. Default: the job of the process's cgroup if a daemon
    knows one, else a random id."""
    control_socket: str | PathLike[str] | None
    """The daemon's socket; ``None`` works without a daemon. Default: the default daemon if
    it takes the job, else none."""
    rate_max_bytes_per_s: int
    """Without a daemon: the port's rate. Default: 125,000,000 (1 Gbit/s)."""
    peer_timeout: Seconds
    """Give up after this long without an answer. Default: 10 s."""
    refused_timeout: Seconds
    """Give up after this long if the peer's host says that nothing listens on the port. Default:
    ``peer_timeout``, which is its maximum."""
    buffer_bytes: int
    """Bytes of messages in the library before ``send`` waits. Default: 4 MiB."""
    payload_bytes: int | None
    """Message bytes per packet. Default: as many as the path's MTU allows."""
    message_bytes_max: int
    """The longest record; longer ones are ``refused`` of their window. Default: 64 MiB."""
    rules: str
    """Without a daemon: the rate law. Default: the law ``"yield"``."""


@dataclass(frozen=True, slots=True)
class UnknownIds:
    """Ids of lost messages that aren't known. No list, and not false either: reading it as one
    raises ``UnknownError``. ``isinstance`` tells it from the ``tuple`` of those that are known."""

    reason: Literal["not_asked", "end_unconfirmed", "names_missing"]
    """The job was opened without ``name_lost``; its end isn't confirmed; or receipts named fewer
    messages than the receiver has."""
    sentence: str = field(compare=False)
    """The reason in words."""

    if not TYPE_CHECKING:  # For a type checker, it has none of these.

        def _refuse(self, *_):
            raise UnknownError(self.sentence)

        __bool__ = __iter__ = __len__ = __contains__ = __getitem__ = __reversed__ = _refuse

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True)
class GroupReport:
    """The outcome of one group, at the sender."""

    group: int
    messages: int
    """N, the number of messages."""
    delivered: int
    """Messages known to be delivered."""
    needed: int
    """The messages that must be delivered: ``ceil(MSR * N)``."""
    lost: int
    msr: float
    lost_ids: tuple[range, ...] | UnknownIds
    """The ids of the messages not delivered, if ``name_lost`` asked for them. ``UnknownIds`` also
    if receipts didn't name all that the receiver has: they were lost, or it was restarted."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of a group's lane at one moment."""

    at_s: float
    group: int
    tlr: float
    """Target loss rate, 0 to 1."""
    rate_bytes_per_s: int
    loss: float
    """Loss of the last evaluated epoch, 0 to 1."""
    queue: int
    rtt_us: float | None
    """The smoothed round-trip time; ``None`` before the first measurement."""


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a job, at the sender."""

    job: int
    datapath: str
    """``ebpf`` or ``userspace``."""
    pacing: str
    """``fq``, ``htb`` or ``userspace``."""
    elapsed_s: float
    packets_sent: int
    packets_retransmitted: int
    messages_packed: int
    packets_arrived: int
    refusals: int
    bytes_sent: int
    groups: tuple[GroupReport, ...]
    windows: int
    windows_hurried: int
    """Windows that yielded less to exact traffic, to meet their deadlines."""
    canceled: bool
    requests: int
    """Requests of the receiver that the job has handled, obeyed or not."""
    ended_by_receiver: bool
    """The receiver asked for the end. The groups then need no message."""
    timeline: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class WindowReport:
    """The outcome of a window, at the sender."""

    window: int
    complete: bool
    """Every group has the messages that it needs. If not, the window's deadline had passed."""
    groups: tuple[GroupReport, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a running job, at most 50 ms old."""

    messages: int
    """Messages accepted by ``send``, of all groups and windows."""
    delivered: int
    """Messages known to be delivered, of the current window."""
    rate_bytes_per_s: int
    packets_sent: int
    complete: bool
    """The job, or the current window, needs no more messages."""


@dataclass(frozen=True, slots=True)
class GroupArrivals:
    """The progress of one group, at the receiver."""

    group: int
    delivered: int
    """Complete messages, also those that ``recv`` has not returned yet."""


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """The progress of the current window of one sender's job."""

    source: tuple[str, int]
    job: int
    run: int
    """The run of the job, as events have it."""
    window: int
    groups: tuple[GroupArrivals, ...]
    """The groups of which a message has arrived."""


@dataclass(frozen=True, slots=True)
class ShortGroup:
    """A group with fewer delivered messages than it needs."""

    group: int
    delivered: int
    needed: int


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """The outcome of one group, at the receiver."""

    group: int
    messages: int
    needed: int
    delivered: int
    lost: tuple[range, ...]
    """The ids of the messages that were not delivered."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of one sender's job, or of a window of it."""

    window: int
    complete: bool
    messages: int
    delivered: int
    groups: tuple[GroupSummary, ...]


@dataclass(frozen=True, slots=True)
class GroupTerms:
    """The terms of one group."""

    group: int
    name: str
    exact: bool
    """All messages are delivered, in order."""
    messages: int | None
    """N, if the sender knows it already."""
    msr: float
    order: Order
    """As the sender states it."""
    shuffle_buffer: int | None
    """The number of shuffled messages among which each one was drawn; ``None`` for all of them."""
    shortest_first: bool
    """Short messages come first, and the messages differ in length: no fair sample arrives."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one sender's job, or of a window of it."""

    window: int
    groups: tuple[GroupTerms, ...]


@dataclass(frozen=True, slots=True)
class Started:
    """A sender has told the terms of its job, or of the job's next window."""

    source: tuple[str, int]
    job: int
    run: int
    """The run of the job, a number from 1 on that the receiver gives to no other run. Only the
    number tells a sender from a restarted one, and from a host that forges its address and job."""
    terms: Terms


@dataclass(frozen=True, slots=True)
class TermsChanged:
    """The terms have changed, or the sender has answered a request."""

    source: tuple[str, int]
    job: int
    run: int
    terms: Terms


@dataclass(frozen=True, slots=True)
class WindowEnded:
    """A sender has ended a window of its job. Another window follows."""

    source: tuple[str, int]
    job: int
    run: int
    summary: Summary


@dataclass(frozen=True, slots=True)
class Finished:
    """A sender has ended its job."""

    source: tuple[str, int]
    job: int
    run: int
    summary: Summary


@dataclass(frozen=True, slots=True)
class Refusals:
    """Packets that a receiver has refused, by reason."""

    malformed: int
    """Packets that aren't ATP's, are damaged, or contradict earlier packets of their message."""
    unwanted: int
    """Packets of jobs or addresses that the receiver doesn't admit."""
    too_large: int
    """Packets of messages or jobs beyond the receiver's limits."""
    no_room: int
    """Packets beyond the limits of senders and memory. Their senders try again later."""
    forgotten: int
    """Packets of senders that were silent for too long."""


@dataclass(frozen=True, slots=True)
class ReceiverStats:
    """Counters of a receiver."""

    packets_received: int
    bytes: int
    acks_sent: int
    refused: int
    """Packets refused, for any reason."""
    refusals: Refusals
    """Packets refused, by reason."""
    ignored: int
    """Packets that mean nothing any more, or not yet: most are of jobs that have ended."""
    messages: int
    sources: int
    evicted: int
    memory_bytes: int


Event: TypeAlias = "Message | Started | TermsChanged | WindowEnded | Finished"
"""An event of a receiver."""
