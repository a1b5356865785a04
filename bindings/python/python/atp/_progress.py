"""The progress of ``receive``: a line in a terminal, a bar in a notebook."""

from __future__ import annotations

import shutil
import sys
from contextlib import suppress
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from atp._printable import printable

if TYPE_CHECKING:
    from atp._native import Receiving

BAR_CELLS = 20
LINE_CHARS_MAX = 600


class Progress(Protocol):
    """Shows the state of a session."""

    def show(self, receiving: Receiving) -> None: ...
    def end(self) -> None: ...


def progress(wanted: bool | None) -> Progress:
    """The bar for where the program runs. ``None`` shows it where a person looks at it."""
    if wanted is not False and (display := _notebook()) is not None:
        return _Notebook(display)
    if sys.stderr is not None and (wanted or (wanted is None and sys.stderr.isatty())):
        return _Terminal()
    return _Silent()


def _notebook() -> Any:
    """IPython's module ``display`` in a notebook; ``None`` elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or type(shell).__name__ != "ZMQInteractiveShell":
        return None
    return sys.modules.get("IPython.display")


def _share(arrived: int, sent: int | None) -> float | None:
    return min(arrived / sent, 1.0) if sent else None


def _state(line: str | None, arrived: int) -> str:
    if line is not None:
        return printable(line, LINE_CHARS_MAX)
    return f"{arrived} messages" if arrived else "waiting for a sender"


class _Silent:
    def show(self, receiving: Receiving) -> None:
        pass

    def end(self) -> None:
        pass


class _Terminal:
    def show(self, receiving: Receiving) -> None:
        if (progress := receiving.progress()) is None:
            return
        line, arrived, sent = progress
        share = _share(arrived, sent)
        filled = 0 if share is None else round(share * BAR_CELLS)
        bar = "" if share is None else f"[{'#' * filled}{'-' * (BAR_CELLS - filled)}] "
        text = (bar + _state(line, arrived))[: shutil.get_terminal_size().columns - 1]
        self._print(text)

    def end(self) -> None:
        self._print("")

    def _print(self, text: str) -> None:
        # A closed standard error doesn't end the session.
        with suppress(OSError, ValueError):
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


class _Notebook:
    def __init__(self, display: Any) -> None:
        self._html = display.HTML
        self._handle = display.display(self._html(""), display_id=True)

    def show(self, receiving: Receiving) -> None:
        if (progress := receiving.progress()) is None:
            return
        line, arrived, sent = progress
        share = _share(arrived, sent)
        value = "" if share is None else f' value="{share:.4f}"'
        bar = f'<progress max="1"{value}></progress> '
        self._handle.update(self._html(bar + escape(_state(line, arrived))))

    def end(self) -> None:
        self._handle.update(self._html(""))
