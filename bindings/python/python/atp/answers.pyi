"""Answers with confidence intervals, from the messages of a lossy job that arrived.

A job sends N messages in each stratum (one sender's part of one group), and some of them arrive.
Messages are clusters of records, so the intervals compare messages. Strata are numbers of the
caller's choice; ``confidence`` lies between 0 and 1.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, final

from atp._answers import Action as Action
from atp._answers import Answers as Answers
from atp._answers import Delivery as Delivery
from atp._answers import End as End
from atp._answers import Key as Key
from atp._answers import Lower as Lower
from atp._answers import Number as Number
from atp._answers import Raise as Raise
from atp._answers import Ranking as Ranking
from atp._answers import Report as Report
from atp._answers import Wait as Wait
from atp._errors import AnswerError as AnswerError
from atp._errors import QueryError as QueryError
from atp._tables import send_csv as send_csv
from atp._tables import send_dataframe as send_dataframe
from atp._types import MessageData as MessageData
from atp._types import Order as Order

@final
class Estimate:
    """An answer, and the interval that contains the true one with the stated confidence."""

    @property
    def value(self) -> float:
        """The answer, in its column's unit."""
    @property
    def low(self) -> float:
        """Infinite, as ``high``, if the messages that arrived don't bound it."""
    @property
    def high(self) -> float:
        """The upper end of the interval."""
    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
    @property
    def reach(self) -> float:
        """The distance from ``value`` to the farther end: an interval of skewed values isn't
        symmetric."""
    @property
    def brief(self) -> str:
        """The answer and its interval, short: ``12.63 ± 0.75``, ``12.63 (12.01 to 13.88)`` or, for
        a bound, ``at least 12.63``."""
    @property
    def standard_error(self) -> float:
        """The standard error of ``value``; infinite if nothing shows how messages vary."""
    @property
    def confidence(self) -> float:
        """The share of such intervals that contain the truth, 0 to 1."""
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
    def contains(self, value: float) -> bool:
        """Whether the interval contains a number."""
    def to_bytes(self) -> bytes:
        """The answer as bytes, for other processes, languages and versions: JSON, as the guide's
        page *Stored samples* states it. ``pickle`` and ``copy`` use them."""
    @staticmethod
    def from_bytes(data: MessageData | str) -> Estimate:
        """The answer of ``to_bytes``. ``AnswerError`` if the data is none, is of another version,
        or contradicts itself."""

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
    def query(self) -> Query:
        """The query."""
    @property
    def messages(self) -> int:
        """Messages that arrived."""
    def push_message(self, stratum: int, rows: Iterable[Iterable[Any] | Number]) -> None:
        """Adds the rows of one message, each with its values in the order of the columns. Values
        are those of ``Key`` and ``Number``, of which a time may be a key. Missing ones are also an
        empty text, ``NA``, ``N/A``, ``null`` and ``\\N``; ``Answers.missing`` counts them. Arrays
        are rows; one with one dimension has rows of one value."""
    def push_csv(self, stratum: int, message: MessageData | str) -> None:
        """Adds the rows of one message: whole records of CSV in UTF-8, without a header."""
    def push_totals(self, stratum: int, message: MessageData | str) -> None:
        """Takes the totals of a stratum's table: message ``Table.TOTALS_MESSAGE`` of the group
        ``Table.HEADER_GROUP``. A count of all rows is then exact, and other counts and sums vary
        less. A message that isn't totals is a ``QueryError``."""
    def set_messages_sent(self, stratum: int, messages: int) -> None:
        """Sets N of a stratum, as an event tells it. A smaller N replaces an announced one."""
    def set_exact_records(self, stratum: int, records: float) -> None:
        """Sets the exact number of rows in all messages of a stratum, arrived or not, with or
        without a value. The effect is that of ``push_totals``."""
    def remove_stratum(self, stratum: int) -> None:
        """Takes all messages of a stratum out of the answers, such as those of a source that never
        said how many it sends."""
    def set_delivery(self, stratum: int, delivery: Delivery) -> None:
        """Sets how the messages of a stratum were sent, and which of them are missing."""
    def answers(self, confidence: float = 0.95) -> Answers:
        """The answers so far, a row for each key. ``AnswerError`` if there is none yet."""
    def overall(self, confidence: float = 0.95) -> Estimate | None:
        """The answer over all keys of the first function: a sum, count, mean or ratio."""

