"""Where ranks find each other: a key-value store, such as that of a PyTorch process group."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Protocol

from atp.collective.errors import CollectiveError, described


class Store(Protocol):
    """The part of ``torch.distributed.Store`` that is used."""

    def set(self, key: str, value: str, /) -> None: ...
    def get(self, key: str, /) -> bytes: ...
    def wait(self, keys: list[str], timeout: timedelta, /) -> None:
        """Waits until all keys were set. Raises ``RuntimeError`` after ``timeout``."""


def publish(store: Store, key: str, value: str) -> None:
    """Sets a key."""
    try:
        store.set(key, value)
    except RuntimeError as error:
        raise _failed(error) from error


def fetch(store: Store, key: str, of: str, timeout_s: float) -> str:
    """The value of a key, which ``of`` sets: an error says who didn't."""
    began = time.monotonic()
    try:
        store.wait([key], timedelta(seconds=timeout_s))
        return store.get(key).decode(errors="replace")
    except RuntimeError as error:
        # The store's clock may be a little faster.
        if time.monotonic() - began < 0.99 * timeout_s:
            raise _failed(error) from error
        raise CollectiveError(
            f"{of} hasn't joined after {timeout_s:g} s: start every rank, with the same store"
        ) from error


def _failed(error: RuntimeError) -> CollectiveError:
    return CollectiveError(
        f"the store failed: {described(error)}: look whether its process still runs"
    )
