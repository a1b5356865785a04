"""Outcomes are printed by a plugin that the tests of the integrations use, too. A test that hangs
fails: a call of the JVM ends with the exception of a signal's handler.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

pytest_plugins = ["outcomes"]
LIMIT_S = 180


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    def end(*_: object) -> None:
        raise TimeoutError(f"the test hasn't ended after {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(LIMIT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
