"""A collective that is closed while a step is pending."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import Literal

import numpy as np
import pytest

from atp.collective import AllReduce, CollectiveError, Custom, Uniform
from atp.collective.groups import Chunks
from atp.collective.values import Array
from ranks import options, run

Name = Literal["all_reduce", "reduce_scatter"]
OPERATIONS: list[Name] = ["all_reduce", "reduce_scatter"]
STEPS = 3


def begun(collective: AllReduce, operation: Name) -> Future[Array]:
    array = np.full(100_000, collective.rank + 1.0, np.float32)
    if operation == "all_reduce":
        return collective.all_reduce("array", array)
    return collective.reduce_scatter("array", array)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_steps_that_were_submitted_are_done(operation: Name) -> None:
    def one(collective: AllReduce) -> list[bool]:
        pending = [begun(collective, operation) for _ in range(STEPS)]
        collective.close()
        with pytest.raises(CollectiveError, match="the collective is closed"):
            begun(collective, operation)
        return [bool((step.result(timeout=0) == 1.5).all()) for step in pending]

    assert run(2, one, lambda rank: options(groups=Uniform(1.0))) == [[True] * STEPS] * 2


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_step_whose_other_ranks_never_come(operation: Name) -> None:
    """Closing waits for it no longer than a step may take."""
    closed = threading.Event()

    def one(collective: AllReduce) -> str:
        if collective.rank == 1:
            assert closed.wait(20)
            return ""
        pending = begun(collective, operation)
        collective.close()
        closed.set()
        error = pending.exception(timeout=0)
        assert isinstance(error, CollectiveError)
        return str(error)

    first, second = run(2, one, lambda rank: options(timeout_s=1.0))
    assert "rank 1 is too late with its part of step 0 of array" in str(first)
    assert second == ""
    assert not threads()


def test_more_steps_than_there_is_time_for() -> None:
    """Closing ends them, and leaves no thread."""

    def slow(chunks: Chunks) -> Array:
        time.sleep(0.5)
        return np.zeros(len(chunks), np.int64)

    def one(collective: AllReduce) -> list[BaseException | None]:
        pending = [begun(collective, "all_reduce") for _ in range(8)]
        collective.close()
        return [step.exception(timeout=0) for step in pending]

    each = options(groups=Custom(slow, [1.0]), timeout_s=1.0, peer_timeout_s=0.5)
    for outcome in run(2, one, lambda rank: each):
        assert isinstance(outcome, list), outcome
        assert outcome[0] is None
        assert "closed" in str(outcome[-1])
    assert not threads()


def threads() -> list[threading.Thread]:
    """The threads of collectives."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("atp ")]
