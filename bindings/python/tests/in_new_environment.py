"""Installs the wheel into an empty new environment, runs the README's example there, then the
tests: `python in_new_environment.py WHEEL FOLDER`. It prints outcomes as Rust's tests do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
EXAMPLE = "the_readme_s_example_in_an_empty_environment"


def main(wheel: str, folder: str) -> int:
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    python = str(Path(folder) / "bin/python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    subprocess.run([*pip, "install", "--quiet", "--no-index", wheel], check=True)
    listed = subprocess.run([*pip, "list", "--format=json"], check=True, stdout=subprocess.PIPE)
    names = {package["name"] for package in json.loads(listed.stdout)}
    assert names <= {"atp", "pip", "setuptools"}, f"the environment isn't empty: {names}"
    if os.environ.get("ATP_TEST_FILTER", "") in EXAMPLE:
        example = [python, str(HERE / "documents.py"), str(HERE.parents[2] / "README.md")]
        outcome = "FAILED" if subprocess.run(example).returncode else "ok"
        print(f"test {EXAMPLE} ... {outcome}", flush=True)
        counts = "0 passed; 1 failed" if outcome == "FAILED" else "1 passed; 0 failed"
        print(f"test result: {outcome}. {counts}; 0 ignored", flush=True)
    requirements = str(HERE / "requirements.txt")
    subprocess.run([*pip, "install", "--quiet", "--requirement", requirements], check=True)
    return subprocess.run([python, "-m", "pytest", "--quiet"], cwd=HERE.parent).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
