"""Answers with confidence intervals, from the messages of a lossy job that arrived.

A job sends N messages in each stratum (one sender's part of one group), and some of them arrive.
Messages are clusters of records, so the intervals compare messages. Strata are numbers of the
caller's choice; ``confidence`` lies between 0 and 1.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar, SupportsFloat, final

from typing_extensions import Unpack

from atp._answers import Action as Action
from atp._answers import Answers as Answers
from atp._answers import Delivery as Delivery
from atp._answers import End as End
from atp._answers import Lower as Lower
from atp._answers import Raise as Raise
from atp._answers import Ranking as Ranking
from atp._answers import Report as Report
from atp._answers import Wait as Wait
from atp._errors import AnswerError as AnswerError
from atp._errors import QueryError as QueryError
from atp._types import Address as Address
from atp._types import JobOptions as JobOptions
from atp._types import MessageData as MessageData
from atp._types import Order as Order
from atp._types import Report as JobReport

@final
class Estimate:
    """An answer, and the interval that contains the true one with the stated confidence."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float:
        """Infinite, as ``high``, if the messages that arrived don't bound it."""
    @property
    def high(self) -> float: ...
    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
    @property
    def reach(self) -> float:
        """The distance from ``value`` to the farther end: an interval of skewed values isn't
        symmetric."""
    @property
    def standard_error(self) -> float:
        """The standard error of ``value``; infinite if nothing shows how messages vary."""
    @property
    def confidence(self) -> float: ...
    @property
    def bound(self) -> str | None:
        """``"at least"`` or ``"at most"`` for a minimum, a maximum or a number of different values:
        those of the rows that arrived bound those of all rows. ``None`` otherwise."""
    @property
    def degrees_of_freedom(self) -> float:
        """The degrees of freedom of Student's t; infinite if every message arrived."""
    @property
    def messages(self) -> int:
        """Messages that arrived."""
    @property
    def messages_sent(self) -> int | None:
        """Messages that were sent; ``None`` if a stratum hasn't said so."""
    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt the interval. Each names its remedy."""
    def contains(self, value: float) -> bool: ...

@final
class Query:
    """A query of one table, such as ``avg(dep_delay) by carrier``, or in SQL ``SELECT avg(x),
    count(*) WHERE y > 3 GROUP BY a, b``."""

    def __new__(cls, text: str) -> Query: ...
    @property
    def functions(self) -> tuple[str, ...]:
        """The functions, in words."""
    @property
    def by(self) -> tuple[str, ...]:
        """The columns of the keys."""

@final
class Answering:
    """The answer of a query, at any time of its job."""

    def __new__(cls, query: Query | str, columns: Sequence[str]) -> Answering: ...
    @staticmethod
    def of_csv(query: Query | str, header: MessageData | str) -> Answering:
        """A query of a table in CSV, whose columns ``header`` names: one record."""
    @property
    def query(self) -> Query: ...
    @property
    def messages(self) -> int:
        """Messages that arrived."""
    def push_message(
        self, stratum: int, rows: Iterable[Iterable[str | SupportsFloat | None]]
    ) -> None:
        """Adds the rows of one message, each with its values in the order of the columns. ``None``,
        an empty text, ``NA``, ``N/A``, ``null`` and ``\\N`` are missing values."""
    def push_csv(self, stratum: int, message: MessageData | str) -> None:
        """Adds the rows of one message: whole records of CSV in UTF-8, without a header."""
    def push_totals(self, stratum: int, message: MessageData | str) -> None:
        """Takes the totals of a stratum's table: message ``Table.TOTALS_MESSAGE`` of the group
        ``Table.HEADER_GROUP``. A count of all rows is then exact, and other counts and sums vary
        less. A message that isn't totals is a ``QueryError``."""
    def set_messages_sent(self, stratum: int, messages: int) -> None:
        """Sets N of a stratum, as an event tells it. A smaller N replaces an announced one."""
    def set_delivery(self, stratum: int, delivery: Delivery) -> None: ...
    def answers(self, confidence: float = 0.95) -> Answers: ...
    def overall(self, confidence: float = 0.95) -> Estimate | None:
        """The answer over all keys of the first function: a sum, count, mean or ratio."""

