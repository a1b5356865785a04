"""The samples of the README and of the guide run, and are typed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from documents import run, samples

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PATHS = ["README.md", "bindings/python/README.md"]
PATHS += ["docs/src/guide/python.md", "docs/src/guide/stored.md"]
PATHS += ["docs/src/guide/kafka-python.md"]
PAGES = [ROOT / path for path in PATHS]
SAMPLES = [(page, sample) for page in PAGES for sample in samples(page)]


# A line that each sample prints, by a word that no other sample has.
OUTPUTS = {
    "job.finish()": r"^(9\d{3}|10000)$",
    "job.report is not None": r"^(9\d{3}|10000) delivered$",
    '"lost")': r"^\d+ 800 bytes\n(.*\n)*\d+ lost$",
    "window_deadline": r"^window 2 complete$",
    "overlap_windows": r"^window 2: 3 windows$",
    "numpy": r"^1\.(49|50?)\d*$",
    "asyncio": r"^100 delivered$",
    "part.to_bytes": r"^40 messages, 2\.875$",
    "window.number == 2": r"^readings \[0\], window 2: \d+ records lost\nmean 2[01]\.\d+",
    "by room": r"^30\.00 .*\n3\d\d.* \(.*\n(.*\n)*0 .*\n1 .*\n2 ",
    "sender.confirmed": r"^3 windows confirmed$",
    "answering.answers": r"^AA 3\.00 .*\nUA 2\.\d+ \(",
    "planner.report": r"\(.*95 %(; \d+ warnings?)?\).* the error is .*[0-4]\.\d+ % of 5\.00 % accepted(, .*warning.*)?$",
}


@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_a_sample_runs(number: int) -> None:
    sample = SAMPLES[number][1]
    (wanted,) = [wanted for word, wanted in OUTPUTS.items() if word in sample]
    output = run(sample)
    assert re.search(wanted, output, re.MULTILINE), output


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
