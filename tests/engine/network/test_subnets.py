"""The networks that an engine can still make: the default pools hold 31, and every network takes one."""

from typing import Any

import pytest

from runs.engine.network.subnets import DEFAULT_POOLS, free_in, free_subnets


class Engine:
    """An engine that only tells what it has."""

    def __init__(self, taken: list[str], pools: list[dict[str, Any]] | None = None) -> None:
        self.taken, self.pools = taken, pools

    def info(self) -> dict[str, Any]:
        return {} if self.pools is None else {"DefaultAddressPools": self.pools}

    def networks(self) -> list[dict[str, Any]]:
        named = [{"IPAM": {"Config": [{"Subnet": subnet}]}} for subnet in self.taken]
        return [*named, {"IPAM": {"Config": None}}, {"IPAM": None}, {}]


def all_default() -> list[str]:
    return [str(subnet) for subnet in free_in(DEFAULT_POOLS, [])]


def test_the_default_pools_hold_31_networks():
    assert len(all_default()) == 31


@pytest.mark.parametrize(("kept_free", "counted"), [(0, 0), (1, 1), (2, 2), (5, 2)])
def test_free_subnets_are_counted_up_to_what_is_needed(kept_free, counted):
    engine: Any = Engine(all_default()[kept_free:])
    assert free_subnets(engine, 2) == counted


def test_a_network_inside_a_pools_subnet_takes_the_whole_of_it():
    engine: Any = Engine(["10.0.1.0/26"], [{"Base": "10.0.0.0/23", "Size": 24}])
    assert free_subnets(engine, 9) == 1


def test_networks_outside_the_pools_and_of_ipv6_take_nothing():
    engine: Any = Engine(["203.0.113.0/24", "fd00::/64"], [{"Base": "10.0.0.0/23", "Size": 24}])
    assert free_subnets(engine, 9) == 2
