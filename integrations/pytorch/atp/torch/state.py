"""The state of the hook: the collective of this rank, and what it knows of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from atp.collective import Collective, CollectiveError, Options, Region, Stats, Store
from atp.torch import kinds
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
    """The jobs of one model's gradients. Leaving a ``with`` block ends all threads.

    Make a state in every rank of the group, with the same options.

    - ``model`` tells names and kinds of parameters: the model, or its DDP wrapper. Without it,
      those with one dimension are exact, and a policy that goes by names, as ``ByLayer``, is an
      error. FSDP2 needs none here: ``shard_over_atp`` gets it.
    - ``process_group`` has the ranks that reduce. Default: all.
    - ``store`` is where they find each other. Default: that of ``init_process_group``.
    - ``exact(name, module, parameter)`` says whether a parameter's gradient must arrive whole.
      Default: ``is_exact``. Without the model, the name is empty and the module is ``None``.
    - ``name`` tells apart trainings that share a store, which outlives each of them. All ranks
      have the same one.

    Raises ``CollectiveError`` if this process isn't in the group, if the group has one rank or more
    than 16, if this host can't receive, and if another rank doesn't come within ``timeout_s``.

    ``OuterStep`` exchanges no gradients, so a state may know a model whose gradients can't be
    reduced. ``allreduce_hook`` refuses one before it sends anything.

    An error within the ``with`` block ends the collective at every rank, and leaves the block as
    itself. Only a ``RuntimeError`` after a failed reduction becomes the ``CollectiveError`` of it:
    PyTorch makes the former of the latter.
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
        self.collective = Collective(store, rank, ranks, options, name=store_path)
        self.step = 0
        """The number of the current step of the hook, or of ``OuterStep``: ``msr_floor`` gets it.
        Set it at every rank if a training goes on from a checkpoint."""
        self.is_checked = False
        """Whether the hook knows that the model's gradients can be reduced."""
        self.refusal: CollectiveError | None = None
        """Why a bucket of the hook wasn't sent."""
        self._exact = exact
        self._known: dict[int, list[tuple[str, torch.nn.Module]]] = {}
        if isinstance(model, DistributedDataParallel):
            model = model.module  # Its names are those that the user knows.
        self._model = model
        if model is not None:
            for name_of, module, parameter in kinds.named_parameters(model):
                self._known.setdefault(id(parameter), []).append((name_of, module))
        self._layouts: dict[str, list[tuple[int, ...]]] = {}
        self._serials = 0

    @property
    def stats(self) -> Stats:
        return self.collective.stats

    def require_reducible(self) -> None:
        """Raises ``CollectiveError`` if a parameter of the model, as far as the state knows it, has
        gradients that can't be reduced. Each hook calls it before it sends the first gradient."""
        if self._model is not None:
            kinds.require_reducible(self._model)

    def described(self, parameters: Sequence[torch.nn.Parameter]) -> str:
        """Names of parameters, for errors."""
        names = [self._known.get(id(parameter), [("", None)])[0][0] for parameter in parameters]
        return kinds.described(parameters, names)

    def all_reduce(
        self,
        name: str,
        flat: torch.Tensor,
        parameters: Sequence[torch.nn.Parameter],
        step: int | None = None,
    ) -> Future[Any]:
        """The mean of ``flat``, the gradients of ``parameters`` side by side, as an array.

        ``step`` counts from 0; by default, by name and parameters.
        """
        array, wire = to_array(flat, lambda: self.described(parameters))
        regions = [self._region(parameter) for parameter in parameters]
        return self.collective.all_reduce(
            self._name(name, parameters), array, regions, step, wire=wire
        )

    def _region(self, parameter: torch.nn.Parameter) -> Region:
        uses: Sequence[Use] = self._known.get(id(parameter), [("", None)])
        policy = self.collective.options.groups
        if policy.by_name and not uses[0][0]:
            raise CollectiveError(
                f"{type(policy).__name__} goes by names of parameters, and the state doesn't know "
                f"one of shape {tuple(parameter.shape)}: give State the model that has it"
            )
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
        # Leaving the collective makes a failure of the user's own error, too: this is before.
        failure = self.refusal or self.collective.failure
        if isinstance(error, RuntimeError) and failure is not None and error is not failure:
            # PyTorch has made another exception of it.
            self.collective.__exit__(type(failure), failure, trace)
            raise failure from error
        self.collective.__exit__(kind, error, trace)


_states: Counter[tuple[int, ...]] = Counter()


def _global_rank(group: dist.ProcessGroup | None, member: int) -> int:
    return member if group is None else int(dist.get_global_rank(group, member))
