"""Makes an environment with the wheels beside PyTorch:
`python environment.py ATP_WHEEL TORCH_WHEEL FOLDER`. The Python is the one for which PyTorch is
installed. If it is that of the environment FOLDER, this one gets the wheels. Otherwise FOLDER
becomes a new one, with the system's PyTorch.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def make(atp_wheel: str, torch_wheel: str, folder: str) -> str:
    """Returns the environment's Python."""
    if Path(sys.prefix).resolve() != Path(folder).resolve():
        venv = [sys.executable, "-m", "venv", "--clear", "--system-site-packages", folder]
        subprocess.run(venv, check=True)
    python = str(Path(folder) / "bin/python")
    # The version stays the same while the code changes.
    install(python, "--no-index", "--no-deps", "--force-reinstall", atp_wheel, torch_wheel)
    return python


def install(python: str, *what: str) -> None:
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    subprocess.run([*pip, *what], check=True)


if __name__ == "__main__":
    make(*sys.argv[1:])
