"""A rank of a collective, beside strangers: `rank.py RANK ADDRESS STORE CONTROL_SOCKET USER`.

At the end of rank 0's input, both ranks end with the same step. Each prints its steps and the
messages of strangers that it refused.
"""

import os
import select
import sys
import time
from datetime import timedelta
from pathlib import Path

import numpy as np

from atp.collective import Collective, Options, Uniform

RANKS = 2
VALUES = 20_000
PAUSE_S = 0.05


class Folder:
    """The store of the rendezvous: a file for each key."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def _of(self, key: str) -> Path:
        return self.path / key.replace("/", ".")

    def set(self, key: str, value: str) -> None:
        partial = self._of(f"{key}.partial")
        partial.write_text(value)
        partial.rename(self._of(key))

    def get(self, key: str) -> bytes:
        return self._of(key).read_bytes()

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        end = time.monotonic() + timeout.total_seconds()
        while not all(self._of(key).exists() for key in keys):
            if time.monotonic() > end:
                raise RuntimeError("a key is missing")
            time.sleep(0.01)


def run(rank: int, options: Options, store: Folder) -> None:
    step, stops = 0, False
    with Collective(store, rank, RANKS, options) as collective:
        # Both ranks have the same values, so the mean is exact however much of it is lost. A
        # stranger's values would change it.
        while not stops:
            step += 1
            values = np.full(VALUES, float(step))
            # The last value tells that rank 0 ends.
            values[-1] = float(rank == 0 and bool(select.select([sys.stdin], [], [], 0)[0]))
            mean = collective.all_reduce("values", values).result()
            assert (mean[:-1] == step).all(), f"step {step}: a mean of {mean.min()}, {mean.max()}"
            stops = mean[-1] > 0
            time.sleep(PAUSE_S)
        refused = collective.stats.messages_refused
    print(step, refused)


if __name__ == "__main__":
    number, address, path, control_socket, user = sys.argv[1:]
    # Not earlier: the user may be unable to read the modules.
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
    chosen = Options(
        groups=Uniform(0.8), missing="mean", address=address, control_socket=control_socket
    )
    run(int(number), chosen, Folder(path))
