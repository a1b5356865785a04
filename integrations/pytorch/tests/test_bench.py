"""The measured training, in brief: two ranks on this host."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs PyTorch")

from atp.collective import Region, Uniform  # noqa: E402
from ranks import options  # noqa: E402
from test_torch import LIMIT_S, free_port  # noqa: E402

SCRIPT = Path(__file__).parents[1] / "bench/train.py"
STEPS = 15
"""PowerSGD begins at step 2."""


def train(folder: Path, **changed: Any) -> list[list[dict[str, Any]]]:
    """The lines of both ranks."""
    told = {
        "ranks": 2, "device": "lo", "master": "127.0.0.1", "port": free_port(),
        "barrier": str(folder / "barrier"), "model": "mlp", "seed": 1, "steps": STEPS,
        "evaluate_every": 5, "limit_s": 60, "control_socket": None, **changed,
    }  # fmt: skip
    ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), json.dumps({**told, "rank": rank})],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [rank.communicate(timeout=LIMIT_S)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    return [[json.loads(line) for line in text.splitlines()] for text in said]


def accuracies(lines: list[dict[str, Any]]) -> list[float]:
    return [line["evaluation"]["accuracy"] for line in lines if "evaluation" in line]


ATP: dict[str, Any] = {"hook": "atp", "options": {"msr": 1.0, "missing": "zero"}}
LOSSY: dict[str, Any] = {"hook": "atp", "options": {"missing": "mean", "wire": "float16"}}
GLOO, NOOP = {"hook": "gloo"}, {"hook": "noop"}
HOOKS: list[dict[str, Any]] = [GLOO, {"hook": "fp16"}, {"hook": "power-sgd"}, NOOP, ATP, LOSSY]


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: str(hook["hook"]))
def test_every_hook_trains(hook: dict[str, Any], tmp_path: Path) -> None:
    first, second = train(tmp_path, **hook)
    for lines in (first, second):
        end = lines[-1]["end"]
        assert len(end["step_ns"]) == STEPS and len(end["windows_ns"]) == STEPS // 5
        assert (end["counters"].get("reductions", 0) > 0) == (hook["hook"] == "atp")
    assert len(accuracies(first)) == STEPS // 5 and accuracies(first)[-1] > 0.6
    assert accuracies(second) == [], "only rank 0 evaluates"


def test_power_sgd_trains_more_than_a_megabyte(tmp_path: Path) -> None:
    """PyTorch's first bucket ends there, and with several buckets it broke."""
    for lines in train(tmp_path, hook="power-sgd", model="conv", steps=40):
        assert len(lines[-1]["end"]["step_ns"]) == 40


def test_atp_and_gloo_train_alike(tmp_path: Path) -> None:
    """At MSR 1 both reach equal accuracies, with two ranks. `test_torch.py` compares the bits."""
    alike = []
    for number, hook in enumerate([ATP, {"hook": "gloo"}]):
        folder = tmp_path / str(number)
        folder.mkdir()
        alike.append(accuracies(train(folder, **hook)[0]))
    assert alike[0] == alike[1] != []


def test_a_seed_is_another_training(tmp_path: Path) -> None:
    (tmp_path / "2").mkdir()
    first, _ = train(tmp_path, hook="noop")
    second, _ = train(tmp_path / "2", hook="noop", seed=2)
    assert accuracies(first) != accuracies(second)


def test_the_limit_ends_a_training(tmp_path: Path) -> None:
    for lines in train(tmp_path, hook="gloo", model="conv", limit_s=0):
        assert len(lines[-1]["end"]["step_ns"]) == 5


def test_an_error_is_a_sentence(tmp_path: Path) -> None:
    wrong = {"hook": "atp", "options": {"msr": 1.0, "missing": "pray"}}
    for lines in train(tmp_path, **wrong):
        assert "missing='pray'" in lines[-1]["error"]["sentence"]


@pytest.mark.parametrize("missing", ["zero", "mean", "feedback", "hadamard"])
def test_policies_average_what_arrives(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    policies = importlib.import_module("policies")
    arrays = [np.random.default_rng(rank).standard_normal(9_000).astype("f4") for rank in range(3)]
    regions = [Region(8_000, "weight"), Region(1_000, "bias", exact=True)]
    mean = np.mean(arrays, axis=0)

    def error(msr: float) -> float:
        each = options(groups=Uniform(msr), missing=missing, wire=policies.WIRE)
        ranks = policies.Ranks(regions, 3, each, "any", 1)
        return float(np.abs(ranks.mean(0, arrays) - mean).max())

    assert error(1.0) < 5e-3
    assert error(0.2) > 0.1
