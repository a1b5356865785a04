"""Which chunk may be lost: each chunk has a group, and each group a minimal sampling rate (MSR).

Exact regions aren't asked: their chunks always arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Protocol

import numpy as np

from atp.collective.errors import CollectiveError
from atp.collective.values import Array

GROUPS_MAX = 32


@dataclass
class Chunks:
    """The chunks of one shard that may be lost."""

    values: Array
    """The elements, of shape (chunks, elements of a full chunk); short chunks end with zeros. The
    type is float32, or float64 if messages are of it. What ``feedback`` owes is added already."""
    names: Sequence[str]
    """The region's name of each chunk: in PyTorch, the parameter's. Empty unless the policy is
    ``by_name``."""

    @cached_property
    def magnitudes(self) -> Array:
        """The largest absolute value of each chunk."""
        largest: Array = np.abs(self.values).max(axis=1, initial=0)
        return largest

    @cached_property
    def energies(self) -> Array:
        """The sum of squares of each chunk: what its loss adds to the squared error."""
        with np.errstate(over="ignore"):  # Infinite is large, too.
            sums: Array = np.einsum("ij,ij->i", self.values, self.values)
        return sums

    def __len__(self) -> int:
        return len(self.values)


class GroupPolicy(Protocol):
    """Gives each chunk a group."""

    @property
    def msrs(self) -> Sequence[float]:
        """The minimal sampling rate of each group, 0 to 1."""

    @property
    def by_name(self) -> bool:
        """Whether chunks of different regions have to be told apart."""

    def assign(self, chunks: Chunks) -> Array:
        """The number of each chunk's group, 0 to ``len(msrs) - 1``."""


@dataclass(frozen=True)
class Uniform:
    """One MSR for all chunks."""

    msr: float
    by_name: bool = field(default=False, init=False)

    @property
    def msrs(self) -> Sequence[float]:
        return (self.msr,)

    def assign(self, chunks: Chunks) -> Array:
        return np.zeros(len(chunks), np.int64)


@dataclass(frozen=True)
class Magnitude:
    """By a chunk's largest absolute value. The defaults are the paper's (NetApprox §7.2.3)."""

    bounds: Sequence[float] = (0.001, 0.0025)
    """The upper bounds of all groups but the last, ascending."""
    msrs: Sequence[float] = (0.0, 0.125, 0.925)
    by_name: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        # Ranks compare them as texts, which differ for lists and for numbers of numpy.
        object.__setattr__(self, "bounds", tuple(map(float, self.bounds)))
        object.__setattr__(self, "msrs", tuple(map(float, self.msrs)))
        if len(self.msrs) != len(self.bounds) + 1 or list(self.bounds) != sorted(self.bounds):
            raise CollectiveError(
                f"{len(self.msrs)} sampling rates need {len(self.msrs) - 1} bounds, ascending: "
                f"not {self.bounds}"
            )

    def assign(self, chunks: Chunks) -> Array:
        groups: Array = np.searchsorted(np.asarray(self.bounds), chunks.magnitudes, side="right")
        return groups


@dataclass(frozen=True)
class ByLayer:
    """By the region's name: the first pattern that fits, as in ``fnmatch``."""

    patterns: Mapping[str, float]
    """The MSR of the regions that a pattern fits."""
    default: float = 1.0
    by_name: bool = field(default=True, init=False)

    @property
    def msrs(self) -> Sequence[float]:
        return (*self.patterns.values(), self.default)

    def assign(self, chunks: Chunks) -> Array:
        number = {name: self._group(name) for name in set(chunks.names)}
        return np.array([number[name] for name in chunks.names], np.int64)

    def _group(self, name: str) -> int:
        fits = (at for at, pattern in enumerate(self.patterns) if fnmatchcase(name, pattern))
        return next(fits, len(self.patterns))


@dataclass(frozen=True)
class Custom:
    """By a function of yours."""

    function: Callable[[Chunks], Array | Sequence[int]]
    """Returns the number of each chunk's group."""
    msrs: Sequence[float]
    by_name: bool = True

    def assign(self, chunks: Chunks) -> Array:
        return np.asarray(self.function(chunks))


def assigned(policy: GroupPolicy, chunks: Chunks) -> Array:
    """The group of each chunk, checked."""
    if len(chunks) == 0:
        return np.zeros(0, np.int64)  # Nothing to ask a function about.
    groups = policy.assign(chunks)
    if groups.shape != (len(chunks),):
        raise CollectiveError(
            f"the group policy gave groups of shape {groups.shape} for {len(chunks)} chunks: it has "
            "to give each chunk one"
        )
    if not np.issubdtype(groups.dtype, np.integer) or (
        not (0 <= groups.min() and groups.max() < len(policy.msrs))
    ):
        raise CollectiveError(
            f"the group policy gave a group outside of 0 to {len(policy.msrs) - 1}: it has "
            f"{len(policy.msrs)} sampling rates"
        )
    return groups
