"""The subnets that an engine still has: its address pools against what is taken.

About 31 subnets exist by default, and leaked networks use them up (harness facts); then no run can start.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import docker

from runs.containers import engine_call

# What Docker Engine uses when its configuration names no pools: each is cut into subnets of this prefix length.
DEFAULT_POOLS = (
    ("172.17.0.0/16", 16),
    ("172.18.0.0/16", 16),
    ("172.19.0.0/16", 16),
    ("172.20.0.0/14", 16),
    ("172.24.0.0/14", 16),
    ("172.28.0.0/14", 16),
    ("192.168.0.0/16", 20),
)


def free_subnets(api: docker.APIClient, enough: int) -> int:
    """How many subnets are free, counted up to ``enough``. Raises EngineError."""
    with engine_call("list networks"):
        pools = api.info().get("DefaultAddressPools") or []
        networks = api.networks()
    return sum(1 for _ in islice(free_in(_pools(pools), _taken(networks)), enough))


def free_in(pools: Iterable[tuple[str, int]], taken: Iterable[str]) -> Iterator[ipaddress.IPv4Network]:
    """The subnets of the pools that overlap none of ``taken``. Pure."""
    used = [ipaddress.IPv4Network(one, strict=False) for one in taken]
    for base, prefix in pools:
        for subnet in ipaddress.IPv4Network(base, strict=False).subnets(new_prefix=prefix):
            if not any(subnet.overlaps(other) for other in used):
                yield subnet


def _pools(configured: list[Mapping[str, Any]]) -> Iterator[tuple[str, int]]:
    own = [(str(pool["Base"]), int(pool["Size"])) for pool in configured if ":" not in str(pool["Base"])]
    yield from own or DEFAULT_POOLS


def _taken(networks: list[Mapping[str, Any]]) -> Iterator[str]:
    for network in networks:
        for pool in (network.get("IPAM") or {}).get("Config") or []:
            if pool.get("Subnet") and ":" not in str(pool["Subnet"]):
                yield str(pool["Subnet"])
