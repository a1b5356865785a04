"""Outcomes are printed by a plugin that the tests of the integrations use, too. A test that hangs
fails: the handler of a signal ends its call of the JVM.
"""

from __future__ import annotations

import signal
from collections.abc import Generator

import pytest

pytest_plugins = ["outcomes"]
LIMIT_S = 180


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    late = f"{item.name} hasn't ended after {LIMIT_S} s"

    def end(*_: object) -> None:
        # The other tests use the same JVM: the call that is ended here is its end.
        item.session.shouldstop = late
        raise TimeoutError(late)

    signal.signal(signal.SIGALRM, end)
    signal.alarm(LIMIT_S)
    try:
        yield
    except Exception as error:
        if item.session.shouldstop == late:
            # The bridge to Java has errors of its own for it.
            raise TimeoutError(late) from error
        raise
    finally:
        signal.alarm(0)
