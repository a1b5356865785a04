"""Texts of other hosts."""

from __future__ import annotations


def printable(text: str, limit: int = 40) -> str:
    """A text without characters that move the cursor. The middle of a long one is left out: keys
    may differ in their ends alone."""
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    end = limit // 3
    return shown if len(shown) <= limit else f"{shown[: limit - end - 1]}…{shown[-end:]}"
