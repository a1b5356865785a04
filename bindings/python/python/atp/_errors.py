"""The exceptions: one class for each error of the library, and some of the package's own."""

from __future__ import annotations

from atp._error import Error
from atp._types import Report, ShortGroup


class ClosedError(Error, ValueError):
    """A job, a receiver or a message is used after its end."""


class SplitError(Error, RuntimeError):
    """The job has taken all messages of ``send_many``, but their ids aren't in a row."""


class ForkedError(Error, RuntimeError):
    """A job or a receiver is used in a forked child of the process that opened it."""


class TimedOutError(Error, TimeoutError):
    """A call has reached its ``timeout``. The job goes on."""

    sent: tuple[range, ...]
    """The ids of the messages of ``send_many`` that the job has taken. Send only the others again,
    in their order. Empty for other calls."""


class ShortError(Error):
    """The job ended below its minimal sampling rate."""

    peer: tuple[str, int]
    cause: str
    """``peer_silent``, ``not_reading``, ``refused``, ``no_room``, ``receiver_lost_state``,
    ``path_narrowed``, ``cannot_send``, ``abandoned`` or ``other``."""
    port_unreachable: bool
    """The peer's host said that nothing listens on the port."""
    host_unreachable: bool
    """A router said that the peer's host is unreachable."""
    groups: tuple[ShortGroup, ...]
    """The groups that are short. Empty if only the receiver's confirmation is missing."""
    report: Report
    """What was delivered."""


class MsrError(Error, ValueError):
    """The minimal sampling rate is not between 0 and 1."""


class MsrRefusedError(Error, ValueError):
    """The minimal sampling rate can't be changed."""


class NoMessagesError(Error, ValueError):
    """The job was announced with no messages."""


class TooLargeError(Error, ValueError):
    """The message is longer than the job allows."""

    bytes: int
    bytes_max: int


class NoPeersError(Error, ValueError):
    """There is no address to connect to."""


class NoGroupError(Error, LookupError):
    """The job was opened without this group."""

    group: int


class EndedError(Error, ValueError):
    """The job's input was ended, or the job was canceled."""


class EndedByReceiverError(Error, ValueError):
    """The receiver has ended the job: ``finish`` gives the report."""


class WindowEndingError(Error, RuntimeError):
    """The window is ending: take its report before sending on."""


class TooManyError(Error, ValueError):
    """The group has its announced number of messages already."""

    messages: int


class OptionsError(Error, ValueError):
    """Options of the job are invalid or contradict each other."""


class PeerError(Error, ValueError):
    """The address can't be a receiver's."""


class RateMaxError(Error, ValueError):
    """The highest rate is too low."""


class PathTooNarrowError(Error, ConnectionError):
    """The path's MTU is too small."""


class NameResolutionError(Error, OSError):
    """A name with a port has no address."""


class SocketError(Error, OSError):
    """A UDP socket could not be opened, or failed."""


class DaemonError(Error, ConnectionError):
    """The daemon can't be reached, or refused."""


class SharedMemoryError(Error, OSError):
    """The memory that the daemon shared can't be mapped."""


class StateError(Error, OSError):
    """The state file of a receiver of windows is damaged, is used by another one, or can't be read
    or written."""


class ThreadError(Error, OSError):
    """A background thread could not be started, or ended unexpectedly."""


class AnswerError(Error, ValueError):
    """An input of ``atp.answers`` that has no answer, or not yet."""


class QueryError(AnswerError):
    """A query or a row that has no answer."""
