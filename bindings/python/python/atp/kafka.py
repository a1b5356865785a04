"""Windows of a stream's records, such as those of a topic's partition in Kafka.

``windows`` receives those that the program ``atp-kafka`` sends, or a ``WindowSender``. A window is
handed over once it has ended, with the records that arrived and the offsets of those that didn't.
Its sender forgets it only once the receiving program has handled it.
"""

from __future__ import annotations

from atp._errors import StateError
from atp._native import Record, Windows, WindowSender
from atp._windows import Window, WindowGroup, WindowStats

windows = Windows

__all__ = [
    "Record",
    "StateError",
    "Window",
    "WindowGroup",
    "WindowSender",
    "WindowStats",
    "Windows",
    "windows",
]
