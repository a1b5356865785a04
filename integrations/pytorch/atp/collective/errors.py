"""The error of every rank when a collective can't go on."""

from __future__ import annotations

_SENTENCE_CHARACTERS_MAX = 400


class CollectiveError(RuntimeError):
    """A reduction failed, and no later one of any rank works: the jobs are closed. Or an
    argument is wrong: then nothing was sent, and reductions go on."""


def one_line(text: str) -> str:
    """A text of another rank or library as a part of a sentence."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    line = " ".join(printable.split())
    return line if len(line) <= _SENTENCE_CHARACTERS_MAX else line[:_SENTENCE_CHARACTERS_MAX] + "..."


def described(error: BaseException) -> str:
    """An error of someone else's code."""
    return f"{type(error).__name__}: {one_line(str(error))}"