@final
class Sample:
    """The messages of a job that arrived, summed up."""

    def __new__(cls) -> Sample: ...
    @property
    def messages(self) -> int:
        """Messages that arrived."""
    @property
    def messages_sent(self) -> int | None:
        """Messages that were sent; ``None`` if a stratum hasn't said so."""
    @property
    def missing(self) -> int:
        """Records that arrived without a value."""
    def push(self, stratum: int, records: int, total: Number) -> None:
        """Adds a message of so many records, whose values add up to ``total``. If that is missing,
        so are the values of all these records."""
    def push_pair(self, stratum: int, denominator: Number, numerator: Number) -> None:
        """Adds a message with the totals of two columns, for ``ratio``. If one is missing, the
        message counts as one record without a value."""
    def set_messages_sent(self, stratum: int, messages: int) -> None:
        """Sets N of a stratum, as an event tells it. A smaller N replaces an announced one.
        ``AnswerError`` if more have arrived."""
    def set_exact_records(self, stratum: int, records: float) -> None:
        """Sets the exact number of records in all messages of a stratum, arrived or not."""
    def set_delivery(self, stratum: int, delivery: Delivery) -> None:
        """Sets how the messages of a stratum were sent, and which of them are missing."""
    def to_bytes(self) -> bytes:
        """The sample as bytes, for other processes, languages and versions: JSON, as the guide's
        page *Stored samples* states it. ``pickle`` and ``copy`` use them."""
    @staticmethod
    def from_bytes(data: MessageData | str) -> Sample:
        """The sample of ``to_bytes``. ``AnswerError`` if the data is none, is of another version,
        or contradicts itself."""
    def merge(self, other: Sample) -> None:
        """Adds the messages of another part of the job. No message may be in both."""
    def sum(self, confidence: float = 0.95) -> Estimate:
        """The sum over all messages, arrived or not, in the column's unit. ``AnswerError`` if a
        stratum lacks its N, or has no message."""
    def count(self, confidence: float = 0.95) -> Estimate:
        """The number of records in all messages, arrived or not. ``AnswerError`` as ``sum``."""
    def mean(self, confidence: float = 0.95) -> Estimate:
        """The mean over records, in the column's unit. ``AnswerError`` if there are none."""
    def ratio(self, confidence: float = 0.95) -> Estimate:
        """The total of the numerators divided by that of the denominators, after ``push_pair``.
        ``AnswerError`` if that is 0."""

