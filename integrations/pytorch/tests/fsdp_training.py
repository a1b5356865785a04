"""One rank of a small training with FSDP2: ``python fsdp_training.py RANK RANKS PORT JSON``."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import threading
import time
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

import atp.torch
from training import batch, options

STEPS = 12
began = [time.monotonic()]
"""When each step began."""


class Model(torch.nn.Module):
    """Blocks whose first dimensions no number of ranks divides, and a module that may be unused."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = torch.nn.Linear(64, 131)
        self.blocks = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(131, 131), torch.nn.LayerNorm(131), torch.nn.ReLU())
            for _ in range(3)
        )
        self.spare = torch.nn.Linear(131, 131)
        self.last = torch.nn.Linear(131, 10)

    def forward(self, inputs: torch.Tensor, with_spare: bool) -> torch.Tensor:
        values = self.first(inputs)
        for block in self.blocks:
            values = block(values)
        if with_spare:
            values = self.spare(values)
        out: torch.Tensor = self.last(values)
        return out


def sharded(mesh: DeviceMesh, case: dict[str, Any]) -> Model:
    model = Model()
    policy = MixedPrecisionPolicy(
        param_dtype=getattr(torch, case["param"]) if "param" in case else None,
        reduce_dtype=getattr(torch, case["reduce"]) if "reduce" in case else None,
    )
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            if "factor" in case:
                module.set_gradient_divide_factor(case["factor"])
            module.set_force_sum_reduction_for_comms(case.get("sum", False))
    return model


def observe(rank: int, case: dict[str, Any]) -> None:
    """Calls the reduce-scatter as FSDP2 doesn't, or ends the process in it."""
    from atp.torch import scatter

    class Observed(scatter.AtpReduceScatter):
        def __call__(self, *inputs: Any, **named: Any) -> dist.Work | None:
            if case.get("dies_in") == [rank, self._step, self._name.rpartition(" ")[2]]:
                # Until then its library confirms what the others send.
                time.sleep(1.0)
                os._exit(7)
            if "async" in case:
                work = super().__call__(*inputs, **named, async_op=True)
                assert isinstance(work, dist.Work)
                work.wait()
                assert work.is_completed()
                return None
            return super().__call__(*inputs, **named)

    scatter.AtpReduceScatter = Observed  # type: ignore[misc]


def digest(tensors: list[torch.Tensor]) -> str:
    values = b"".join(tensor.detach().float().numpy().tobytes() for tensor in tensors)
    return hashlib.sha256(values).hexdigest()


def steps(rank: int, model: Model, case: dict[str, Any]) -> dict[str, Any]:
    # Gradients are the same in all trainings as long as the parameters are.
    lr = 0.0 if case.get("gradients") else 0.05
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses: list[float] = []
    short: list[torch.Tensor] = []
    matrices: list[torch.Tensor] = []
    for step in range(STEPS):
        began.append(time.monotonic())
        inputs, labels = batch(rank, step, torch.float32)
        with_spare = not (case.get("unused") and step % 2)
        outputs = model(inputs, with_spare).float()
        loss = torch.nn.functional.cross_entropy(outputs, labels)
        if case.get("nan") == [rank, step]:
            loss = loss * float("nan")
        if "accumulate" in case:
            assert isinstance(model, FSDPModule)
            model.set_requires_gradient_sync(step % case["accumulate"] == 0)
        if case.get("freezes") == step:
            model.spare.requires_grad_(False)
        if case.get("dies") == [rank, step]:
            os._exit(7)
        loss.backward()
        losses.append(loss.item())
        if case.get("gradients"):
            for parameter in model.parameters():
                if parameter.grad is None:
                    continue
                (short if parameter.dim() <= 1 else matrices).append(parameter.grad.full_tensor())
        if step % case.get("accumulate", 1) == 0:
            optimizer.step()
            optimizer.zero_grad()
    return {"losses": losses, "short": digest(short), "matrices": digest(matrices)}


def main() -> None:
    rank, ranks, port, case = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    shards = ranks // case.get("replicas", 1)
    mesh = init_device_mesh(
        "cpu", (ranks // shards, shards), mesh_dim_names=("replicate", "shard")
    )
    model = sharded(mesh if "replicas" in case else mesh["shard"], case)
    group = mesh.get_group("shard")
    if "wrong_group" in case:
        group = dist.new_group(case["wrong_group"])
    threads = threading.active_count()
    state: atp.torch.State | None = None
    try:
        with contextlib.ExitStack() as stack:
            if case["hook"] == "atp":
                state = atp.torch.State(options=options(case), process_group=group)
                stack.enter_context(state)
                observe(rank, case)
                atp.torch.shard_over_atp(state, model)
            seen = steps(rank, model, case)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        print(json.dumps({"error": text, "after_s": time.monotonic() - began[-1]}), flush=True)
        os._exit(1)
    whole = [parameter.full_tensor() for parameter in model.parameters()]  # type: ignore[operator]
    stats = state.stats if state is not None else atp.torch.Stats()
    outcome = {
        "digest": digest(whole),
        "values": torch.cat([part.detach().reshape(-1) for part in whole])[::97].tolist(),
        **seen,
        "threads": threading.active_count() - threads,
        "reductions": stats.reductions,
        "lost": stats.chunks - stats.chunks_arrived,
    }
    print(json.dumps(outcome), flush=True)
    # A thread of gloo may still release tensors, which aborts a Python that ends (PyTorch 2.15).
    os._exit(0)


if __name__ == "__main__":
    main()