@final
class Sample:
    """The messages of a job that arrived, summed up."""

    def __new__(cls) -> Sample: ...
    @property
    def messages(self) -> int: ...
    @property
    def messages_sent(self) -> int | None: ...
    def push(self, stratum: int, records: int, total: float) -> None:
        """Adds a message of so many records, whose values add up to ``total``."""
    def push_pair(self, stratum: int, denominator: float, numerator: float) -> None:
        """Adds a message with the totals of two columns, for ``ratio``."""
    def set_messages_sent(self, stratum: int, messages: int) -> None: ...
    def set_exact_records(self, stratum: int, records: float) -> None:
        """Sets the exact number of records in all messages of a stratum, arrived or not."""
    def set_delivery(self, stratum: int, delivery: Delivery) -> None: ...
    def merge(self, other: Sample) -> None:
        """Adds the messages of another part of the job. No message may be in both."""
    def sum(self, confidence: float = 0.95) -> Estimate: ...
    def count(self, confidence: float = 0.95) -> Estimate: ...
    def mean(self, confidence: float = 0.95) -> Estimate: ...
    def ratio(self, confidence: float = 0.95) -> Estimate: ...

@final
class GroupBy:
    """Sums, counts and means by key, of ``keys_max`` keys at most."""

    def __new__(cls, keys_max: int) -> GroupBy: ...
    @property
    def messages(self) -> int: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...
    def push_message(self, stratum: int, records: Iterable[tuple[str, float]]) -> None:
        """Adds the records of one message: keys with values."""
    def push_pairs(self, stratum: int, records: Iterable[tuple[str, float, float]]) -> None:
        """Adds keys with a denominator and a numerator, of which ``mean`` is the ratio."""
    def set_messages_sent(self, stratum: int, messages: int) -> None: ...
    def set_delivery(self, stratum: int, delivery: Delivery) -> None: ...
    def merge(self, other: GroupBy) -> None: ...
    def keys(self) -> tuple[str, ...]: ...
    def sum(self, key: str, confidence: float = 0.95) -> Estimate: ...
    def count(self, key: str, confidence: float = 0.95) -> Estimate: ...
    def mean(self, key: str, confidence: float = 0.95) -> Estimate: ...

@final
class Quantiles:
    """Quantiles by key, of ``keys_max`` keys at most."""

    def __new__(cls, keys_max: int) -> Quantiles: ...
    @property
    def messages(self) -> int: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...
    def push_message(self, stratum: int, records: Iterable[tuple[str, float]]) -> None: ...
    def set_messages_sent(self, stratum: int, messages: int) -> None: ...
    def set_delivery(self, stratum: int, delivery: Delivery) -> None: ...
    def merge(self, other: Quantiles) -> None: ...
    def keys(self) -> tuple[str, ...]: ...
    def quantile(self, key: str, rank: float, confidence: float = 0.95) -> Estimate:
        """The value below which the share ``rank`` of the key's records lies."""

@final
class Top:
    """The keys with the largest totals, of ``keys_max`` keys at most."""

    def __new__(cls, keys_max: int) -> Top: ...
    @property
    def messages(self) -> int: ...
    def push_message(self, stratum: int, records: Iterable[tuple[str, float]]) -> None:
        """Adds keys with what they add to their totals: 1 to rank keys by records."""
    def set_messages_sent(self, stratum: int, messages: int) -> None: ...
    def set_delivery(self, stratum: int, delivery: Delivery) -> None: ...
    def merge(self, other: Top) -> None: ...
    def largest(self, ranks: int, confidence: float = 0.95) -> Ranking: ...

