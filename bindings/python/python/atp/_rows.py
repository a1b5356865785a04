"""The rows of a table that arrived."""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from atp import _show
from atp._printable import printable

STRATA = ("atp_stratum", "atp_weight")
"""The columns behind those of the table."""

if TYPE_CHECKING:
    from atp._native import Batches


@dataclass(frozen=True, slots=True)
class Sender:
    """A sender of rows: a stratum."""

    source: tuple[str, int]
    """The address and port."""
    job: int
    """The job's id."""
    messages: int
    """Messages with rows that arrived."""
    messages_sent: int | None
    """N, the messages that were sent; ``None`` if the sender hasn't said it."""

    @property
    def weight(self) -> float | None:
        """The messages that each one which arrived stands for: ``messages_sent / messages``."""
        if self.messages_sent is None or not 0 < self.messages <= self.messages_sent:
            return None
        return self.messages_sent / self.messages


@dataclass(frozen=True, slots=True, repr=False)
class Rows:
    """The rows of a table that arrived. pandas, polars and pyarrow read it by Arrow's interface for
    C (``__arrow_c_stream__``).

    Behind the table's columns, ``atp_stratum`` is the place of the row's sender in ``senders``, and
    ``atp_weight`` the number of rows that it stands for: the weighted sum estimates the sum over
    all rows that were sent. It is null if a sender hasn't said how many messages it sends. Columns
    of CSV are texts."""

    batches: Batches
    """The record batches."""
    senders: tuple[Sender, ...]
    """The senders, in the order of their strata."""
    verdict: Literal["fine", "in_doubt"]
    """``"in_doubt"`` if the rows may be no fair sample, a sender didn't end as it should, or
    messages were left out."""
    warnings: tuple[str, ...]
    """What puts the rows in doubt."""
    messages_left_out: int
    """Messages that could not be read."""

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.batches)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.batches.columns

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.batches.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> Any:
        """A table of pyarrow."""
        return _show.module("pyarrow", "to_arrow").table(self)

    def to_pandas(self) -> Any:
        """A data frame of pandas; needs pyarrow too. Index and names of columns are those of the
        frame that was sent, if pandas can read them; a warning says if they are not. An index that
        only counted its rows is a new one."""
        return _frame(_show.module("pandas", "to_pandas"), self.to_arrow())

    def to_polars(self) -> Any:
        """A data frame of polars."""
        return _show.module("polars", "to_polars").DataFrame(self)

    def __repr__(self) -> str:
        arrived = sum(sender.messages for sender in self.senders)
        sent = [sender.messages_sent for sender in self.senders]
        of = "" if None in sent else f" of {sum(one or 0 for one in sent)}"
        lines = [
            f"{len(self)} rows of {', '.join(map(printable, self.columns))}",
            f"from {arrived}{of} messages of {len(self.senders)} senders",
        ]
        lines += [f"warning: {printable(warning, 600)}" for warning in self.warnings]
        return "\n".join(lines)


def _frame(pandas: Any, table: Any) -> Any:
    """The data frame of a table. Names of a kind that pyarrow doesn't restore, such as categories,
    stay texts. The metadata of pandas are the sender's, and may hold anything."""
    metadata = table.schema.metadata or {}
    if b"pandas" not in metadata:
        return _restored(pandas, table)
    with suppress(Exception):
        return _restored(pandas, table)
    rest = {key: value for key, value in metadata.items() if key != b"pandas"}
    with suppress(Exception):
        texts = json.dumps(json.loads(metadata[b"pandas"]) | {"column_indexes": []})
        return _restored(pandas, table.replace_schema_metadata(rest | {b"pandas": texts}))
    warnings.warn(
        "the sender's metadata of pandas don't fit its table: the frame has all columns under "
        "their names in Arrow, and a new index",
        stacklevel=3,
    )
    return _restored(pandas, table.replace_schema_metadata(rest))


def _restored(pandas: Any, table: Any) -> Any:
    """The data frame with the index and the names of the metadata. Raises ``ValueError`` if one of
    the names is that of a column that would overwrite it."""
    # pyarrow makes numbers, times or tuples of all names: `STRATA` have to stay texts.
    frame = table.drop_columns(list(STRATA)).to_pandas()
    # The rows are shuffled: the labels would be those of other rows.
    if isinstance(frame.index, pandas.RangeIndex):
        frame = frame.reset_index(drop=True)
    deeper = frame.columns.nlevels - 1
    for name in STRATA:
        if name in frame.columns:
            raise ValueError(f"the table has a column {name} of its own")
        frame[(name, *[""] * deeper) if deeper else name] = table[name].to_numpy()
    return frame
