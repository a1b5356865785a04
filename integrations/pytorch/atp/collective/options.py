"""The options of a collective. All ranks need the same."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal, get_args

from atp.collective.errors import CollectiveError
from atp.collective.groups import GROUPS_MAX, GroupPolicy, Uniform
from atp.collective.values import WIRES

Missing = Literal["zero", "mean", "feedback", "hadamard"]
Nonfinite = Literal["error", "propagate"]

RATE_MAX_BYTES_PER_S_MIN = 1_000
"""The library refuses less."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a collective."""

    groups: GroupPolicy = field(default_factory=lambda: Uniform(0.9))
    """Which chunks may be lost."""
    missing: Missing = "zero"
    """What stands for a chunk that didn't arrive.

    - ``zero``: the rank's part is zero.
    - ``mean``: the mean is that of the ranks whose chunk arrived.
    - ``feedback``: zero, and the sender adds the chunk to that of the next step.
    - ``hadamard``: a random rotation spreads a loss over many elements, as noise. It mixes all
      groups: they need one MSR.
    """
    mean_share: float = 1.0
    """The share of the chunks of a mean that its owner sends, the largest first. It adds the rest
    to its next mean: needs ``feedback``."""
    msr_floor: Callable[[int], float] | None = None
    """The least MSR and ``mean_share`` of a step, if it isn't the same in all steps."""
    wire: str | None = None
    """Elements in messages: ``float16`` and ``bfloat16`` halve them. Default: the array's type."""
    chunk_bytes: int = 1_400
    """The bytes of a chunk: with 4 more they should fit a packet. Chunks are longer if an array
    would have more than 32,768 of them for one rank."""
    nonfinite: Nonfinite = "error"
    """NaN and infinity are an error at every rank, or arrive at every rank. A ``GradScaler`` needs
    the latter."""
    timeout_s: float = 60.0
    """A step that takes longer ends the collective at every rank."""
    peer_timeout_s: float = 10.0
    """A process or host that doesn't answer for longer does the same."""
    address: str | None = None
    """This host's address, as the other ranks reach it. Default: the one that reaches the host in
    the environment variable ``MASTER_ADDR``."""
    control_socket: str | PathLike[str] | None | Literal["default"] = "default"
    """The daemon's socket; ``None`` works without a daemon."""
    rate_max_bytes_per_s: int | None = None
    """Without a daemon: the port's rate. Default 125,000,000 (1 Gbit/s)."""

    def __post_init__(self) -> None:
        self._make_plain()
        for name, known in (("missing", get_args(Missing)), ("nonfinite", get_args(Nonfinite))):
            value = getattr(self, name)
            if value not in known:
                raise CollectiveError(f"{name}={value!r}: it is one of {', '.join(known)}")
        if self.wire is not None and self.wire not in WIRES:
            raise CollectiveError(f"wire={self.wire!r}: it is one of {', '.join(WIRES)}")
        msrs = [float(msr) for msr in self.groups.msrs]
        if not 1 <= len(msrs) <= GROUPS_MAX or not all(0 <= msr <= 1 for msr in msrs):
            raise CollectiveError(
                f"sampling rates {msrs}: 1 to {GROUPS_MAX} of them, each from 0 to 1"
            )
        if self.missing == "hadamard" and len(set(msrs)) > 1:
            raise CollectiveError(
                f"missing='hadamard' mixes the values of all groups, so sampling rates {msrs} "
                "have to be equal: give all groups the same, or set another `missing`"
            )
        if not 0 < self.mean_share <= 1:
            raise CollectiveError(f"mean_share={self.mean_share}: it is more than 0, and 1 at most")
        if self.mean_share < 1 and self.missing != "feedback":
            raise CollectiveError(
                f"mean_share={self.mean_share} needs missing='feedback', not {self.missing!r}"
            )
        if not 64 <= self.chunk_bytes <= 1 << 20:
            raise CollectiveError(f"chunk_bytes={self.chunk_bytes}: it is from 64 to 1,048,576")
        if not (self.timeout_s > 0 and self.peer_timeout_s > 0):
            raise CollectiveError("timeout_s and peer_timeout_s have to be more than 0")
        rate = self.rate_max_bytes_per_s
        if rate is not None and rate < RATE_MAX_BYTES_PER_S_MIN:
            raise CollectiveError(
                f"rate_max_bytes_per_s={rate}: it is at least {RATE_MAX_BYTES_PER_S_MIN:,}"
            )

    def _make_plain(self) -> None:
        """Makes Python's numbers of numpy's, which JSON doesn't know."""
        for name in ("mean_share", "timeout_s", "peer_timeout_s"):
            self._convert(name, float, "a number")
        self._convert("chunk_bytes", operator.index, "an integer")
        if self.rate_max_bytes_per_s is not None:
            self._convert("rate_max_bytes_per_s", operator.index, "an integer")

    def _convert(self, name: str, kind: Callable[[Any], float], what: str) -> None:
        value = getattr(self, name)
        try:
            object.__setattr__(self, name, kind(value))
        except (TypeError, ValueError):
            raise CollectiveError(f"{name}={value!r}: it is {what}") from None

    def msrs(self, step: int) -> list[float]:
        """The sampling rate of each group in a step."""
        floor = self._floor(step)
        return [max(float(msr), floor) for msr in self.groups.msrs]

    def share_of_mean(self, step: int) -> float:
        """The share of the chunks of a mean that are sent in a step."""
        return max(self.mean_share, self._floor(step))

    def _floor(self, step: int) -> float:
        floor = 0.0 if self.msr_floor is None else float(self.msr_floor(step))
        if not 0 <= floor <= 1:
            raise CollectiveError(f"msr_floor gave {floor} in step {step}: it is from 0 to 1")
        return floor

    def agreement(self) -> dict[str, object]:
        """What all ranks must have alike."""
        return {
            "missing": self.missing,
            "mean_share": self.mean_share,
            "chunk_bytes": self.chunk_bytes,
            "nonfinite": self.nonfinite,
            "groups": type(self.groups).__name__,
            "bounds": _digest(getattr(self.groups, "bounds", ())),
            "patterns": _digest([str(pattern) for pattern in getattr(self.groups, "patterns", ())]),
        }


def strict_ends(steps: int, *, first: int = 0, last: int = 0) -> Callable[[int], float]:
    """A floor of 1 in the first and last steps of ``steps``, and 0 between them."""
    return lambda step: 1.0 if step < first or step >= steps - last else 0.0


def _digest(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=6).hexdigest()
