"""The samples of the guide run as they stand, with two ranks, and are typed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs PyTorch")

from test_fsdp import HAS_FSDP2, NEEDED  # noqa: E402
from test_torch import LIMIT_S, free_port  # noqa: E402

PAGE = Path(__file__).parents[3] / "docs/src/guide/pytorch.md"
SAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_a_sample_runs(number: int) -> None:
    sample = SAMPLES[number]
    if "fully_shard" in sample and not HAS_FSDP2:
        pytest.skip(NEEDED)
    ranks = 2 if "WORLD_SIZE" in sample else 1
    told = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks)}
    processes = [
        subprocess.Popen([sys.executable, "-c", sample], env={**os.environ, **told, "RANK": str(rank)})
        for rank in range(ranks)
    ]
    try:
        assert [process.wait(LIMIT_S) for process in processes] == [0] * ranks
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_the_first_sample_starts_as_the_page_says(tmp_path: Path) -> None:
    block = re.search(r"^```sh\n([^`]*train\.py[^`]*)^```", PAGE.read_text(), re.MULTILINE)
    assert block is not None
    (tmp_path / "train.py").write_text(SAMPLES[0])
    # The page's own port may be taken on this host.
    script = block[1].replace("29500", str(free_port()))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ended = subprocess.run(
        ["sh", "-ec", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        timeout=LIMIT_S,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert ended.returncode == 0
    assert ended.stdout.count("Stats(reductions=10") == 2, "both ranks"


def test_the_sample_of_a_store_gives_up() -> None:
    sample = next(sample for sample in SAMPLES if "class Store" in sample)
    for old, new in [("range(2)", "range(1)"), ('"127.0.0.1")', '"127.0.0.1", timeout_s=0.5)')]:
        assert old in sample
        sample = sample.replace(old, new)
    alone = [sys.executable, "-c", sample]
    ended = subprocess.run(alone, timeout=LIMIT_S, stderr=subprocess.PIPE, text=True)
    assert "rank 1 hasn't joined after 0.5 s" in ended.stderr


def test_there_are_samples() -> None:
    assert len(SAMPLES) >= 5
    assert any("fully_shard" in sample for sample in SAMPLES)
