"""The process of a rank ends in the middle of a step: the others learn it before a timeout. A slow
rank is none that ended.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atp.collective import Collective, Uniform
from mortal import DIES, RANKS
from ranks import options, run

LIMIT_S = 60.0
ENDLESS_S = 600.0
"""A test fails by its limit if it is a timeout of this length that ends the step."""
SILENCE_S_MAX = 9.0
"""The others take a rank for dead after a second of silence and three timeouts, each a second long
at most. Their library measures the silence, and leaves out any time above 2 s in which it didn't
run itself. So 9 s take three timeouts in a row that each come almost 2 s late. That needs hundreds
of busy threads on each core, and all tests at once have a few dozen."""


@pytest.mark.parametrize(
    ("operation", "dies_in"),
    [
        # Before it sends anything, although it has what the others sent.
        ("all_reduce", "_send_parts"),
        ("reduce_scatter", "_send_parts"),
        # In phase 2: it has all parts, and owes its mean.
        ("all_reduce", "_exchange"),
    ],
)
def test_a_rank_dies(tmp_path: Path, operation: str, dies_in: str) -> None:
    """The host says that nothing listens there, so the others don't wait for the peer timeout."""
    case = {"operation": operation, "dies_in": dies_in, "peer_timeout_s": ENDLESS_S}
    printed = outcomes(tmp_path, **case)
    assert printed.pop(DIES) == ""
    for line in printed:
        told = json.loads(line)["error"]
        assert told.startswith(f"rank {DIES} doesn't answer"), told
        assert "(its host says that nothing listens there)" in told
        silence = re.search(r"did not answer for ([0-9.]+) s", told)
        assert silence is not None and float(silence[1]) < SILENCE_S_MAX, told


def test_a_rank_is_stopped_for_a_while(tmp_path: Path) -> None:
    """It doesn't answer, but its port is open: it isn't lost."""
    case = {"operation": "all_reduce", "pauses_in": "_send_parts", "peer_timeout_s": ENDLESS_S}
    for line in outcomes(tmp_path, **case):
        assert json.loads(line)["error"] == ""


def outcomes(folder: Path, **case: Any) -> list[str]:
    """What each rank printed."""
    told = {"folder": str(folder), "timeout_s": ENDLESS_S, **case}
    script = str(Path(__file__).with_name("mortal.py"))
    processes = [
        subprocess.Popen(
            [sys.executable, script, json.dumps({**told, "rank": rank})],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    try:
        return [process.communicate(timeout=LIMIT_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.parametrize("operation", ["all_reduce", "reduce_scatter"])
def test_a_rank_is_slow(operation: str) -> None:
    """The others' keepalives come before their next messages, and change nothing."""

    def one(collective: Collective) -> list[float]:
        means = []
        for step in range(3):
            if collective.rank == DIES:
                time.sleep(2.5)
            array = np.full(10_000, collective.rank + step, np.float32)
            means.append(float(getattr(collective, operation)("array", array).result().mean()))
        return means

    each = options(groups=Uniform(1.0), missing="feedback", mean_share=0.999)
    assert run(RANKS, one, lambda rank: each) == [[1.0, 2.0, 3.0]] * RANKS
