"""One rank's part of another rank's shard: which chunk travels in which group, in which order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import atp
from atp.collective import hadamard, limits, values
from atp.collective.groups import Chunks, assigned
from atp.collective.inbox import EXACT
from atp.collective.layout import Shard
from atp.collective.messages import Packer
from atp.collective.options import Options
from atp.collective.values import Array


def chunk_seed(step: int, owner: int) -> int:
    """The seed for the parts of one owner's shard in a step: the same at all ranks.

    A seed is for the rotation, and the next number for the order of sending. So each owner takes
    two numbers: 16 ranks take 32, and 64 leave room.
    """
    return step * 64 + owner * 2


@dataclass
class Batch:
    """Messages of one group."""

    group: int
    messages: Sequence[bytes]
    chunks: Array
    """The chunk of each message."""


@dataclass
class Sent:
    """The matrix of chunks of a step."""

    rows: Array
    encoded: Array
    finite: Array
    """Which rows are."""

    def owed(self, lost: Array, wire: str) -> Array:
        """The lost share of each row, and what rounding took from the rest of it."""
        in_part = (lost < 1) & self.finite
        arrived = 1 - lost[in_part, None]
        self.rows[in_part] -= arrived * values.decode(self.encoded[in_part], wire)
        self.rows[~self.finite] = 0
        return self.rows


class Contribution:
    """Cuts this rank's values of one shard into messages, step by step."""

    def __init__(self, shard: Shard, options: Options, wire: str, rank: int):
        self._rank = rank
        self._shard, self._options, self._wire = shard, options, wire
        self._packer = Packer(shard, values.wire_type(wire))
        self._kind = values.accumulator(wire)
        self._lossy = np.flatnonzero(~shard.exact)
        self._names = [shard.names[chunk] for chunk in self._lossy.tolist()]
        self._chunks: dict[int, Array] = {}
        """The chunks that the last step sent, by group."""
        self._sent: Sent | None = None
        """Their values, until the report says which were lost. Kept for error feedback only."""
        self._owed: Array | None = None
        """Values that were lost, and belong to the next step."""

    def batches(self, part: Array, seed: int) -> Iterator[Batch]:
        """The messages of a step: ``part`` has the shard's values. Raises ``TooLarge`` if messages
        can hold them, but not with what is owed or rotated, and infinity is an error."""
        shard = self._shard
        rows = np.zeros((shard.chunks, shard.width), self._kind)
        shard.to_rows(part, rows)
        if self._owed is not None:
            rows += self._owed
            self._owed = None
        groups = np.full(shard.chunks, EXACT)
        chunks = Chunks(rows[self._lossy], self._names)
        groups[self._lossy] = 1 + assigned(self._options.groups, chunks)
        order = self._order(chunks, seed)
        if self._options.missing == "hadamard":
            rotate_rows(rows, shard, seed)
        encoded = values.encode(rows, self._wire)
        finite = values.are_finite(rows, self._wire)
        is_strict = self._options.nonfinite == "error"
        if is_strict and not finite.all() and values.are_finite(part, self._wire):
            total = np.empty(shard.elements, self._kind)
            shard.to_values(rows, total)
            limits.require_fit(total, self._wire)
        # Every rank has to see the others, also if their group could lose them.
        groups[~finite] = EXACT
        self._packer.fill(encoded)
        self._chunks = {}
        for group in np.unique(groups).tolist():
            numbers = order[groups[order] == group]
            self._chunks[group] = numbers
            yield Batch(group, self._packer.messages(numbers), numbers)
        if self._options.missing == "feedback":
            self._sent = Sent(rows, encoded, finite)

    def _order(self, chunks: Chunks, seed: int) -> Array:
        """All chunks, the most important first: the transport leaves out the last ones first."""
        exact = np.flatnonzero(self._shard.exact)
        if self._options.missing in ("zero", "feedback"):
            # NaN comes last in the order of numpy, and is exact anyway.
            order = np.argsort(-chunks.energies, kind="stable")
        else:
            # The mean is right only if any chunk may be missing, at each rank another one.
            order = np.random.default_rng([seed + 1, self._rank]).permutation(len(chunks))
        return np.concatenate((exact, self._lossy[order]))

    def on_report(self, report: atp.WindowReport) -> int:
        """Adds what was lost to the next step. Returns the number of chunks of which no rank knows
        whether they were.

        Such a chunk is owed by the share of its group that was lost, which is right on average. To
        owe nothing would drop the lost ones for good; to owe all would count most of them twice.
        The transport has asked for their ids by then, as long as receipts named new ones.
        """
        if self._sent is None:
            return 0
        lost, unknown = np.zeros(self._shard.chunks, self._kind), 0
        for group in report.groups:
            if group.lost == 0:
                continue  # By the receiver's count, whether it has named them or not.
            chunks = self._chunks[group.group]
            if isinstance(group.lost_ids, atp.UnknownIds):
                lost[chunks] = group.lost / group.messages
                unknown += len(chunks)
            else:
                for ids in group.lost_ids:
                    lost[chunks[ids.start : ids.stop]] = 1
        self._owed = self._sent.owed(lost, self._wire)
        self._sent = None
        return unknown


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
