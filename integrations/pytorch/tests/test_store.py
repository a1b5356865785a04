"""What a rank says of a store that fails, or where another rank doesn't come."""

from __future__ import annotations

from datetime import timedelta

import pytest

from atp.collective import CollectiveError
from atp.collective.store import fetch, publish
from ranks import MemoryStore


class Broken(MemoryStore):
    """A store whose process has ended."""

    def __init__(self, fails_in: str):
        super().__init__()
        self._fails_in = fails_in

    def set(self, key: str, value: str, /) -> None:
        raise RuntimeError("Connection reset by peer")

    def wait(self, keys: list[str], timeout: timedelta, /) -> None:
        if self._fails_in == "wait":
            raise RuntimeError("Connection reset by peer")

    def get(self, key: str, /) -> bytes:
        raise RuntimeError("Connection reset by peer")


@pytest.mark.parametrize("fails_in", ["wait", "get"])
def test_a_store_that_fails(fails_in: str) -> None:
    said = "the store failed: RuntimeError: Connection reset by peer: look whether"
    with pytest.raises(CollectiveError, match=said):
        fetch(Broken(fails_in), "key", "rank 1", 60.0)


def test_a_store_that_takes_nothing() -> None:
    with pytest.raises(CollectiveError, match="the store failed: RuntimeError: Connection reset"):
        publish(Broken("set"), "key", "value")


def test_a_rank_that_is_missing() -> None:
    with pytest.raises(CollectiveError, match="rank 1 hasn't joined after 0.2 s: start every rank"):
        fetch(MemoryStore(), "key", "rank 1", 0.2)
