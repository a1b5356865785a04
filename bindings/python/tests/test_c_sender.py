"""The sample of the guide's page on C sends a table to `atp.receive`."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ends import LIMIT_S
from tables import both

ROOT = Path(__file__).parents[3]
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror"]


def library() -> Path:
    """The library for C that the tests in Rust have built last."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = target.glob("*/deps/libatp_c.so")
    newest = max(built, key=lambda path: path.stat().st_mtime, default=None)
    if newest is None:
        pytest.skip("needs libatp_c: build it by `cargo test --no-run -p atp-c`")
    return newest


def test_a_program_in_c_sends_a_table(tmp_path: Path) -> None:
    page = (ROOT / "docs/src/guide/c.md").read_text().partition("## Send a table\n")[2]
    source, program = tmp_path / "table.c", str(tmp_path / "table")
    found = re.search(r"^```c\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    source.write_text(found[1])
    folder = library().parent
    flags = [f"-I{ROOT / 'bindings/c/include'}", f"-L{folder}", "-latp_c", f"-Wl,-rpath,{folder}"]
    subprocess.run(["cc", *STRICT, str(source), "-o", program, *flags], check=True)

    def send(peer: Any) -> None:
        subprocess.run([program, "{}:{}".format(*peer)], check=True, timeout=LIMIT_S)

    answers = both(send, query="SELECT avg(delay_min), count(*) GROUP BY carrier")
    got = [(key, mean.value, count.value) for key, mean, count in answers.rows]
    assert got == [("AA", 3.0, 1.0), ("UA", 9.5, 2.0)] and answers.verdict == "fine"
    rows = both(send, as_="frame").to_pandas()
    assert sorted(rows["delay_min"]) == ["12", "3", "7"]