@final
class GroupBy:
    """Sums, counts and means by key, of ``keys_max`` keys at most."""

    def __new__(cls, keys_max: int) -> GroupBy: ...
    @property
    def messages(self) -> int:
        """Messages that arrived."""
    @property
    def missing(self) -> int:
        """Records that arrived without a value."""
    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the whole table of keys."""
    def push_message(self, stratum: int, records: Iterable[tuple[Key, Number]]) -> None:
        """Adds the records of one message: keys with values."""
    def push_pairs(self, stratum: int, records: Iterable[tuple[Key, Number, Number]]) -> None:
        """Adds keys with a denominator and a numerator, of which ``mean`` is the ratio."""
    def set_messages_sent(self, stratum: int, messages: int) -> None:
        """Sets N of a stratum, as ``Sample.set_messages_sent``."""
    def set_delivery(self, stratum: int, delivery: Delivery) -> None:
        """Sets how the messages of a stratum were sent, and which of them are missing."""
    def set_exact_records(self, stratum: int, records: float) -> None:
        """Sets the exact number of records in all messages of a stratum, arrived or not. Answers
        then warn if the sample contradicts it; those of ``all`` use it as ``Sample`` does."""
    def all(self) -> Sample:
        """All messages so far without regard to keys: a copy of their records and totals."""
    def to_bytes(self) -> bytes:
        """All of it as bytes, as ``Sample.to_bytes``."""
    @staticmethod
    def from_bytes(data: MessageData | str) -> GroupBy:
        """The group-by of ``to_bytes``. ``AnswerError`` as ``Sample.from_bytes``."""
    def merge(self, other: GroupBy) -> None:
        """Adds the messages of another part of the job, with the same ``keys_max``. No message may
        be in both. ``AnswerError`` if the parts contradict each other."""
    def keys(self) -> tuple[str, ...]:
        """The counted keys, in order."""
    @property
    def uncounted_records(self) -> int:
        """Records of keys beyond the limit."""
    def sum(self, key: Key, confidence: float = 0.95) -> Estimate:
        """The sum over a key's records in all messages, arrived or not. ``AnswerError`` if no
        counted record has the key, or as ``Sample.sum``."""
    def count(self, key: Key, confidence: float = 0.95) -> Estimate:
        """The number of a key's records in all messages. ``AnswerError`` as ``sum``."""
    def mean(self, key: Key, confidence: float = 0.95) -> Estimate:
        """The mean over a key's records, or the ratio of ``push_pairs``. ``AnswerError`` if no
        counted record has the key."""

@final
class Quantiles:
    """Quantiles by key, of ``keys_max`` keys at most."""

    def __new__(cls, keys_max: int) -> Quantiles: ...
    @property
    def messages(self) -> int:
        """Messages that arrived."""
    @property
    def missing(self) -> int:
        """Records that arrived without a value."""
    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the whole table of keys."""
    def push_message(self, stratum: int, records: Iterable[tuple[Key, Number]]) -> None:
        """Adds the records of one message: keys with values."""
    def set_messages_sent(self, stratum: int, messages: int) -> None:
        """Sets N of a stratum, as ``Sample.set_messages_sent``."""
    def set_delivery(self, stratum: int, delivery: Delivery) -> None:
        """Sets how the messages of a stratum were sent, and which of them are missing."""
    def set_exact_records(self, stratum: int, records: float) -> None:
        """Sets the exact number of records in all messages of a stratum, arrived or not. Answers
        then warn if the sample contradicts it; those of ``all`` use it as ``Sample`` does."""
    def all(self) -> Sample:
        """All messages so far without regard to keys: a copy of their records and totals."""
    def to_bytes(self) -> bytes:
        """All of it as bytes, as ``Sample.to_bytes``."""
    @staticmethod
    def from_bytes(data: MessageData | str) -> Quantiles:
        """The quantiles of ``to_bytes``. ``AnswerError`` as ``Sample.from_bytes``."""
    def merge(self, other: Quantiles) -> None:
        """Adds another part of the job, as ``GroupBy.merge``."""
    def keys(self) -> tuple[str, ...]:
        """The counted keys, in order."""
    def quantile(self, key: Key, rank: float, confidence: float = 0.95) -> Estimate:
        """The value below which the share ``rank`` of the key's records lies."""

