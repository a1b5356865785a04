"""Which parameters FSDP2 may have. Stand-ins for its classes: these tests run with any PyTorch."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs PyTorch")

import torch  # noqa: E402

import atp.torch  # noqa: E402
from atp.torch import CollectiveError, State  # noqa: E402

FSDP = "torch.distributed.fsdp"


class Wrapped(torch.nn.Sequential):
    """A module that ``fully_shard`` has wrapped, with its parameters but the ``ignored`` ones."""

    def __init__(self, *modules: torch.nn.Module, ignored: tuple[torch.nn.Module, ...] = ()):
        super().__init__(*modules)
        uses: dict[torch.nn.Parameter, list[tuple[torch.nn.Module, str]]] = {}
        for module in self.modules():
            if module not in ignored:
                for name, parameter in module.named_parameters(recurse=False):
                    uses.setdefault(parameter, []).append((module, name))
        parameters = [managed(parameter, of) for parameter, of in uses.items()]
        self.group = SimpleNamespace(fsdp_params=parameters, mesh_info=None)
        self.scatters: list[Any] = []

    def _get_fsdp_state(self) -> Any:
        return SimpleNamespace(_fsdp_param_groups=[self.group])

    def set_custom_reduce_scatter(self, scatter: Any) -> None:
        self.scatters.append(scatter)


def managed(parameter: torch.nn.Parameter, uses: list[tuple[torch.nn.Module, str]]) -> Any:
    (module, name), *shared = uses
    info = SimpleNamespace(
        module=module,
        param_name=name,
        shared_modules=[module for module, _ in shared],
        shared_param_names=[name for _, name in shared],
    )
    return SimpleNamespace(sharded_param=parameter, _module_info=info)


@pytest.fixture
def scatter(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of that name, with the stand-ins."""
    has: dict[str, dict[str, type]] = {
        FSDP: {"FSDPModule": Wrapped},
        f"{FSDP}._fully_shard": {},
        f"{FSDP}._fully_shard._fsdp_api": {"ReduceScatter": object},
    }
    for name, members in has.items():
        stand_in = ModuleType(name)
        vars(stand_in).update(members)
        monkeypatch.setitem(sys.modules, name, stand_in)
    monkeypatch.delitem(sys.modules, "atp.torch.scatter", raising=False)
    monkeypatch.delattr(atp.torch, "scatter", raising=False)
    from atp.torch import scatter

    yield scatter
    # Other tests import it with the real classes.
    sys.modules.pop("atp.torch.scatter", None)
    vars(atp.torch).pop("scatter", None)


def state() -> State:
    """One that opens nothing. The stand-ins are sharded over no ranks."""
    bare = State.__new__(State)
    bare.members = ()
    bare._serials = 0
    return bare


SPARSE = "sparse gradients can't be reduced (parameter 1.0.weight)"
COMPLEX = "gradients of torch.complex64 can't be reduced (parameter 1.0.weight)"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: torch.nn.Embedding(5, 2, sparse=True), SPARSE),
        (lambda: torch.nn.Linear(2, 2, dtype=torch.complex64), COMPLEX),
    ],
    ids=["sparse", "complex"],
)
def test_parameters_that_fsdp_does_not_have(scatter: Any, make: Any, told: str) -> None:
    """They may be of any kind: nothing reduces them."""
    odd = make()
    inner = Wrapped(odd, torch.nn.Linear(2, 2))
    with pytest.raises(CollectiveError) as raised:
        scatter.set_all(state(), torch.nn.Sequential(first := Wrapped(torch.nn.Linear(2, 2)), inner))
    assert str(raised.value).startswith(told)
    assert first.scatters == inner.scatters == []

    inner = Wrapped(odd, torch.nn.Linear(2, 2), ignored=(odd,))
    scatter.set_all(state(), torch.nn.Sequential(torch.nn.Linear(2, 2), inner))
    assert len(inner.scatters) == 1
    inner = Wrapped(torch.nn.Linear(2, 2))
    scatter.set_all(state(), torch.nn.Sequential(odd, inner))
    assert len(inner.scatters) == 1


def test_a_shared_parameter_has_a_sparse_use(scatter: Any) -> None:
    first, second = torch.nn.Linear(2, 5, bias=False), torch.nn.Embedding(5, 2, sparse=True)
    second.weight = first.weight
    with pytest.raises(CollectiveError, match=r"\(parameter 1.weight\): make its Embedding with"):
        scatter.set_all(state(), Wrapped(first, second))
    first.weight.requires_grad_(False)
    scatter.set_all(state(), Wrapped(first, second))
