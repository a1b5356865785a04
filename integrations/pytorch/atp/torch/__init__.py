"""Gradients over ATP: ``ddp.register_comm_hook(atp.torch.State(model), atp.torch.allreduce_hook)``,
and for FSDP2 ``atp.torch.shard_over_atp(atp.torch.State(), model)``.

A state has the jobs to the other ranks. ``atp.collective`` has the options and the policies.
"""

from atp.collective import (
    ByLayer,
    CollectiveError,
    Custom,
    Magnitude,
    Options,
    Stats,
    Uniform,
    strict_ends,
)
from atp.torch.fsdp import shard_over_atp
from atp.torch.hook import allreduce_hook
from atp.torch.outer import OuterStep
from atp.torch.state import State, is_exact

__all__ = [
    "ByLayer",
    "CollectiveError",
    "Custom",
    "Magnitude",
    "Options",
    "OuterStep",
    "State",
    "Stats",
    "Uniform",
    "allreduce_hook",
    "is_exact",
    "shard_over_atp",
    "strict_ends",
]