@final
class Top:
    """The keys with the largest totals, of ``keys_max`` keys at most."""

    def __new__(cls, keys_max: int) -> Top: ...
    @property
    def messages(self) -> int:
        """Messages that arrived."""
    @property
    def missing(self) -> int:
        """Records that arrived without a value."""
    def push_message(self, stratum: int, records: Iterable[tuple[Key, Number]]) -> None:
        """Adds keys with what they add to their totals: 1 to rank keys by records."""
    def set_messages_sent(self, stratum: int, messages: int) -> None:
        """Sets N of a stratum, as ``Sample.set_messages_sent``."""
    def set_delivery(self, stratum: int, delivery: Delivery) -> None:
        """Sets how the messages of a stratum were sent, and which of them are missing."""
    def set_exact_records(self, stratum: int, records: float) -> None:
        """Sets the exact number of records in all messages of a stratum, arrived or not. Answers
        then warn if the sample contradicts it; those of ``all`` use it as ``Sample`` does."""
    def all(self) -> Sample:
        """All messages so far without regard to keys: a copy of their records and totals."""
    def to_bytes(self) -> bytes:
        """All of it as bytes, as ``Sample.to_bytes``."""
    @staticmethod
    def from_bytes(data: MessageData | str) -> Top:
        """The ranking of ``to_bytes``. ``AnswerError`` as ``Sample.from_bytes``."""
    def merge(self, other: Top) -> None:
        """Adds another part of the job, as ``GroupBy.merge``. ``AnswerError`` also if the keys of
        both exceed ``keys_max``."""
    def largest(self, ranks: int, confidence: float = 0.95) -> Ranking:
        """The ``ranks`` keys with the largest totals, the largest first. ``AnswerError`` if a
        stratum lacks its N, or has no message."""

@final
class Planner:
    """Turns an accepted error into requests to the senders of a job.

    It looks at no answer, and so asks for no end, before ``sources`` sources are known: those of
    ``source_started``, ``source_known`` and ``source_ended``.

    ``end_in_doubt``: ends also while a warning puts an answer in doubt. By default the plan
    then continues up to the senders' own MSRs. In both cases the error isn't met."""

    def __new__(
        cls,
        *,
        relative: float | None = None,
        absolute: float | None = None,
        confidence: float = 0.95,
        sources: int | None = None,
        end_in_doubt: bool = False,
    ) -> Planner: ...
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
    def confidence(self) -> float:
        """The confidence that was asked for, 0 to 1."""
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
    def header(self) -> bytes:
        """The line that names the columns."""
    @property
    def heads(self) -> list[bytes]:
        """The header, and the totals: the messages of the group ``HEADER_GROUP`` in their order."""
    @property
    def messages(self) -> list[bytes]:
        """Send them without MRDF, which would deliver the short ones."""
    @property
    def order(self) -> Order:
        """``shuffled`` or ``ordered``, for ``order`` of the job."""
    @property
    def long_records(self) -> int:
        """Records with a value of several lines: a stray quote may have made one of several."""
    @property
    def note(self) -> str | None:
        """What to tell the user: of such records, or of a first line that may be no header."""
    def __len__(self) -> int: ...

@final
class Frame:
    """A data frame as messages of whole rows: ``rows`` each, or as many as fit a packet. The rows
    are shuffled, by ``seed`` if it is given, unless they stay ``ordered``.

    ``data`` is a frame of pandas, polars or pyarrow, anything with Arrow's interface for C
    (``__arrow_c_stream__`` or ``__arrow_c_array__``), or an iterable of such batches. A message is
    a record batch in Arrow's IPC format, without compression: ``heads[0]``, the schema and the
    dictionaries, and any of the messages, one after the other, are a stream of that format.

    Raises ``TypeError`` for a type that can't be sent, with the column's name, and ``ValueError``
    for batches whose columns differ."""

    def __new__(
        cls,
        data: Any,
        *,
        rows: int | None = None,
        ordered: bool = False,
        seed: int | None = None,
    ) -> Frame: ...
    def followed_by(self, data: Any, *, rows: int | None = None) -> Frame:
        """More rows of this table in their order, with the same header; their totals are their own.
        ``ValueError`` if columns or dictionaries differ."""
    @property
    def heads(self) -> list[bytes]:
        """The header, and the totals: the messages of the group ``Table.HEADER_GROUP``."""
    @property
    def messages(self) -> list[bytes]:
        """Send them without MRDF, which would deliver the short ones."""
    @property
    def order(self) -> Order:
        """What to state as the group's order."""
    def __len__(self) -> int:
        """The number of messages with rows."""
