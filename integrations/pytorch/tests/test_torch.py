"""Trainings of PyTorch over ATP, beside those over gloo. Each rank is a process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs PyTorch")

LIMIT_S = 50
DILOCO = {"lr": 0.7, "momentum": 0.9}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def train(ranks: int, *, script: str = "training.py", **case: Any) -> list[dict[str, Any]]:
    """What each rank printed. A rank that died printed nothing."""
    script = str(Path(__file__).with_name(script))
    port = str(free_port())
    told = json.dumps({"hook": "atp", **case})
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", script, str(rank), str(ranks), port, told],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    outcomes = []
    try:
        for process in processes:
            printed, _ = process.communicate(timeout=LIMIT_S)
            lines = printed.splitlines()
            outcomes.append(json.loads(lines[-1]) if lines else {})
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return outcomes


def trained(ranks: int, *, script: str = "training.py", **case: Any) -> dict[str, Any]:
    """The outcome of all ranks, after a check that it is the same."""
    outcomes = train(ranks, script=script, **case)
    for outcome in outcomes:
        assert outcome.get("digest") == outcomes[0].get("digest") is not None, outcomes
        assert outcome["threads"] == 0
    return outcomes[0]


def test_two_ranks_train_as_with_gloo_to_the_bit() -> None:
    assert trained(2)["digest"] == trained(2, hook="gloo")["digest"]


@pytest.mark.parametrize("ranks", [3, 4])
def test_more_ranks_train_as_with_gloo(ranks: int) -> None:
    ours, theirs = trained(ranks), trained(ranks, hook="gloo")
    np.testing.assert_allclose(ours["values"], theirs["values"], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "options",
    [
        {"groups": 0.5},
        {"groups": 0.1, "missing": "mean"},
        {"groups": 0.5, "missing": "feedback", "wire": "float16"},
        {"groups": 0.7, "missing": "hadamard"},
        {"groups": "magnitude", "wire": "bfloat16"},
    ],
)
def test_replicas_are_the_same_at_every_rate(options: dict[str, Any]) -> None:
    assert np.isfinite(trained(3, options=options)["loss"])


def test_double_precision() -> None:
    trained(2, dtype="float64", options={"groups": 0.9})
    ours, theirs = (trained(2, dtype="float64", hook=hook) for hook in ("atp", "gloo"))
    assert ours["digest"] == theirs["digest"]


@pytest.mark.parametrize(("dtype", "error"), [("bfloat16", 0.02), ("float16", 0.002)])
def test_half_precision(dtype: str, error: float) -> None:
    """Tensors: gloo of Debian's PyTorch can't copy such models."""
    trained(2, tensor=dtype, error=error)


def test_groups_of_ranks_are_apart() -> None:
    trained(4, groups_of_ranks=[[0, 1], [2, 3]])


def test_outer_steps_keep_replicas_the_same() -> None:
    assert np.isfinite(trained(2, outer=DILOCO, options={"groups": 0.5})["loss"])


@pytest.mark.parametrize("outer", [{"lr": 1.0}, DILOCO], ids=["LocalSGD", "DiLoCo"])
def test_outer_steps_are_those_of_one_process(outer: dict[str, float]) -> None:
    ours, (expected,) = trained(2, outer=outer), train(1, ranks_here=2, outer=outer)
    np.testing.assert_allclose(ours["values"], expected["values"], rtol=1e-4, atol=1e-6)


def test_a_group_function_that_omits_values() -> None:
    for outcome in train(3, options={"groups": "wrong"}):
        assert outcome["error"].startswith("CollectiveError: ")
        assert "it has to give each chunk one" in outcome["error"]


def test_a_ddp_wrapper_has_the_names_of_its_model() -> None:
    ours, theirs = trained(2, of="ddp", options={"groups": "named"}), trained(2, hook="gloo")
    assert ours["digest"] == theirs["digest"]


def test_a_policy_by_name_needs_the_model() -> None:
    for outcome in train(2, of="none", options={"groups": "by-layer"}):
        assert outcome["error"].startswith("CollectiveError: ByLayer goes by names of parameters")
        assert outcome["error"].endswith("give State the model that has it")


@pytest.mark.parametrize("kind", ["RuntimeError", "NotImplementedError", "CollectiveError"])
def test_an_error_of_the_users_code_stays_what_it_is(kind: str) -> None:
    told = "gradients of torch.int64 can't be reduced" if kind == "CollectiveError" else "own"
    first, second = train(2, raises=kind)
    assert first["error"].startswith(f"{kind}: {told}")
    assert second["error"].startswith(f"CollectiveError: rank 0: {kind}: {told}")


def test_a_name_for_each_training_of_a_store(tmp_path: Path) -> None:
    """The second training's rank 1 finds the addresses of the first one, and waits for new ones."""
    for name, late_s in [("first", [0.0, 0.0]), ("second", [2.0, 0.0])]:
        trained(2, store=str(tmp_path / "store"), name=name, late_s=late_s)


def test_no_number() -> None:
    for outcome in train(3, nan=[1, 2]):
        assert "of rank 1 has NaN or infinite values in step 2" in outcome["error"]


def test_a_rank_dies() -> None:
    # The test fails if it is the longer one that ends the job.
    options = {"timeout_s": 60.0, "peer_timeout_s": 2.0}
    outcomes = train(3, dies=[1, 3], options=options)
    assert outcomes[1] == {}
    for outcome in (outcomes[0], outcomes[2]):
        assert outcome["error"].startswith("CollectiveError: rank 1 doesn't answer"), outcome
