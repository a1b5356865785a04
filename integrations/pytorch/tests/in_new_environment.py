"""Runs the tests in an environment of their own:
`python in_new_environment.py ATP_WHEEL TORCH_WHEEL FOLDER`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import environment

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements.txt"


def main(atp_wheel: str, torch_wheel: str, folder: str) -> int:
    python = environment.make(atp_wheel, torch_wheel, folder)
    environment.install(python, "--requirement", str(REQUIREMENTS))
    return subprocess.run([python, "-m", "pytest", "--quiet"], cwd=HERE.parent).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
