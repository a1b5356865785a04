"""Inputs and results of ``atp.answers``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, SupportsIndex, TypeAlias

from atp import _columns, _plot, _show
from atp._keys import in_order

if TYPE_CHECKING:
    from atp._types import GroupSummary, GroupTerms, Order
    from atp.answers import Estimate


Number: TypeAlias = SupportsFloat | SupportsIndex | timedelta | None
"""A number of a record: an ``int``, ``float``, ``bool`` (1 or 0), ``Decimal``, ``Fraction``, or
one of numpy's; a duration counts as seconds. ``None``, NaN, ``pandas.NA`` and NaT are missing:
answers leave their records out, and say so. Times are refused, because a sum of them is no number:
give seconds since a time that you choose."""

Key: TypeAlias = str | SupportsFloat | SupportsIndex | date
"""A key: text, or another value under its text. A time has that of ISO 8601, a bool 1 or 0; ``1``
and ``1.0`` are two keys."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """How the messages of a stratum were sent, and which of them are missing. An incomplete stratum
    whose messages aren't known to be shuffled has a warning. ``Delivery.of`` takes both from the
    events of a receiver."""

    order: Order = "unknown"
    """``"shuffled"``, or ``"ordered"`` if the messages follow an order of the data, e.g. time."""
    shuffle_buffer: int | None = None
    """The number of shuffled messages among which each one was drawn; ``None`` for all of them."""
    shortest_first: bool = False
    """The sender preferred short messages, and its messages differ in length."""
    lost: tuple[range, ...] | None = None
    """The ids that didn't arrive, as ascending ranges; ``None`` before the job has ended."""

    @classmethod
    def of(cls, terms: GroupTerms | None, summary: GroupSummary | None = None) -> Delivery:
        """The delivery of a group, from its terms and, once the job has ended, its summary."""
        lost = None if summary is None else summary.lost
        if terms is None:
            return cls(lost=lost)
        return cls(terms.order, terms.shuffle_buffer, terms.shortest_first, lost)


@dataclass(frozen=True, slots=True, repr=False)
class Answers:
    """The answers of a query. A terminal shows them as a text, and a notebook as a table."""

    rows: tuple[tuple[Any, ...], ...]
    """A row for each key: the key, and an ``Estimate`` for each function of the query, or ``None``
    where the key has no answer. The rows are in the order of the keys, by ``key_types``, and those
    of ``top`` with the largest first. The key is a text, or a tuple of texts if ``by`` names
    several columns. Without ``by``, the only row has ``None`` for a key."""
    functions: tuple[str, ...]
    """The functions of the query, such as ``avg(delay)``: the columns of the rows after the key."""
    separates: bool | None
    """Whether the sample of a ``top`` shows that these keys are the largest."""
    keys_seen_from: int | None
    """Keys in at least this many messages have a row with a probability of at least 95 %; in
    ``top`` they were counted. ``None`` without keys, with keys beyond the limit, if the number of
    messages sent is unknown, or if those that arrived may be no fair sample; 0 if all of them
    arrived."""
    missing: int
    """Rows that arrived and meet the condition, but lack one of the query's numbers: functions of
    that number leave them out. ``count(*)`` and ``top`` need none."""
    warnings: tuple[str, ...]
    """Warnings about all rows together."""
    query: str = ""
    """The query."""
    by: tuple[str, ...] = ()
    """The columns of the keys."""
    verdict: Literal["fine", "in_doubt", "not_met"] | None = None
    """How ``receive`` judges the answers: ``"in_doubt"`` if a warning or a sender puts them in
    doubt, ``"not_met"`` if an interval is wider than accepted. ``None`` of other answers."""
    report: Report | None = None
    """Whether the accepted error of ``receive`` was met."""
    messages_left_out: int = 0
    """Messages that ``receive`` could not read."""
    key_types: tuple[str, ...] = ()
    """The types of the keys in ``to_pandas`` and ``to_arrow``, such as ``int64``: those of the
    columns, if all senders agree. ``str`` otherwise, and where the answers come from CSV. Empty if
    ``receive`` didn't make the answers."""

    def _ended(
        self,
        verdict: Literal["fine", "in_doubt", "not_met"],
        report: Report | None,
        notes: tuple[str, ...],
        left_out: int,
        types: tuple[str | None, ...],
    ) -> Answers:
        rows, types = in_order(self.rows, types)
        return replace(
            self,
            # The ranks of a ``top`` are in the order of their totals.
            rows=rows if self.separates is None else self.rows,
            verdict=verdict,
            report=report,
            warnings=self.warnings + notes,
            messages_left_out=left_out,
            key_types=types,
        )

    def __repr__(self) -> str:
        return _show.text(self)

    def _repr_html_(self) -> str:
        return _show.html(self)

    def to_pandas(self) -> Any:
        """A data frame of pandas with a row for each key and function: the columns of the key, of
        the types ``key_types``, ``function``, ``value``, ``low``, ``high``, ``bound``,
        ``messages``, ``messages_sent`` and ``warnings``. An end that nothing bounds is infinite."""
        return _columns.to_pandas(self)

    def to_arrow(self) -> Any:
        """A table of pyarrow with the rows of ``to_pandas``."""
        return _columns.to_arrow(self)

    def plot(self, ax: Any = None) -> Any:
        """Draws the answers with their intervals by matplotlib: a panel for each function, three in
        a row, with a point for each of the first 40 keys. With many functions, and in ``ax``, these
        are as many as fit. An arrow is a bound. ``ax`` takes one function. Returns matplotlib's
        figure."""
        return _plot.plot(self, ax)


@dataclass(frozen=True, slots=True)
class Ranking:
    """The keys with the largest totals."""

    ranks: tuple[tuple[str, Estimate], ...]
    gap: Estimate | None
    """By how much the last rank's total is larger than the next key's."""
    separates: bool
    """Whether the sample shows, with the asked confidence, that these are the largest keys."""
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Raise:
    """Ask the sender of this stratum for a higher MSR."""

    stratum: int
    msr: float


@dataclass(frozen=True, slots=True)
class Lower:
    """Ask the sender of this stratum for a lower MSR."""

    stratum: int
    msr: float


@dataclass(frozen=True, slots=True)
class End:
    """Ask all senders to end: the error is met."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again after this number of messages of all strata."""

    messages: int


Action: TypeAlias = Raise | Lower | End | Wait
"""What a planner asks of the receiver."""


@dataclass(frozen=True, slots=True)
class Report:
    """Whether the accepted error was met."""

    is_met: bool
    reached: float
    """How far the intervals reach at most, in the unit of the accepted error."""
    because: str | None
    """Why the error wasn't met; ``None`` if it was."""
    estimates: tuple[Estimate, ...]
    """The answers at the end, with the confidence that was asked for. Print these: the looks have
    cost a part of the confidence that those of ``Sample.mean`` and its like would claim."""
    level: float
    """The stricter level of the last look, which pays for all looks. Use it for other answers of
    the same job."""
    looks: int
    text: str

    def __str__(self) -> str:
        return self.text
