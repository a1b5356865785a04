"""`help` of the package: every class, method and option has a text, and the stubs have them."""

from __future__ import annotations

import ast
import inspect
import pydoc
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import atp
from atp import _types, aio, answers, kafka

PACKAGE = Path(atp.__file__).parent
MODULES = [atp, aio, answers, kafka]
NATIVE = [atp.Job, atp.Message, atp.Receiver] + [
    getattr(answers, name)
    for name in ("Answering", "Estimate", "GroupBy", "Planner", "Quantiles", "Query", "Sample")
] + [answers.Table, answers.Top, kafka.Record, kafka.Windows, kafka.WindowSender]


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The classes and functions of the package."""
    for name in getattr(module, "__all__", dir(module)):
        thing = getattr(module, name)
        is_own = getattr(thing, "__module__", "").startswith("atp") and not name.startswith("_")
        if is_own and (inspect.isclass(thing) or callable(thing)):
            yield name, thing


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """The methods and properties that a class adds."""
    for name, member in vars(kind).items():
        is_field = inspect.ismemberdescriptor(member) or isinstance(member, int | str)
        if not name.startswith("_") and not is_field:
            yield name, member


def text(thing: Any) -> str:
    return inspect.getdoc(getattr(thing, "__func__", thing)) or ""


@pytest.mark.parametrize("number", range(len(MODULES)))
def test_everything_public_has_a_text(number: int) -> None:
    module = MODULES[number]
    found = dict(public(module))
    assert text(module) and len(found) > 1
    missing = []
    for name, thing in found.items():
        # A dataclass gets its signature as a text.
        missing += [name] if not text(thing) or text(thing).startswith(f"{name}(") else []
        if inspect.isclass(thing):
            own = members(thing)
            missing += [f"{name}.{member}" for member, what in own if not text(what)]
    assert not missing, f"no docstring: {', '.join(missing)}"


@pytest.mark.parametrize("name", ["Job", "Receiver", "Windows", "WindowSender"])
def test_help_lists_every_option_with_its_default(name: str) -> None:
    of = kafka if name.startswith("Window") else atp
    shown = pydoc.plain(pydoc.render_doc(getattr(of, name)))
    options = getattr(_types, f"{name}Options").__annotations__
    _, listed = shown.split("Options:\n", 1)
    assert len(options) > (5 if of is kafka else 10)
    for option in options:
        _, found = listed.split(f"    {option}: ", 1)
        # Up to the next option, which is indented less than a text.
        lines = found.splitlines()[1:]
        end = next((at for at, line in enumerate(lines) if "        " not in line[:14]), len(lines))
        assert "Default" in " ".join(lines[:end]), option


@pytest.mark.parametrize("number", range(len(NATIVE)))
def test_stubs_have_what_is_there(number: int) -> None:
    kind = NATIVE[number]
    stub = PACKAGE / ("answers.pyi" if kind.__module__ == "atp.answers" else "_native.pyi")
    classes = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ClassDef)]
    (found,) = [node for node in classes if node.name == kind.__name__]
    declared = set()
    for node in found.body:
        if isinstance(node, ast.FunctionDef):
            declared.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            declared.add(node.target.id)
    there = {name for name in vars(kind) if not name.startswith("_")}
    assert {name for name in declared if not name.startswith("_")} == there
