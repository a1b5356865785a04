"""Sends a table to a receiver that answers a query of it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from atp._native import Job, Table  # type: ignore[attr-defined]  # typed in answers.pyi
from atp._types import Group

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from atp._types import Address, JobOptions, MessageData, Report


def send_csv(
    peer: Address,
    csv: MessageData | str | Path,
    *,
    rows: int | None = None,
    ordered: bool = False,
    **options: Unpack[JobOptions],
) -> Report:
    """Sends a table to a receiver that answers a query of it: text, bytes, or the file at a
    ``Path``. The records are shuffled and sent without MRDF, so that those that arrive are a fair
    sample. With ``ordered`` they keep their order, and incomplete answers warn. Records with a
    value of several lines have a warning (``warnings``): a stray quote may have made one of
    several. ``options`` are those of ``Job``, such as ``msr``, without ``groups``, ``messages`` and
    ``order``."""
    if set_by_table := {"groups", "messages", "order"} & options.keys():
        raise TypeError(f"send_csv sets {' and '.join(sorted(set_by_table))} itself")
    msr = options.pop("msr", 1.0)
    table = Table(csv.read_bytes() if isinstance(csv, Path) else csv, rows=rows, ordered=ordered)
    if table.note is not None:
        warnings.warn(table.note, stacklevel=2)
    if len(table) == 0:
        raise ValueError("the CSV holds no record: nothing was sent")
    options["groups"] = [
        Group(Table.ROWS_GROUP, msr, len(table), "rows", table.order),
        Group(Table.HEADER_GROUP, messages=len(table.heads), name="header"),
    ]
    # MRDF would deliver the short messages: no fair sample.
    options.setdefault("mrdf", False)
    with Job(peer, **options) as job:
        job.send_many(table.heads, Table.HEADER_GROUP)
        job.send_many(table.messages, Table.ROWS_GROUP)
        return job.finish()
