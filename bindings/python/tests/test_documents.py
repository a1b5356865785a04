"""The samples of the README and of the guide run, and are typed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from documents import run, samples

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs/src/guide/python.md"]
SAMPLES = [(page, sample) for page in PAGES for sample in samples(page)]


@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_a_sample_runs(number: int) -> None:
    run(SAMPLES[number][1])


def test_package_tests_and_samples_are_typed(tmp_path: Path) -> None:
    files = [str(file) for file in sorted(HERE.glob("*.py"))]
    for number, (page, sample) in enumerate(SAMPLES):
        file = tmp_path / f"{page.stem.lower()}_{number}.py"
        file.write_text(sample)
        files.append(str(file))
    check = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    for what in (["-p", "atp"], files):
        done = subprocess.run([*check, *what], cwd=HERE, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
