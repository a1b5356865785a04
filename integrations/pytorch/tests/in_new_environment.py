"""Installs the wheels beside PyTorch, and runs the tests there:
`python in_new_environment.py ATP_WHEEL TORCH_WHEEL FOLDER [FILTER]`. The Python is the one for which
PyTorch is installed. If it is that of the environment FOLDER, this one is used. Otherwise FOLDER
becomes a new one, with the system's PyTorch.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements.txt"


def main(atp_wheel: str, torch_wheel: str, folder: str, *words: str) -> int:
    if Path(sys.prefix).resolve() != Path(folder).resolve():
        venv = [sys.executable, "-m", "venv", "--clear", "--system-site-packages", folder]
        subprocess.run(venv, check=True)
    python = str(Path(folder) / "bin/python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    # The version stays the same while the code changes.
    wheels = ["--no-index", "--no-deps", "--force-reinstall", atp_wheel, torch_wheel]
    subprocess.run([*pip, *wheels], check=True)
    subprocess.run([*pip, "--requirement", str(REQUIREMENTS)], check=True)
    # Words of a filter: no test with them is no failure here.
    tests = [python, "-m", "pytest", "--quiet", "-k", " and ".join(words)]
    code = subprocess.run([*tests, str(HERE)], cwd=HERE.parent).returncode
    return 0 if words and code == 5 else code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
