"""Trainings of PyTorch over ATP, beside those over gloo. Each rank is a process."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atp.collective import CollectiveError

torch = pytest.importorskip("torch", reason="needs PyTorch")

from atp.torch import kinds  # noqa: E402
from atp.torch.tensors import to_array  # noqa: E402

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
    told = "gradients of torch.int64 can't be reduced (parameter of shape (10, 1))" if kind == "CollectiveError" else "own"
    first, second = train(2, raises=kind)
    assert first["error"].startswith(f"{kind}: {told}")
    assert second["error"].startswith(f"CollectiveError: rank 0: {kind}: {told}")


def test_a_sparse_gradient() -> None:
    """Every rank learns it before anything is sent."""
    told = "CollectiveError: sparse gradients can't be reduced (parameter 0.weight): make its"
    for outcome in train(2, sparse=True, known=True):
        assert outcome["error"].startswith(told), outcome


def test_a_sparse_gradient_of_an_unknown_model() -> None:
    """The state has no model, so the parameter has no name, and others may have been sent."""
    for outcome in train(2, sparse=True, known=False):
        assert "sparse gradients can't be reduced (parameter of shape (50, 16))" in outcome["error"]


def test_a_sparse_gradient_that_is_not_reduced() -> None:
    trained(2, sparse=True, known=True, ignored=["0.weight"])


def test_a_complex_gradient_of_a_model() -> None:
    """Gloo of Debian's PyTorch can't copy such models, so there is no training of one."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2, dtype=torch.complex64))
    with pytest.raises(CollectiveError, match=r"torch.complex64 can't be .* \(parameter 1.weight\)"):
        kinds.require_reducible(model)
    model[1].requires_grad_(False)
    kinds.require_reducible(model)


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (lambda: torch.zeros(3, dtype=torch.int32), "gradients of torch.int32"),
        (lambda: torch.zeros(3, dtype=torch.complex64), "gradients of torch.complex64"),
        (lambda: torch.zeros(3, dtype=torch.bool), "gradients of torch.bool"),
        (lambda: torch.zeros(3).to_sparse(), "sparse gradients"),
        (lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), "nested gradients"),
        (lambda: torch.zeros(3, device="meta"), "gradients on the device meta"),
        (
            lambda: torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8),
            "gradients of torch.qint8",
        ),
    ],
)
def test_a_tensor_that_is_no_row_of_numbers(tensor: Any, words: str) -> None:
    told = re.escape(f"{words} can't be reduced (parameter a): ")
    with pytest.raises(CollectiveError, match=told) as raised:
        to_array(tensor(), lambda: "parameter a")
    assert ("sparse=False" in str(raised.value)) == (words == "sparse gradients")


def test_an_outer_step_takes_numbers_only() -> None:
    for outcome in train(2, complex=True, outer=DILOCO):
        told = "gradients of torch.complex64 can't be reduced (parameter 0.turn): use one of"
        assert told in outcome["error"]


@pytest.mark.parametrize("outer", [None, DILOCO], ids=["gradients", "outer steps"])
def test_values_too_large_for_messages(outer: dict[str, float] | None) -> None:
    """A finite gradient is no NaN: the error names the type of messages, and the parameter."""
    for outcome in train(2, large=[1, 7], outer=outer, options={"wire": "float16"}):
        text = outcome["error"]
        assert re.search("of rank 1 in step [17] has the value -?[1-9]", text), text
        assert "(parameter 0.weight), and messages of float16 hold 65504 at most: set wire=" in text
        assert "NaN" not in text and "learning rate" not in text


def test_a_name_for_each_training_of_a_store(tmp_path: Path) -> None:
    """The second training's rank 1 finds the addresses of the first one, and waits for new ones."""
    for name, late_s in [("first", [0.0, 0.0]), ("second", [2.0, 0.0])]:
        trained(2, store=str(tmp_path / "store"), name=name, late_s=late_s)


def test_no_number() -> None:
    for outcome in train(3, nan=[1, 2]):
        assert "of rank 1 in step 2 has NaN or infinite values (parameter " in outcome["error"]


def test_a_rank_dies() -> None:
    # The test fails by its limit if it is a timeout that ends the training.
    options = {"timeout_s": 600.0, "peer_timeout_s": 600.0}
    outcomes = train(3, dies=[1, 3], options=options)
    assert outcomes[1] == {}
    for outcome in (outcomes[0], outcomes[2]):
        assert outcome["error"].startswith("CollectiveError: rank 1 doesn't answer"), outcome
