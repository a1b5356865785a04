"""The process of a rank ends in the middle of a step: the others learn it within the stated time. A
slow rank is none that ended.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from atp.collective import AllReduce, Uniform
from mortal import DIES, LAST_BREATH_S, RANKS
from ranks import options, run

PEER_TIMEOUT_S = 2.0
# The test fails if it is this one that ends the step.
TIMEOUT_S = 40.0
CLOSING_S = 10.0
"""A question a second, the farewell, and a busy machine."""


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
    told = {
        "folder": str(tmp_path),
        "operation": operation,
        "dies_in": dies_in,
        "peer_timeout_s": PEER_TIMEOUT_S,
        "timeout_s": TIMEOUT_S,
    }
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
        printed = [process.communicate(timeout=2 * TIMEOUT_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert printed.pop(DIES) == ""
    for line in printed:
        outcome = json.loads(line)
        assert outcome["error"].startswith(f"rank {DIES} doesn't answer"), outcome
        assert outcome["after_s"] < LAST_BREATH_S + PEER_TIMEOUT_S + CLOSING_S


@pytest.mark.parametrize("operation", ["all_reduce", "reduce_scatter"])
def test_a_rank_is_slow(operation: str) -> None:
    """The others' questions come before their next messages, and change nothing."""

    def one(collective: AllReduce) -> list[float]:
        means = []
        for step in range(3):
            if collective.rank == DIES:
                time.sleep(2.5)
            array = np.full(10_000, collective.rank + step, np.float32)
            means.append(float(getattr(collective, operation)("array", array).result().mean()))
        return means

    each = options(groups=Uniform(1.0), missing="feedback", mean_share=0.999)
    assert run(RANKS, one, lambda rank: each) == [[1.0, 2.0, 3.0]] * RANKS
