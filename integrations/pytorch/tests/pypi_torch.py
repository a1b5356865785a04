"""The environment with PyPI's PyTorch, for `cargo xtask test --torch pypi`:
`python pypi_torch.py ACTION FOLDER`. It needs nothing but Python with pip.

| action | what it does |
|---|---|
| probe | prints the folder, or fails if the environment isn't there |
| plan | prints what would be installed, and the size of the download |
| install | makes the environment |
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

REQUIREMENTS = Path(__file__).with_name("requirements-pypi.txt")
STATED = "3.1 GB in 36 files (of 2026-11-25: PyPI couldn't be asked)"
ASK_LIMIT_S = 120
PIP = ["-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]


def probe(folder: Path) -> str:
    # A copy of the requirements says that these, and not those of another version, are there.
    installed = (folder / REQUIREMENTS.name).read_text()
    if installed != REQUIREMENTS.read_text():
        raise SystemExit(f"{folder} has other versions")
    subprocess.run([folder / "bin/python", "--version"], check=True, stdout=subprocess.DEVNULL)
    return str(folder)


def plan(folder: Path) -> str:
    pins = [line for line in REQUIREMENTS.read_text().splitlines() if not line.startswith("#")]
    return (
        f"installing {', '.join(pins)} from PyPI into {folder}: a download of "
        f"{size()}, twice as much on disk"
    )


def install(folder: Path) -> str:
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    # A copy in pip's cache would take as much room again.
    pip = [str(folder / "bin/python"), *PIP, "--no-cache-dir", "--requirement", str(REQUIREMENTS)]
    subprocess.run(pip, check=True)
    (folder / REQUIREMENTS.name).write_text(REQUIREMENTS.read_text())
    return str(folder)


def size() -> str:
    """The size of the download, as PyPI tells it."""
    try:
        sizes = [length(package["download_info"]["url"]) for package in report()["install"]]
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError):
        return STATED
    return f"{sum(sizes) / 1e9:.1f} GB in {len(sizes)} files"


def report() -> dict[str, Any]:
    """What pip would install. It downloads the descriptions only."""
    dry = ["--dry-run", "--ignore-installed", "--report", "-", "--requirement", str(REQUIREMENTS)]
    pip = [sys.executable, *PIP, *dry]
    done = subprocess.run(pip, check=True, capture_output=True, timeout=ASK_LIMIT_S)
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed


def length(url: str) -> int:
    head = urllib.request.Request(url, method="HEAD")
    with urllib.request.urlopen(head, timeout=20) as answer:
        return int(answer.headers["Content-Length"])


ACTIONS = {"probe": probe, "plan": plan, "install": install}

if __name__ == "__main__":
    print(ACTIONS[sys.argv[1]](Path(sys.argv[2])))
