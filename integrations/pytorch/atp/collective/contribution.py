"""One rank's part of another rank's shard: which chunk travels in which group, in which order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import atp
from atp.collective import hadamard, values
from atp.collective.groups import Chunks, assigned
from atp.collective.inbox import EXACT
from atp.collective.layout import Shard
from atp.collective.messages import Packer
from atp.collective.options import Options
from atp.collective.values import Array


@dataclass
class Batch:
    """Messages of one group."""

    group: int
    messages: Sequence[Array]
    chunks: Array
    """The chunk of each message."""


class Contribution:
    """Cuts this rank's values of one shard into messages, step by step."""

    def __init__(self, shard: Shard, options: Options, wire: str):
        self._shard, self._options, self._wire = shard, options, wire
        self._packer = Packer(shard, values.wire_type(wire))
        self._kind = values.accumulator(wire)
        self._lossy = np.flatnonzero(~shard.exact)
        self._sent: Array | None = None
        """What the last step sent, until its report says what of it was lost."""
        self._chunks: dict[int, Array] = {}
        self._owed = np.zeros((shard.chunks, shard.width), self._kind) if self._keeps else None
        """Values that were lost, and belong to the next step."""

    @property
    def _keeps(self) -> bool:
        return self._options.missing == "feedback"

    def batches(self, part: Array, seed: int) -> Iterator[Batch]:
        """The messages of a step: ``part`` has the shard's values."""
        shard = self._shard
        rows = np.zeros((shard.chunks, shard.width), self._kind)
        shard.to_rows(part, rows)
        if self._owed is not None:
            rows += self._owed
        groups = np.full(shard.chunks, EXACT)
        names = [shard.names[chunk] for chunk in self._lossy.tolist()]
        chunks = Chunks(rows[self._lossy], names)
        groups[self._lossy] = 1 + assigned(self._options.groups, chunks)
        order = self._order(chunks, seed)
        if self._options.missing == "hadamard":
            rotate_rows(rows, shard, seed)
        encoded = values.encode(rows, self._wire)
        decoded = values.decode(encoded, self._wire)
        # Every rank has to see these, also if its group could lose them.
        finite = np.isfinite(decoded).all(axis=1)
        groups[~finite] = EXACT
        self._packer.fill(encoded)
        self._chunks = {}
        for group in np.unique(groups).tolist():
            messages, numbers = self._packer.messages(order[groups[order] == group])
            self._chunks[group] = numbers
            yield Batch(group, messages, numbers)
        if self._keeps:
            self._sent = rows
            # The rounding of half precision is owed, too.
            self._owed = np.zeros_like(rows)
            self._owed[finite] = rows[finite] - decoded[finite]

    def _order(self, chunks: Chunks, seed: int) -> Array:
        """All chunks, those first whose loss would cost most: a good network leaves out the last ones."""
        exact = np.flatnonzero(self._shard.exact)
        if self._options.missing in ("zero", "feedback"):
            # NaN comes last in the order of numpy, and is exact anyway.
            order = np.argsort(-chunks.energies, kind="stable")
        else:
            # The mean is right only if any chunk may be missing.
            order = np.random.default_rng(seed + 1).permutation(len(chunks))
        return np.concatenate((exact, self._lossy[order]))

    def on_report(self, report: atp.WindowReport) -> None:
        """Adds what was lost to the next step."""
        if self._owed is None or self._sent is None:
            return
        for group in report.groups:
            numbers = self._chunks.get(group.group)
            if numbers is None:
                continue
            for ids in group.lost_ids or ():
                lost = numbers[ids.start : ids.stop]
                self._owed[lost] = self._sent[lost]
        self._sent = None


def rotate_rows(rows: Array, shard: Shard, seed: int, back: bool = False) -> None:
    """Rotates the values of all chunks that may be lost, or rotates them back."""
    inside = lossy_elements(shard)
    turn = hadamard.rotate_back if back else hadamard.rotate
    rows[inside] = turn(rows[inside], seed)


def lossy_elements(shard: Shard) -> Array:
    """Which elements of the matrix of chunks are values that may be lost."""
    inside = np.arange(shard.width) < shard.lengths[:, None]
    lossy: Array = inside & ~shard.exact[:, None]
    return lossy
