"""The rows that `atp.receive(..., as_="frame")` returns."""

from __future__ import annotations

import copy
import importlib
import pickle
from typing import Any

import pytest

from tables import both, send

# They have no types.
pandas: Any = importlib.import_module("pandas")
pa: Any = importlib.import_module("pyarrow")


def test_rows_pickle() -> None:
    """With their types and the metadata of pandas. A category is a dictionary of Arrow."""
    data = pandas.DataFrame(
        {
            "k": pandas.Categorical(["a", "b", None] * 100),
            "at": pandas.date_range("2024-01-01", periods=300, tz="Europe/Paris"),
            "v": range(300),
        },
        index=pandas.Index([7 * row for row in range(300)], name="row"),
    )
    rows = both(send(data, rows=7), as_="frame")
    for copied in (pickle.loads(pickle.dumps(rows)), copy.deepcopy(rows)):
        assert repr(copied) == repr(rows) and copied.senders == rows.senders
        assert copied.to_arrow().equals(rows.to_arrow(), check_metadata=True)
        back = copied.to_pandas().sort_index()[list(data.columns)]
        pandas.testing.assert_frame_equal(back, data, check_dtype=False)
    with pytest.raises(ValueError, match="the bytes of rows: "):
        type(rows.batches).from_bytes(b"rows")
