"""All-reduce and reduce-scatter over ATP: the mean of an array over all ranks, of which a part may
be lost.

Each rank owns a shard of the array. In phase 1 every rank sends each owner that owner's shard, in
chunks of which a share must arrive (MSR). The owner reduces what arrived. In phase 2 it sends the
result to every rank, exactly. So all ranks have the same bits at the end, at every MSR. A
reduce-scatter ends with phase 1.

``lost_rank`` is where a rank notices that another one died, ``shutdown`` how it leaves.

``atp.torch`` has the hooks for PyTorch. This package needs numpy only.
"""

from atp.collective.collective import Collective
from atp.collective.errors import CollectiveError
from atp.collective.groups import ByLayer, Chunks, Custom, GroupPolicy, Magnitude, Uniform
from atp.collective.layout import Region
from atp.collective.options import Options, strict_ends
from atp.collective.stats import Stats
from atp.collective.store import Store

__all__ = [
    "ByLayer",
    "Chunks",
    "Collective",
    "CollectiveError",
    "Custom",
    "GroupPolicy",
    "Magnitude",
    "Options",
    "Region",
    "Stats",
    "Store",
    "Uniform",
    "strict_ends",
]
