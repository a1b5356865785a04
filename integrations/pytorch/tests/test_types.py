"""The package and its tests are typed. Debian's PyTorch has no types of its own, so `atp.torch` is
checked with PyPI's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from test_fsdp import HAS_FSDP2, NEEDED

HERE = Path(__file__).parent


def check(cache: Path, *what: str) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), *what]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_is_typed(tmp_path: Path) -> None:
    check(tmp_path, "-p", "atp.collective")
    check(tmp_path, *(str(file) for file in sorted(HERE.glob("test_*.py"))))


def test_the_hooks_are_typed(tmp_path: Path) -> None:
    if not HAS_FSDP2:
        pytest.skip(NEEDED)
    check(tmp_path, "-p", "atp.torch")
