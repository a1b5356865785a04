"""The first message of a rank's part of a step: what it is about to send.

Ranks that disagree learn it here, before a wrong sum.
"""

from __future__ import annotations

import json
from typing import Any

from atp.collective import limits
from atp.collective.errors import CollectiveError, one_line

VERSION = 4
BYTES_MAX = 8_192
_WORDS = {
    "version": "the version of atp.collective",
    "name": "the order of the arrays",
    "ranks": "the number of ranks",
    "step": "the number of the step",
    "elements": "the number of elements",
    "type": "the type of the elements",
    "wire": "the type of elements in messages",
    "layout": "the regions and shards: names, lengths and which are exact",
    "operation": "the operation",
    "msrs": "the sampling rates",
}


def pack(**fields: Any) -> bytes:
    """``unfit``: a value that messages can't hold, and its parameter's name, or ``None``."""
    return json.dumps({"version": VERSION, **fields}, sort_keys=True).encode()


def check(data: bytes, rank: int, own: bytes, own_rank: int, name: str) -> None:
    """Compares the manifest of ``rank`` with this rank's own, for the array ``name``."""
    theirs, ours = _parse(data, rank), json.loads(own)
    for field in sorted(ours.keys() | theirs.keys()):
        if field == "unfit":
            continue
        here, there = ours.get(field), theirs.get(field)
        if here != there:
            what = _WORDS.get(field, f"the option {one_line(field)}")
            raise CollectiveError(
                f"rank {rank} and rank {own_rank} disagree on {what} of {name}, "
                f"{one_line(str(there))} and {one_line(str(here))}: "
                "all ranks need the same model, options and versions"
            )
    for fields, whose in ((ours, own_rank), (theirs, rank)):
        if fields["unfit"] is not None:
            value, parameter = fields["unfit"]
            what = f"{name} of rank {whose} in step {fields['step']}"
            raise CollectiveError(limits.in_messages(what, value, parameter, fields["wire"]))


def _parse(data: bytes, rank: int) -> dict[str, Any]:
    wrong = CollectiveError(f"rank {rank} sent no manifest: it has another version")
    if len(data) > BYTES_MAX:
        raise wrong
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        raise wrong from None
    # A manifest without ``unfit`` doesn't say that its values are fit.
    if not isinstance(fields, dict) or "unfit" not in fields:
        raise wrong
    if fields["unfit"] is not None:
        match fields["unfit"]:
            case [float() as value, str() as parameter]:
                fields["unfit"] = value, one_line(parameter)
            case _:
                raise wrong
    return fields
