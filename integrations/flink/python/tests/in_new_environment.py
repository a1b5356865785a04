"""Runs the tests in the environment of PyFlink: `python in_new_environment.py ATP_WHEEL FOLDER`.
The Python is that of the environment, which gets the wheel. The bundle lies beside the environment.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
# The version of the wheel stays the same while the code changes.
OPTIONS = ["--quiet", "--no-index", "--no-deps", "--force-reinstall"]


def main(wheel: str, folder: str) -> int:
    assert Path(sys.prefix).resolve() == Path(folder).resolve(), f"not the Python of {folder}"
    subprocess.run([*PIP, *OPTIONS, wheel], check=True)
    tests = [sys.executable, "-m", "pytest", "--quiet"]
    return subprocess.run(tests, cwd=Path(__file__).parents[1]).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
