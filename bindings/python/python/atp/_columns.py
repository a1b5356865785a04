"""Answers as the columns of a data frame."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from atp._keys import TEXT, key_names, key_of, parsed
from atp._show import module

if TYPE_CHECKING:
    from atp._answers import Answers


def columns(answers: Answers) -> tuple[dict[str, tuple[str, list[str]]], dict[str, list[Any]]]:
    """The columns of a data frame with a row for each key and function: those of the key, each with
    its type, and those of the answer."""
    cells = [
        (key_of(row), function, estimate)
        for row in answers.rows
        for function, estimate in zip(answers.functions, row[1:], strict=True)
        if estimate is not None
    ]
    names = key_names(answers)
    kinds = answers.key_types or (TEXT,) * len(names)
    keys = {
        name: (kind, [key[at] for key, _, _ in cells])
        for at, (name, kind) in enumerate(zip(names, kinds, strict=True))
    }
    of: dict[str, list[Any]] = {"function": [function for _, function, _ in cells]}
    for name in ("value", "low", "high", "bound", "messages", "messages_sent"):
        of[name] = [getattr(estimate, name) for _, _, estimate in cells]
    of["warnings"] = ["\n".join(estimate.warnings) for _, _, estimate in cells]
    # A column of the keys may have one of these names.
    return keys, {f"answer_{name}" if name in keys else name: values for name, values in of.items()}


def to_pandas(answers: Answers) -> Any:
    pandas = module("pandas", "to_pandas")
    keys, of = columns(answers)
    typed = {name: _series(pandas, kind, texts) for name, (kind, texts) in keys.items()}
    return pandas.DataFrame(typed | of)


def _series(pandas: Any, kind: str, texts: Sequence[str]) -> Any:
    if kind == TEXT:
        return texts
    values = parsed(kind, texts)
    if kind in ("date", "decimal"):
        dtype = "object"
    elif None not in values or kind.startswith(("float", "datetime")):
        dtype = kind
    else:
        # Those with missing values: boolean, Int64, UInt8.
        dtype = "boolean" if kind == "bool" else kind.replace("int", "Int").replace("uI", "UI")
    return pandas.Series(values, dtype=dtype)


def to_arrow(answers: Answers) -> Any:
    pa = module("pyarrow", "to_arrow")
    kinds = {
        **dict.fromkeys(("value", "low", "high"), pa.float64()),
        **dict.fromkeys(("messages", "messages_sent"), pa.int64()),
    }
    keys, of = columns(answers)
    arrays = [_array(pa, kind, texts) for kind, texts in keys.values()]
    for name, values in of.items():
        arrays.append(pa.array(values, kinds.get(name.removeprefix("answer_"), pa.string())))
    return pa.table(arrays, names=[*keys, *of])


def _array(pa: Any, kind: str, texts: Sequence[str]) -> Any:
    values = parsed(kind, texts)
    if time := re.fullmatch(r"datetime64\[(\w+)(?:, (.*))?\]", kind):
        return pa.array(values, pa.string()).cast(pa.timestamp(*time.groups()))
    if kind == "decimal":
        return pa.array(values)
    return pa.array(values, {TEXT: pa.string(), "date": pa.date32()}.get(kind, kind))
