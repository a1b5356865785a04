"""The package and its tests are typed. Debian's PyTorch has no types of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_the_package_is_typed(tmp_path: Path) -> None:
    check = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path)]
    tests = [str(file) for file in sorted(HERE.glob("test_*.py"))]
    for what in (["-p", "atp.collective"], tests):
        done = subprocess.run([*check, *what], cwd=HERE, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
