"""FSDP2: gradients are sharded, so only the reduce-scatter is approximate. Parameters are gathered
by the process group, exactly, and each shard has one owner: replicas can't diverge.
"""

from __future__ import annotations

import torch

from atp.collective import CollectiveError
from atp.torch.state import State

NEEDED = "FSDP2 over ATP needs PyTorch 2.15 or newer"


def shard_over_atp(state: State, model: torch.nn.Module) -> None:
    """Carries the gradients of a model over ATP. Call it once all ``fully_shard`` were called.

    Each module that ``fully_shard`` wrapped gets a job to each rank. The process group of the
    state is that over which the modules are sharded. The state needs no model: the names and kinds
    of parameters are those in ``model``. A step of a module is one reduction of its gradients.
    """
    try:
        from atp.torch import scatter
    except (ImportError, ValueError) as error:  # The latter is that of 1.13 with Python 3.11.
        raise CollectiveError(f"{NEEDED}: this is {torch.__version__}") from error
    try:
        scatter.set_all(state, model)
    except AttributeError as error:
        # Some names of FSDP2 that are used here aren't public.
        raise CollectiveError(
            f"FSDP2 of PyTorch {torch.__version__} is unknown to this version of atp.torch, which "
            f"was tested with 2.15: {error}"
        ) from error
