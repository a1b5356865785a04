"""Environments with packages from PyPI that exclude others, for the tests of integrations:
`python pypi_environment.py ACTION FOLDER REQUIREMENTS`. It needs nothing but Python with pip.

| action | what it does |
|---|---|
| probe | prints the folder, or fails if the environment isn't there |
| check | fails if the environment isn't there and can't be made here |
| plan | prints what would be installed, and the size of the download |
| install | makes the environment |

The file of requirements has the packages that are meant, an empty line, and what these need. Its
comments may name the size, `# download: 3 GB`, and the versions of Python, `# python: 3.11 3.12`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

ASK_LIMIT_S = 120
PIP = ["-m", "pip", "--disable-pip-version-check", "--no-input"]
INSTALL = [*PIP, "install", "--quiet"]


def probe(folder: Path, requirements: Path) -> str:
    # A copy of the requirements says that these, and not those of another version, are there.
    installed = (folder / requirements.name).read_text()
    if installed != requirements.read_text():
        raise SystemExit(f"{folder} has other versions")
    subprocess.run([folder / "bin/python", "--version"], check=True, stdout=subprocess.DEVNULL)
    return str(folder)


def check(folder: Path, requirements: Path) -> str:
    try:
        return probe(folder, requirements)
    except (OSError, SystemExit, subprocess.SubprocessError):
        interpreter(requirements)
    name = meant(requirements)[0].split("==")[0]
    ask = [sys.executable, *PIP, "index", "versions", "--retries", "1", "--timeout", "20", name]
    asked = subprocess.run(ask, capture_output=True, text=True, timeout=ASK_LIMIT_S)
    if asked.returncode != 0:
        said = (asked.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise SystemExit(f"PyPI can't be asked for {name}: {said}")
    return f"{name} can be downloaded"


def plan(folder: Path, requirements: Path) -> str:
    return (
        f"installing {', '.join(meant(requirements))} from PyPI into {folder}: a download of "
        f"{size(requirements)}, twice as much on disk"
    )


def install(folder: Path, requirements: Path) -> str:
    subprocess.run([interpreter(requirements), "-m", "venv", "--clear", folder], check=True)
    # A copy in pip's cache would take as much room again.
    pip = [str(folder / "bin/python"), *INSTALL, "--no-cache-dir", "-r", str(requirements)]
    subprocess.run(pip, check=True)
    (folder / requirements.name).write_text(requirements.read_text())
    return str(folder)


def meant(requirements: Path) -> list[str]:
    lines = requirements.read_text().split("\n\n")[0].splitlines()
    return [line for line in lines if not line.startswith("#")]


def stated(requirements: Path, what: str) -> str:
    """The comment on this in the file, or nothing."""
    found = re.search(rf"^# {what}: (.*)$", requirements.read_text(), re.MULTILINE)
    return found[1] if found else ""


def interpreter(requirements: Path) -> str:
    """A Python that the packages support: this one, if they support it."""
    versions = stated(requirements, "python").split()
    this = f"{sys.version_info.major}.{sys.version_info.minor}"
    if not versions or this in versions:
        return sys.executable
    found = [path for version in versions if (path := shutil.which(f"python{version}"))]
    if not found:
        package, these = meant(requirements)[0], " or ".join(versions)
        raise SystemExit(f"{package} needs Python {these}; install one of them beside {this}")
    return found[-1]


def size(requirements: Path) -> str:
    """The size of the download, as PyPI tells it."""
    try:
        packages = report(requirements)["install"]
        sizes = [length(package["download_info"]["url"]) for package in packages]
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError):
        return f"{stated(requirements, 'download')} (PyPI couldn't be asked)"
    return f"{sum(sizes) / 1e9:.1f} GB in {len(sizes)} files"


def report(requirements: Path) -> dict[str, Any]:
    """What pip would install. It downloads the descriptions only."""
    dry = ["--dry-run", "--ignore-installed", "--report", "-", "--requirement", str(requirements)]
    pip = [interpreter(requirements), *INSTALL, *dry]
    done = subprocess.run(pip, check=True, capture_output=True, timeout=ASK_LIMIT_S)
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed


def length(url: str) -> int:
    head = urllib.request.Request(url, method="HEAD")
    with urllib.request.urlopen(head, timeout=20) as answer:
        return int(answer.headers["Content-Length"])


ACTIONS = {"probe": probe, "check": check, "plan": plan, "install": install}

if __name__ == "__main__":
    print(ACTIONS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3])))
