"""FSDP2 over ATP, beside FSDP2 over gloo. Each rank is a process."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs PyTorch")

import torch  # noqa: E402

import atp.torch  # noqa: E402
from atp.torch import CollectiveError, State, shard_over_atp  # noqa: E402
from test_torch import train, trained  # noqa: E402

HAS_FSDP2 = int(torch.__version__.split(".")[0]) >= 2
NEEDED = "needs pypi_torch: FSDP2 is in PyPI's torch (--torch pypi)"
needs_fsdp2 = pytest.mark.skipif(not HAS_FSDP2, reason=NEEDED)

SCRIPT = "fsdp_training.py"
REDUCTIONS = 48
"""The reductions of four groups of parameters in twelve steps."""
PEER_TIMEOUT_S = 2.0
CLOSING_S = 10.0
"""A keepalive a second, the abort, and a busy machine."""


def over_atp(ranks: int, **case: Any) -> dict[str, Any]:
    """The outcome of all ranks: each gathered the same parameters."""
    outcome = trained(ranks, script=SCRIPT, **case)
    assert outcome["reductions"] > 0
    return outcome


def over_gloo(ranks: int, **case: Any) -> dict[str, Any]:
    outcome = trained(ranks, script=SCRIPT, hook="gloo", **case)
    assert outcome["reductions"] == 0
    return outcome


@needs_fsdp2
@pytest.mark.parametrize(
    "case",
    [
        {},
        # Half precisions are divided before and after the sum.
        {"reduce": "float16"},
        {"reduce": "bfloat16", "param": "bfloat16"},
        {"sum": True, "factor": 3.0},
        {"accumulate": 3},
        {"unused": True},
        {"freezes": 5},
        {"async": True},
    ],
    ids=["single", "half", "bfloat16", "sum", "accumulated", "unused", "frozen", "async"],
)
def test_two_ranks_train_as_with_gloo_to_the_bit(case: dict[str, Any]) -> None:
    ours = over_atp(2, **case)
    assert ours["digest"] == over_gloo(2, **case)["digest"]
    assert ours["reductions"] == (REDUCTIONS // 3 if "accumulate" in case else REDUCTIONS)


@needs_fsdp2
def test_three_ranks_train_as_with_gloo() -> None:
    ours, theirs = over_atp(3), over_gloo(3)
    np.testing.assert_allclose(ours["values"], theirs["values"], rtol=1e-5, atol=1e-6)


@needs_fsdp2
def test_a_divide_factor_that_gloo_has_not() -> None:
    """It makes a PREMUL_SUM. Gloo can multiply after the sum only."""
    ours, theirs = over_atp(2, factor=3.0), over_gloo(2, factor=3.0, sum=True)
    np.testing.assert_allclose(ours["values"], theirs["values"], rtol=1e-5, atol=1e-6)


@needs_fsdp2
@pytest.mark.parametrize(
    "case",
    [
        {"options": {"groups": 0.5}},
        {"options": {"groups": 0.5, "missing": "feedback"}, "unused": True},
        {"options": {"groups": 0.7, "missing": "hadamard"}},
        {"options": {"groups": 0.5, "missing": "mean"}, "reduce": "bfloat16"},
    ],
    ids=["zero", "feedback", "hadamard", "bfloat16"],
)
@pytest.mark.parametrize("ranks", [2, 3])
def test_training_goes_on_with_losses(ranks: int, case: dict[str, Any]) -> None:
    ours = over_atp(ranks, **case)
    assert ours["lost"] > 0, "nothing was lost: the test shows nothing"
    losses = ours["losses"]
    assert sum(losses[-3:]) < sum(losses[:3])


@needs_fsdp2
@pytest.mark.parametrize("unused", [False, True])
def test_norms_and_biases_arrive_whole(unused: bool) -> None:
    """So do they where shards are padded, and where some parameters get no gradient."""
    ours = over_atp(2, options={"groups": 0.3}, gradients=True, unused=unused)
    theirs = over_gloo(2, gradients=True, unused=unused)
    assert ours["lost"] > 0, "nothing was lost: the test shows nothing"
    assert ours["short"] == theirs["short"]
    assert ours["matrices"] != theirs["matrices"]


@needs_fsdp2
def test_replicas_of_shards_are_the_same() -> None:
    """Two groups of two ranks (HSDP): each gathers the parameters from its own shards."""
    assert over_atp(4, replicas=2, options={"groups": 0.5})["lost"] > 0


@needs_fsdp2
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_rank_dies_in_a_reduction(ranks: int) -> None:
    # The test fails if it is the longer one that ends the job.
    options = {"timeout_s": 45.0, "peer_timeout_s": PEER_TIMEOUT_S}
    outcomes = train(ranks, script=SCRIPT, dies_in=[1, 3, "blocks.1"], options=options)
    assert outcomes.pop(1) == {}
    for outcome in outcomes:
        assert outcome["error"].startswith("CollectiveError: rank 1 doesn't answer"), outcome
        assert outcome["after_s"] < PEER_TIMEOUT_S + CLOSING_S


@needs_fsdp2
def test_a_rank_dies_elsewhere() -> None:
    """The process group may learn it first."""
    options = {"timeout_s": 45.0, "peer_timeout_s": PEER_TIMEOUT_S}
    outcomes = train(3, script=SCRIPT, dies=[1, 3], options=options)
    assert outcomes.pop(1) == {}
    for outcome in outcomes:
        assert "Error: " in outcome["error"], outcome
        assert outcome["after_s"] < PEER_TIMEOUT_S + CLOSING_S


@needs_fsdp2
def test_no_number() -> None:
    for outcome in train(2, script=SCRIPT, nan=[1, 2]):
        assert "of rank 1 has NaN or infinite values in step 2" in outcome["error"]


@needs_fsdp2
def test_the_state_has_another_group() -> None:
    outcomes = train(3, script=SCRIPT, wrong_group=[0, 1])
    for outcome in outcomes[:2]:
        assert "the model is sharded over ranks (0, 1, 2), the state has (0, 1)" in outcome["error"]
    assert "this process isn't in the process group" in outcomes[2]["error"]


@needs_fsdp2
def test_a_model_that_was_not_wrapped() -> None:
    # The state is used for wrapped modules only.
    state = State.__new__(State)
    with pytest.raises(CollectiveError, match="call fully_shard first"):
        shard_over_atp(state, torch.nn.Linear(2, 2))


def test_a_pytorch_without_fsdp2(monkeypatch: pytest.MonkeyPatch) -> None:
    if HAS_FSDP2:
        monkeypatch.setitem(sys.modules, "torch.distributed.fsdp", None)
        monkeypatch.delitem(sys.modules, "atp.torch.scatter", raising=False)
        monkeypatch.delattr(atp.torch, "scatter", raising=False)
    state = State.__new__(State)
    with pytest.raises(CollectiveError, match="^FSDP2 over ATP needs PyTorch 2.15 or newer: this is"):
        shard_over_atp(state, torch.nn.Linear(2, 2))
