"""One rank on a host of its own: ``python rank_on_host.py JSON`` prints what it got. The kernel
tests start it in network namespaces, with a folder as the store.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from atp.collective import Collective, Options, Uniform
from atp.collective.values import Array


LIMIT_S = 180.0
"""Nine of ten packets may be lost in one direction."""


class FolderStore:
    """Keys are files."""

    def __init__(self, folder: str):
        self._folder = Path(folder)

    def _file(self, key: str) -> Path:
        return self._folder / key.replace("/", "-")

    def set(self, key: str, value: str, /) -> None:
        part = Path(f"{self._file(key)}.part")
        part.write_text(value)
        part.rename(self._file(key))

    def get(self, key: str, /) -> bytes:
        return self._file(key).read_bytes()

    def wait(self, keys: list[str], timeout: timedelta, /) -> None:
        deadline = time.monotonic() + timeout.total_seconds()
        while not all(self._file(key).exists() for key in keys):
            if time.monotonic() > deadline:
                raise RuntimeError("a key is missing")
            time.sleep(0.01)


def array(seed: int, rank: int, step: int, elements: int) -> Array:
    return np.random.default_rng([seed, rank, step]).standard_normal(elements).astype(np.float32)


def main(told: dict[str, Any]) -> None:
    rank, ranks, elements, seed = (told[name] for name in ("rank", "ranks", "elements", "seed"))
    options = Options(
        address=told["address"],
        groups=Uniform(told["msr"]),
        missing=told["missing"],
        control_socket=told.get("control_socket"),
        rate_max_bytes_per_s=2_500_000,
        timeout_s=LIMIT_S,
        peer_timeout_s=LIMIT_S,
    )
    digest, error = hashlib.sha256(), 0.0
    with Collective(FolderStore(told["folder"]), rank, ranks, options) as collective:
        for step in range(told["steps"]):
            got = collective.all_reduce("array", array(seed, rank, step, elements)).result()
            digest.update(got.tobytes())
            every = [array(seed, other, step, elements) for other in range(ranks)]
            error = max(error, float(np.abs(got - np.mean(every, axis=0)).max()))
    stats = collective.stats
    outcome = {
        "digest": digest.hexdigest(),
        "error": error,
        "chunks": stats.chunks,
        "chunks_arrived": stats.chunks_arrived,
        "messages_refused": stats.messages_refused,
    }
    print(json.dumps(outcome))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
