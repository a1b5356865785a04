"""The error of every rank when a collective can't go on."""

from __future__ import annotations


class CollectiveError(RuntimeError):
    """A reduction failed. No later one of this rank works: the streams are closed."""
