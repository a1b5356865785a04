"""The reduce-scatter of FSDP2's modules. Only PyTorch's with FSDP2 can import it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter

from atp.collective import CollectiveError, Region
from atp.torch.kinds import require_use_reducible
from atp.torch.state import State, Use
from atp.torch.tensors import fill, to_array


def set_all(state: State, model: torch.nn.Module) -> None:
    """Gives each module of FSDP2 its own reduce-scatter, in the order of the model's modules."""
    paths: dict[int, str] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        paths.setdefault(id(module), path)
    found: dict[int, tuple[str, FSDPModule, Any]] = {}
    for path, module in model.named_modules():
        if not isinstance(module, FSDPModule):
            continue
        own = module._get_fsdp_state()._fsdp_param_groups
        if len(own) > 1:
            raise CollectiveError(
                f"the parameters of {path or 'the model'} are sharded over several meshes: FSDP2 "
                "takes one reduce-scatter for each module"
            )
        # Modules that were wrapped together share a group. A module may have no parameters.
        for group in own:
            if id(group) not in found:
                _check_members(state, path, group)
                _check_kinds(group, paths)
                found[id(group)] = path, module, group
    if not found:
        raise CollectiveError("no module of the model was wrapped: call fully_shard first")
    # A refused model has none.
    for path, module, group in found.values():
        module.set_custom_reduce_scatter(AtpReduceScatter(state, path, group, paths))


def _check_members(state: State, path: str, group: Any) -> None:
    # A module that is only replicated has none.
    shards = getattr(group.mesh_info, "shard_process_group", None)
    members = () if shards is None else tuple(dist.get_process_group_ranks(shards))
    if members != state.members:
        raise CollectiveError(
            f"{path or 'the model'} is sharded over ranks {members}, the state has "
            f"{state.members}: give the state the process group of the shards"
        )


def _check_kinds(group: Any, paths: dict[int, str]) -> None:
    """The model may have other parameters, which FSDP2 doesn't reduce."""
    for parameter in group.fsdp_params:
        for name, module in _uses(parameter, paths):
            require_use_reducible(name, module, parameter.sharded_param)


def _uses(parameter: Any, paths: dict[int, str]) -> list[Use]:
    """Each use of one of FSDP2's parameters. ``paths``: the names of modules by id."""
    info = parameter._module_info
    modules = [info.module, *info.shared_modules]
    names = [info.param_name, *info.shared_param_names]
    return [
        (f"{path}.{name}" if (path := paths.get(id(module), "")) else name, module)
        for module, name in zip(modules, names, strict=True)
    ]


class AtpReduceScatter(ReduceScatter):
    """The reduce-scatter of one module's gradients."""

    def __init__(self, state: State, path: str, group: Any, paths: dict[int, str]):
        """``group``: FSDP2's parameters of the module. ``paths``: the names of modules by id."""
        self._state, self._group, self._paths = state, group, paths
        self._path = path
        self._name = f"gradients {state.next_serial()} of {path or 'the model'}"
        self._step = 0
        self._layouts: list[list[Region]] = []

    def allocate(
        self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: dist.ReduceOp | dist.ReduceOp.RedOpType,
        async_op: bool = False,
    ) -> dist.Work | None:
        array, wire = to_array(input_tensor, lambda: f"module {self._path or 'of the model'}")
        array, operation = _scaled(array, op)
        name, regions = self._layout(input_tensor.numel(), len(self._state.members))
        pending = self._state.collective.reduce_scatter(
            name, array, regions, self._step, op=operation, wire=wire
        )
        self._step += 1
        work = _Work(pending, output_tensor)
        if async_op:
            return work
        work.wait()
        return None

    def _layout(self, elements: int, ranks: int) -> tuple[str, list[Region]]:
        """The jobs' name and the regions. Each rank's shard has a part of each parameter."""
        regions = list(self._regions()) * ranks
        if sum(region.elements for region in regions) != elements:
            # Parameters without a gradient are left out, and nothing says which. So all are exact.
            regions = [Region(elements, "", True)]
        if regions not in self._layouts:
            self._layouts.append(regions)
        number = self._layouts.index(regions)
        return self._name if number == 0 else f"{self._name}, layout {number + 1}", regions

    def _regions(self) -> Iterator[Region]:
        """The parameters in the order in which FSDP2 copies their gradients."""
        for index in self._group._reduce_scatter_param_indices:
            parameter = self._group.fsdp_params[index]
            if not parameter.sharded_param.requires_grad:
                continue
            uses = _uses(parameter, self._paths)
            padded = parameter.padded_sharded_param_size.numel()
            yield self._state.region(parameter.sharded_param, uses, padded)


class _Work(dist.Work):
    """A reduce-scatter that runs."""

    def __init__(self, pending: Future[Any], output: torch.Tensor):
        super().__init__()
        self._pending, self._output = pending, output

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits for the end, and fills the output. ``timeout`` 0 is that of the collective."""
        fill(self._output, self._pending.result(timeout.total_seconds() or None))
        return True

    def is_completed(self) -> bool:
        return self._pending.done()


def _scaled(array: Any, op: Any) -> tuple[Any, Literal["mean", "sum"]]:
    """The values to add up, and what to do with them."""
    if op == dist.ReduceOp.AVG:
        return array, "mean"
    if op == dist.ReduceOp.SUM:
        return array, "sum"
    if op == dist.ReduceOp.PREMUL_SUM:
        return array * array.dtype.type(op.factor), "sum"
    raise CollectiveError(f"{op} can't be reduced over ATP: it is AVG, SUM or PREMUL_SUM")
