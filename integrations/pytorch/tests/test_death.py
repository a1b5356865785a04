"""The process of a rank ends in the middle of a step. The others learn it within the stated time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mortal import DIES, LAST_BREATH_S, RANKS

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
