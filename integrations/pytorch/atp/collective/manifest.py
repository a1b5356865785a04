"""The first message of a rank's part of a step: what it is about to send.

Ranks that disagree learn it here, before a wrong sum.
"""

from __future__ import annotations

import json
from typing import Any

from atp.collective.errors import CollectiveError, one_line

VERSION = 2
_BYTES_MAX = 8_192
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
    return json.dumps({"version": VERSION, **fields}, sort_keys=True).encode()


def check(data: bytes, rank: int, own: bytes, own_rank: int, name: str) -> None:
    """Compares the manifest of ``rank`` with this rank's own, for the array ``name``."""
    theirs, ours = _parse(data, rank), json.loads(own)
    for field in sorted(ours.keys() | theirs.keys()):
        if field == "nonfinite_values":
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
        if fields.get("nonfinite_values") and fields.get("nonfinite") == "error":
            raise CollectiveError(
                f"{name} of rank {whose} has NaN or infinite values in step {fields.get('step')}: "
                "lower the learning rate, or set nonfinite='propagate' for a gradient scaler"
            )


def _parse(data: bytes, rank: int) -> dict[str, Any]:
    wrong = CollectiveError(f"rank {rank} sent no manifest: it has another version")
    if len(data) > _BYTES_MAX:
        raise wrong
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        raise wrong from None
    if not isinstance(fields, dict):
        raise wrong
    return fields
