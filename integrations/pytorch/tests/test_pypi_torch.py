"""What is said before gigabytes are downloaded."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import pypi_torch


def test_the_plan_names_versions_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"https://a/torch.whl": 539_136_850, "https://a/cudnn.whl": 1_200_000_000}
    packages = [{"download_info": {"url": url}} for url in sizes]
    monkeypatch.setattr(pypi_torch, "report", lambda: {"install": packages})
    monkeypatch.setattr(pypi_torch, "length", sizes.__getitem__)
    said = pypi_torch.plan(Path("place"))
    assert said.startswith("installing torch==")
    assert "into place: a download of 1.7 GB in 2 files, twice as much on disk" in said


def test_the_plan_without_pypi(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise subprocess.CalledProcessError(1, "pip")

    monkeypatch.setattr(pypi_torch, "report", fails)
    assert f"a download of {pypi_torch.STATED}" in pypi_torch.plan(Path("place"))


def test_an_environment_of_other_versions_is_made_again(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        pypi_torch.probe(tmp_path)
    (tmp_path / pypi_torch.REQUIREMENTS.name).write_text("torch==2.14.0\n")
    with pytest.raises(SystemExit, match="has other versions"):
        pypi_torch.probe(tmp_path)
    # The versions alone don't do: its Python may have been removed.
    (tmp_path / pypi_torch.REQUIREMENTS.name).write_text(pypi_torch.REQUIREMENTS.read_text())
    with pytest.raises(FileNotFoundError):
        pypi_torch.probe(tmp_path)


def test_versions_are_pinned() -> None:
    lines = pypi_torch.REQUIREMENTS.read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all("==" in pin for pin in pins)
    assert any(pin.startswith("torch==") for pin in pins)
