"""The base of the exceptions, and the one that objects of this package raise themselves."""

from __future__ import annotations


class Error(Exception):
    """The base of this package's exceptions."""


class UnknownError(Error, ValueError):
    """A value that isn't known was read as one that is: see ``UnknownIds``."""
