"""Runs the tests in an environment of their own:
`python in_new_environment.py ATP_WHEEL TORCH_WHEEL FOLDER [FILTER]`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import environment

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements.txt"


def main(atp_wheel: str, torch_wheel: str, folder: str, *words: str) -> int:
    python = environment.make(atp_wheel, torch_wheel, folder)
    environment.install(python, "--requirement", str(REQUIREMENTS))
    # Words of a filter: no test with them is no failure here.
    tests = [python, "-m", "pytest", "--quiet", "-k", " and ".join(words)]
    code = subprocess.run([*tests, str(HERE)], cwd=HERE.parent).returncode
    return 0 if words and code == 5 else code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
