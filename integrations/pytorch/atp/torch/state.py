"""The state of the hook: the collective of this rank, and what it knows of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import torch
import torch.distributed as dist

from atp.collective import AllReduce, Options, Region, Stats, Store
from atp.torch.tensors import to_array

Exact = Callable[[str, torch.nn.Module | None, torch.nn.Parameter], bool]

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
        global _states
        rank, ranks = dist.get_rank(process_group), dist.get_world_size(process_group)
        if store is None:
            store = dist.distributed_c10d._get_default_store()
        # All ranks make their states in the same order.
        _states += 1
        self.collective = AllReduce(store, rank, ranks, options, name=name or f"torch {_states}")
        self.step = 0
        """The number of the present step."""
        self._exact = exact
        self._known: dict[int, tuple[str, torch.nn.Module]] = {}
        if model is not None:
            for path, module in model.named_modules():
                for own, parameter in module.named_parameters(recurse=False):
                    self._known[id(parameter)] = (f"{path}.{own}" if path else own, module)
        self._layouts: dict[str, list[tuple[int, ...]]] = {}

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
        name, module = self._known.get(id(parameter), ("", None))
        return Region(parameter.numel(), name, self._exact(name, module, parameter))

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

    def __exit__(self, *raised: Any) -> None:
        self.collective.__exit__(*raised)


_states = 0
