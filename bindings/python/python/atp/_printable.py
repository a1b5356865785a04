"""Texts of other hosts."""

from __future__ import annotations


def printable(text: str, limit: int = 40) -> str:
    """A text without characters that move the cursor."""
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