@final
class Planner:
    """Turns an accepted error into requests to the senders of a job.

    It looks at no answer, and so asks for no end, before ``sources`` sources are known: those of
    ``source_started``, ``source_known`` and ``source_ended``."""

    def __new__(
        cls,
        *,
        relative: float | None = None,
        absolute: float | None = None,
        confidence: float = 0.95,
        sources: int | None = None,
        end_in_doubt: bool = False,
    ) -> Planner:
        """``end_in_doubt``: ends also while a warning puts an answer in doubt. By default the plan
        then continues up to the senders' own MSRs. In both cases the error isn't met."""
    def source_started(self, stratum: int, msr: float) -> Action | None:
        """A source starts, with its N (if announced) and its MSR. Leave out exact groups."""
    def source_known(self, stratum: int) -> None:
        """Counts a source without requests for it: one of an exact group, or one whose first
        message came before its start. The plan waits for its end, too."""
    def source_ending(self, stratum: int) -> None:
        """The sender has handed over its last message: its MSR may only fall from now on."""
    def source_ended(self, stratum: int) -> None:
        """No message of the source will arrive any more."""
    def is_look_due(self, messages: int) -> bool:
        """Whether to call ``look``. ``messages``: the arrived messages of all sources."""
    def look(self, ask: Callable[[float], list[Estimate]]) -> list[Action]:
        """Looks at the answers, which ``ask`` computes for a level of confidence. Look only when it
        is due: each look costs confidence. While ``ask`` runs no other look is due, and another
        call returns an empty list."""
    def look_at(self, answering: Answering) -> list[Action]:
        """Looks at each row of a query, if a look is due."""
    def answers(self, answering: Answering) -> Answers:
        """The answers of a planned query. After the plan's end their intervals are as much wider
        as the looks cost."""
    def overall(self, answering: Answering) -> Estimate | None:
        """The answer of ``Answering.overall``, with the plan's intervals."""
    @property
    def report(self) -> Report | None:
        """The result, once the error was met or all sources ended."""

@final
class Table:
    """A CSV file with a header, as messages of whole records: ``rows`` each, or as many as fit a
    packet. The records are shuffled, by ``seed`` if it is given, unless they stay ``ordered``."""

    ROWS_GROUP: ClassVar[int]
    """The group in which queries expect the records."""
    HEADER_GROUP: ClassVar[int]
    """That of ``heads``: exact."""
    HEADER_MESSAGE: ClassVar[int]
    """The message of the header in its group."""
    TOTALS_MESSAGE: ClassVar[int]
    """The message of the totals in that group, for ``Answering.push_totals``."""

    def __new__(
        cls,
        csv: MessageData | str,
        *,
        rows: int | None = None,
        ordered: bool = False,
        seed: int | None = None,
    ) -> Table: ...
    @property
    def header(self) -> bytes: ...
    @property
    def heads(self) -> list[bytes]:
        """The header, and the totals: the messages of the group ``HEADER_GROUP`` in their order."""
    @property
    def messages(self) -> list[bytes]:
        """Send them without MRDF, which would deliver the short ones."""
    @property
    def order(self) -> Order: ...
    @property
    def long_records(self) -> int:
        """Records with a value of several lines: a stray quote may have made one of several."""
    @property
    def note(self) -> str | None:
        """What to tell the user: of such records, or of a first line that may be no header."""
    def __len__(self) -> int: ...

def send_csv(
    peer: Address,
    csv: MessageData | str | Path,
    *,
    rows: int | None = None,
    ordered: bool = False,
    **options: Unpack[JobOptions],
) -> JobReport:
    """Sends a table to a receiver that answers a query of it: text, bytes, or the file at a
    ``Path``. The records are shuffled and sent without MRDF, so that those that arrive are a fair
    sample. With ``ordered`` they keep their order, and incomplete answers warn. Records with a
    value of several lines have a warning (``warnings``): a stray quote may have made one of
    several. ``options`` are those of ``Job``, such as ``msr``, without ``groups``, ``messages`` and
    ``order``."""
