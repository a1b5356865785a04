"""The state of the hook: the collective of this rank, and what it knows of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import torch
import torch.distributed as dist

from atp.collective import AllReduce, CollectiveError, Options, Region, Stats, Store
from atp.torch.tensors import to_array

Exact = Callable[[str, torch.nn.Module | None, torch.nn.Parameter], bool]
Use = tuple[str, torch.nn.Module | None]
"""A parameter's name in a model, and the module that has it."""

_EXACT_MODULES = (
    torch.nn.Embedding,
    torch.nn.EmbeddingBag,
    torch.nn.LayerNorm,
    torch.nn.GroupNorm,
    torch.nn.modules.batchnorm._NormBase,
)


def is_exact(name: str, module: torch.nn.Module | None, parameter: torch.nn.Parameter) -> bool:
    """Whether a parameter's gradient must arrive whole: norms, biases and embeddings."""
    return parameter.dim() <= 1 or isinstance(module, _EXACT_MODULES)


class State:
    """The streams of one model's gradients. Leaving a ``with`` block ends all threads.

    ``model`` tells names and kinds of parameters. Without it, those with one dimension are exact.
    Make a state in every rank of the group, with the same options.
    """

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        options: Options | None = None,
        *,
        process_group: dist.ProcessGroup | None = None,
        store: Store | None = None,
        exact: Exact = is_exact,
        name: str | None = None,
    ):
        rank, ranks = dist.get_rank(process_group), dist.get_world_size(process_group)
        if rank < 0:
            raise CollectiveError("this process isn't in the process group")
        if store is None:
            store = dist.distributed_c10d._get_default_store()
        members = tuple(_global_rank(process_group, member) for member in range(ranks))
        self.members = members
        """The ranks of the group, as the default group counts them."""
        # All ranks of a group make their states in the same order.
        _states[members] += 1
        group = "-".join(map(str, members))
        store_path = f"torch {group}/{name or ''}/{_states[members]}"
        self.collective = AllReduce(store, rank, ranks, options, name=store_path)
        self.step = 0
        """The number of the present step."""
        self._exact = exact
        self._known: dict[int, list[tuple[str, torch.nn.Module]]] = {}
        if model is not None:
            for path, module in model.named_modules():
                for own, parameter in module.named_parameters(recurse=False):
                    name_of = f"{path}.{own}" if path else own
                    self._known.setdefault(id(parameter), []).append((name_of, module))
        self._layouts: dict[str, list[tuple[int, ...]]] = {}
        self._serials = 0

    @property
    def stats(self) -> Stats:
        return self.collective.stats

    def all_reduce(
        self, name: str, flat: torch.Tensor, parameters: Sequence[torch.nn.Parameter]
    ) -> Future[Any]:
        """The mean of ``flat``, the gradients of ``parameters`` side by side, as an array."""
        array, wire = to_array(flat)
        regions = [self._region(parameter) for parameter in parameters]
        return self.collective.all_reduce(
            self._name(name, parameters), array, regions, self.step, wire=wire
        )

    def _region(self, parameter: torch.nn.Parameter) -> Region:
        uses: Sequence[Use] = self._known.get(id(parameter), [("", None)])
        return self.region(parameter, uses, parameter.numel())

    def region(
        self, parameter: torch.nn.Parameter, uses: Sequence[Use], elements: int
    ) -> Region:
        """Elements of a parameter that several modules may use: they are exact if one of these
        needs that."""
        exact = any(self._exact(name, module, parameter) for name, module in uses)
        return Region(elements, uses[0][0], exact)

    def next_serial(self) -> int:
        """A new number for names."""
        self._serials += 1
        return self._serials

    def _name(self, name: str, parameters: Sequence[torch.nn.Parameter]) -> str:
        """A name for each layout: PyTorch fills its buckets in another way after the first step."""
        layouts = self._layouts.setdefault(name, [])
        layout = tuple(id(parameter) for parameter in parameters)
        if layout not in layouts:
            layouts.append(layout)
        number = layouts.index(layout)
        return name if number == 0 else f"{name}, layout {number + 1}"

    def close(self) -> None:
        """Ends all threads."""
        self.collective.close()

    def __enter__(self) -> State:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: Any
    ) -> None:
        self.collective.__exit__(kind, error, trace)
        failure = self.collective.failure
        # PyTorch has made another exception of it.
        if isinstance(error, RuntimeError) and failure is not None and error is not failure:
            raise failure from error


_states: Counter[tuple[int, ...]] = Counter()


def _global_rank(group: dist.ProcessGroup | None, member: int) -> int:
    return member if group is None else int(dist.get_global_rank(group, member))
