"""A collective that is closed while a step is pending."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Literal

import numpy as np
import pytest

from atp.collective import Collective, CollectiveError, Custom, Uniform
from atp.collective.channel import Channel
from atp.collective.groups import Chunks
from atp.collective.peers import Peers
from atp.collective.plan import Kind
from atp.collective.values import Array
from ranks import options, run

Name = Literal["all_reduce", "reduce_scatter"]
OPERATIONS: list[Name] = ["all_reduce", "reduce_scatter"]
STEPS = 3
LATE_S = 4.0
"""Longer than the interval between keepalives, and the shutdown."""


def begun(collective: Collective, operation: Name) -> Future[Array]:
    array = np.full(100_000, collective.rank + 1.0, np.float32)
    if operation == "all_reduce":
        return collective.all_reduce("array", array)
    return collective.reduce_scatter("array", array)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_steps_that_were_submitted_are_done(operation: Name) -> None:
    def one(collective: Collective) -> list[bool]:
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

    def one(collective: Collective) -> str:
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


def test_a_rank_that_is_done_leaves_while_others_wait() -> None:
    """Rank 0 waits for the mean of rank 2 alone. Rank 1, which gets keepalives, needs nothing."""
    sent = threading.Event()

    def later(peers: Peers) -> None:
        """The mean for rank 0 comes late, as after losses."""
        send, end_window = peers.send, peers.end_window
        held: list[Callable[[], None]] = []

        def hold(peer: int, messages: list[bytes], *rest: int, copy: bool | None = None) -> None:
            if peer == 0 and copy is False:
                held.append(lambda: send(peer, messages, *rest, copy=copy))
            else:
                send(peer, messages, *rest, copy=copy)

        def end(peer: int) -> None:
            if peer != 0 or not held:
                end_window(peer)
                return

            def go_on() -> None:
                held.pop()()
                end_window(peer)
                sent.set()

            threading.Timer(LATE_S, go_on).start()

        peers.send, peers.end_window = hold, end  # type: ignore[method-assign, assignment]

    def one(collective: Collective) -> float:
        if collective.rank == 2:
            opened = collective._new_channel

            def patched(name: str, kind: Kind) -> Channel:
                channel = opened(name, kind)
                later(channel.peers)
                return channel

            collective._new_channel = patched  # type: ignore[method-assign]
        mean = float(begun(collective, "all_reduce").result().mean())
        if collective.rank == 1:
            time.sleep(LATE_S / 2)  # It has received a keepalive by then.
        assert collective.rank != 2 or sent.wait(2 * LATE_S)
        return mean

    assert run(3, one, lambda rank: options(groups=Uniform(1.0))) == [2.0] * 3


def test_more_steps_than_there_is_time_for() -> None:
    """Closing ends them, and leaves no thread."""

    def slow(chunks: Chunks) -> Array:
        time.sleep(0.5)
        return np.zeros(len(chunks), np.int64)

    def one(collective: Collective) -> list[BaseException | None]:
        pending = [begun(collective, "all_reduce") for _ in range(12)]
        collective.close()
        return [step.exception(timeout=0) for step in pending]

    # The first step may take six times as long as it should.
    each = options(groups=Custom(slow, [1.0]), timeout_s=3.0, peer_timeout_s=2.0)
    for outcome in run(2, one, lambda rank: each):
        assert isinstance(outcome, list), outcome
        assert outcome[0] is None
        assert "closed" in str(outcome[-1])
    assert not threads()


def threads() -> list[threading.Thread]:
    """The threads of collectives."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("atp ")]
