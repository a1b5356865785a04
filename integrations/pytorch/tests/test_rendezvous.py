"""The rendezvous: ranks exchange their addresses."""

from __future__ import annotations

import json

import pytest

from atp.collective import CollectiveError
from atp.collective.manifest import VERSION
from atp.collective.rendezvous import Rendezvous, join
from ranks import MemoryStore


def joined(rank: int, hosts: list[str]) -> Rendezvous:
    """The rendezvous of ``rank`` once all ranks have published their addresses."""
    store = MemoryStore()
    store.set("here/session", json.dumps({"first_job": 7, "token": "00" * 16}))
    for other, host in enumerate(hosts):
        store.set(f"here/rank/{other}", json.dumps([host, 9, VERSION]))
    return join(store, "here", rank, len(hosts), (hosts[rank], 9), 0.1)


@pytest.mark.parametrize(
    ("hosts", "wrong"),
    [
        (["127.0.1.1", "10.0.0.2", "10.0.0.3"], "0 gave 127.0.1.1, which other hosts can't reach"),
        (["10.0.0.1", "10.0.0.2", "127.0.0.1"], "2 gave 127.0.0.1, which other hosts can't reach"),
        (["fd00::1", "::1", "::1"], "1 gave ::1, which other hosts can't reach"),
        (["fd00::1", "fd00::2", "fe80::3%2"], "2 gave fe80::3%2, which is an address of one link"),
    ],
)
def test_every_rank_sees_an_address_that_others_cannot_reach(hosts: list[str], wrong: str) -> None:
    for rank in range(3):
        with pytest.raises(CollectiveError, match=f"rank {wrong}"):
            joined(rank, hosts)


@pytest.mark.parametrize("hosts", [["127.0.0.1", "127.0.1.1"], ["10.0.0.1", "10.0.0.2"]])
def test_ranks_of_one_host_or_of_several(hosts: list[str]) -> None:
    assert joined(1, hosts).addresses == [(host, 9) for host in hosts]


def test_an_address_of_another_program() -> None:
    with pytest.raises(CollectiveError, match="the store has values of another program"):
        joined(1, ["somewhere", "10.0.0.2"])
