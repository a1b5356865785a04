"""What is said before gigabytes are downloaded, and when an environment can't be made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pypi_environment

INTEGRATIONS = Path(__file__).parents[3] / "integrations"
REQUIREMENTS = INTEGRATIONS / "pytorch/tests/requirements-pypi.txt"
FLINK = INTEGRATIONS / "flink/python/tests/requirements.txt"


def test_the_plan_names_versions_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"https://a/torch.whl": 539_136_850, "https://a/cudnn.whl": 1_200_000_000}
    packages = [{"download_info": {"url": url}} for url in sizes]
    monkeypatch.setattr(pypi_environment, "report", lambda _: {"install": packages})
    monkeypatch.setattr(pypi_environment, "length", sizes.__getitem__)
    said = pypi_environment.plan(Path("place"), REQUIREMENTS)
    assert said.startswith("installing torch==")
    assert "into place: a download of 1.7 GB in 2 files, twice as much on disk" in said


@pytest.mark.parametrize("requirements", [REQUIREMENTS, FLINK])
def test_the_plan_without_pypi(requirements: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Path) -> None:
        raise subprocess.CalledProcessError(1, "pip")

    monkeypatch.setattr(pypi_environment, "report", fails)
    said = pypi_environment.plan(Path("place"), requirements)
    assert " GB in " in said
    assert "(PyPI couldn't be asked)" in said
    assert said.count("==") <= 3


def test_an_environment_of_other_versions_is_made_again(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        pypi_environment.probe(tmp_path, REQUIREMENTS)
    (tmp_path / REQUIREMENTS.name).write_text("torch==2.14.0\n")
    with pytest.raises(SystemExit, match="has other versions"):
        pypi_environment.probe(tmp_path, REQUIREMENTS)
    # The versions alone don't do: its Python may have been removed.
    (tmp_path / REQUIREMENTS.name).write_text(REQUIREMENTS.read_text())
    with pytest.raises(FileNotFoundError):
        pypi_environment.probe(tmp_path, REQUIREMENTS)


def test_a_python_that_the_packages_support_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requirements = tmp_path / "requirements.txt"
    this = f"{sys.version_info.major}.{sys.version_info.minor}"
    for versions in ("", f"# python: 3.1 {this}\n"):
        requirements.write_text(f"{versions}old==1\n")
        assert pypi_environment.interpreter(requirements) == sys.executable
    requirements.write_text("# python: 3.1 3.2\nold==1\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=r"old==1 needs Python 3\.1 or 3\.2; install one"):
        pypi_environment.check(tmp_path / "none", requirements)
    (tmp_path / "python3.1").touch(0o755)
    assert pypi_environment.interpreter(requirements) == str(tmp_path / "python3.1")


def test_without_pypi_no_environment_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(SystemExit, match="PyPI can't be asked for torch: "):
        pypi_environment.check(tmp_path, REQUIREMENTS)


@pytest.mark.parametrize("requirements", [REQUIREMENTS, FLINK])
def test_versions_are_pinned(requirements: Path) -> None:
    lines = requirements.read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all("==" in pin for pin in pins)
    first = pypi_environment.meant(requirements)[0]
    assert first.startswith(("torch==", "apache-flink=="))
