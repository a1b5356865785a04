"""The programs of the guide's section on PyFlink run as they stand, one against the other, except
for the address: both have one of the loopback."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import threading
from pathlib import Path

from flink_tables import address, bundle

PAGE = Path(__file__).parents[4] / "docs/src/guide/flink.md"
SAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
# The hour is that of the machine's time zone.
ROW = re.compile(r"\d\d:\d(\d) room (\d): (\S+) \((\S+) to (\S+)\)$")
LIMIT_S = 150.0


def start(sample: str, old: str, new: str, folder: Path) -> subprocess.Popen[str]:
    assert sample.count(old) == 1
    program = [sys.executable, "-W", "ignore", "-c", sample.replace(old, new)]
    return subprocess.Popen(program, cwd=folder, stdout=subprocess.PIPE, text=True)


def test_the_programs_run(tmp_path: Path) -> None:
    reader, writer = SAMPLES
    (tmp_path / "target").mkdir()
    (tmp_path / "target/jars").symlink_to(bundle().parent)
    here = address()
    reads = start(reader, "0.0.0.0:4747", here, tmp_path)
    writes = start(writer, "10.0.0.2:4747", here, tmp_path)
    ends = [threading.Timer(LIMIT_S, process.kill) for process in (reads, writes)]
    try:
        for end in ends:
            end.start()
        # Five minutes of four rooms.
        lines = list(itertools.islice(reads.stdout or [], 20))
        assert writes.wait() == 0, "the writer failed, or took too long"
    finally:
        for end, process in zip(ends, (reads, writes)):
            end.cancel()
            process.kill()
            process.wait()
    assert len(lines) == 20, f"the reader failed, or took too long: {lines}"
    rows = [row.groups() for line in lines if (row := ROW.match(line))]
    assert sorted(row[:2] for row in rows) == [(m, r) for m in "01234" for r in "0123"], lines
    for mean, low, high in (map(float, row[2:]) for row in rows):
        assert low <= mean <= high
        # Bounds of the values, whatever is drawn.
        assert 20.0 <= mean <= 22.0
