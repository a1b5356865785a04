"""One rank of a collective, one of which dies: ``python mortal.py JSON`` prints its error."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np

from atp.collective import Collective, CollectiveError
from atp.collective.channel import Channel
from rank_on_host import FolderStore
from ranks import options

RANKS = 3
DIES = 1
STEP = 2
PAUSE_S = 4
"""Longer than it takes to notice a rank whose port is closed."""
LAST_BREATH_S = 1.0
"""The rank receives for so long before it dies: it owes no answer then."""


def die_in(method: str) -> None:
    """Ends the process where ``Channel`` calls the method in its third step."""
    whole = getattr(Channel, method)

    def dying(channel: Channel, step: int, *rest: Any) -> Any:
        if step == STEP:
            time.sleep(LAST_BREATH_S)
            os._exit(7)
        return whole(channel, step, *rest)

    setattr(Channel, method, dying)


def pause_in(method: str) -> None:
    """Stops the process for a while there: its port stays open, and nothing answers."""
    whole = getattr(Channel, method)

    def pausing(channel: Channel, step: int, *rest: Any) -> Any:
        if step == STEP:
            go_on = f"sleep {PAUSE_S}; kill -CONT {os.getpid()}"
            with subprocess.Popen(["sh", "-c", go_on]):
                os.kill(os.getpid(), signal.SIGSTOP)
        return whole(channel, step, *rest)

    setattr(Channel, method, pausing)


def main(told: dict[str, Any]) -> None:
    rank = told["rank"]
    if rank == DIES and "dies_in" in told:
        die_in(told["dies_in"])
    if rank == DIES and "pauses_in" in told:
        pause_in(told["pauses_in"])
    error = ""
    each = options(peer_timeout_s=told["peer_timeout_s"], timeout_s=told["timeout_s"])
    try:
        with Collective(FolderStore(told["folder"]), rank, RANKS, each) as collective:
            for step in range(STEP + 1):
                array = np.ones(10_000, np.float32)
                getattr(collective, told["operation"])("array", array).result()
    except CollectiveError as raised:
        error = str(raised)
    print(json.dumps({"error": error}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
