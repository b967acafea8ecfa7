"""Where the gateway connects to: every connection asks for the name, and goes to the very address that was checked."""

import asyncio
import json
from ipaddress import ip_network

import pytest

from runs.engine.network.gateway import GatewayPlan, _addresses
from runs.images.gateway.model_gateway.addresses import AddressRules
from runs.images.gateway.model_gateway.config import Config, parse_config
from runs.images.gateway.model_gateway.upstream import Upstream, UpstreamFailed
from tests.gateway.bodies import encoded
from tests.gateway.process import configuration, error_code, raw_endpoint, running
from tests.spec_documents import run_spec

NEVER = [
    "169.254.169.254", "169.254.0.1", "169.254.170.2", "fe80::1", "fe80::1%eth0", "fe80::a9fe:a9fe", "0.0.0.0",
    "0.1.2.3", "::", "224.0.0.1", "239.255.255.250", "ff02::1", "240.0.0.1", "255.255.255.255", "100.100.100.200",
    "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254",
    # 169.254.169.254 as it can be spelt: mapped, compatible, 6to4, NAT64 of each length, Teredo, ISATAP.
    "::ffff:169.254.169.254", "::169.254.169.254", "2002:a9fe:a9fe::1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:a9fe:a9:fe00::", "2001:0:0:1::5601:5601", "2001:0:a9fe:a9fe::1", "2001:db8::5efe:a9fe:a9fe",
    "2001:db8::200:5efe:a9fe:a9fe", "::ffff:100.100.100.200", "::ffff:0.0.0.0", "::ffff:224.0.0.1",
]  # fmt: skip
PRIVATE = [
    "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "127.0.0.1", "127.9.9.9", "100.64.0.1",
    "100.127.255.254", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.9", "::1", "fd00::1", "fc00::1", "fec0::1",
    "2001:db8::1",
    "::ffff:10.0.0.1", "::ffff:127.0.0.1", "::10.0.0.1", "2002:0a00:0001::1", "64:ff9b::7f00:1", "64:ff9b:1::808:808",
]  # fmt: skip
PUBLIC = [
    "8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "169.253.0.1", "2606:4700::1111", "::ffff:8.8.8.8",
    "64:ff9b::808:808",
]  # fmt: skip


@pytest.mark.parametrize("address", NEVER)
@pytest.mark.parametrize("within", [None, (ip_network("0.0.0.0/0"), ip_network("::/0"))])
def test_a_link_local_or_metadata_address_is_never_permitted(address: str, within: None) -> None:
    assert not AddressRules(True, within).permits(address)


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_permitted_only_when_the_record_says_so(address: str) -> None:
    assert AddressRules(True).permits(address) and not AddressRules(False).permits(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_permitted(address: str) -> None:
    assert AddressRules(False).permits(address)


@pytest.mark.parametrize(
    ("address", "permitted"),
    [("8.8.8.8", True), ("::ffff:8.8.8.8", True), ("8.8.9.8", False), ("10.0.0.1", False), ("2606:4700::1111", False)],
)
def test_the_sites_list_holds_beside_the_record(address: str, permitted: bool) -> None:
    assert AddressRules(False, (ip_network("8.8.8.0/24"), ip_network("10.0.0.0/8"))).permits(address) is permitted
    assert not AddressRules(True, ()).permits(address)


def config(url: str, *, private: bool, within: list[str] | None = None) -> Config:
    document = configuration(url)
    document["endpoint"]["addresses"] = {"private": private, "within": within}
    return parse_config(json.dumps(document).encode())


def asked(given: Config, *answers: list[str]) -> tuple[list[str], list[str]]:
    """What came of as many requests as there are answers of the resolver, and the names that it was asked for."""
    names: list[str] = []

    async def resolver(host: str, port: int) -> list[str]:
        names.append(host)
        return answers[len(names) - 1]

    async def ask() -> list[str]:
        upstream, outcomes = Upstream(given.endpoint, None, 20.0, None, resolver), []
        for _ in answers:
            try:
                outcomes.append(str((await upstream.complete(encoded())).status))
            except UpstreamFailed as failure:
                outcomes.append(failure.code)
        return outcomes

    return asyncio.run(ask()), names


def test_a_name_that_leads_elsewhere_at_the_second_connection_is_refused_then() -> None:
    with raw_endpoint() as served:
        given = config(f"http://model.example:{served.port}/v1", private=True)
        outcomes, names = asked(given, ["127.0.0.1"], ["169.254.169.254"], ["127.0.0.1"])
        assert outcomes == ["200", "address_refused", "200"] and names == ["model.example"] * 3
        assert len(served.heard) == 2


def test_what_was_checked_is_what_is_connected_to_and_the_name_is_not_asked_for_again() -> None:
    """A resolver that would answer otherwise at its next question is never asked it within one connection."""
    with raw_endpoint() as served:
        given = config(f"http://model.example:{served.port}/v1", private=True)
        assert asked(given, ["127.0.0.1"]) == (["200"], ["model.example"])
        assert b"Host: model.example" in served.heard[0]


def test_of_several_addresses_those_that_may_not_be_used_are_left_out() -> None:
    with raw_endpoint() as served:
        given = config(f"http://model.example:{served.port}/v1", private=True)
        assert asked(given, ["169.254.169.254", "127.0.0.1"])[0] == ["200"]
        assert asked(given, ["169.254.169.254", "fd00:ec2::254"])[0] == ["address_refused"]
        assert asked(given, [])[0] == ["unreachable"]


@pytest.mark.parametrize(
    ("private", "within", "outcome"),
    [(False, None, "address_refused"), (True, ["203.0.113.0/24"], "address_refused"), (True, ["127.0.0.0/8"], "200")],
)
def test_record_and_site_decide_about_a_private_address(private: bool, within: list[str], outcome: str) -> None:
    with raw_endpoint() as served:
        given = config(f"http://model.example:{served.port}/v1", private=private, within=within)
        assert asked(given, ["127.0.0.1"])[0] == [outcome]
        assert len(served.heard) == (outcome == "200")


def test_a_refused_address_has_a_line_and_a_code_of_its_own() -> None:
    with raw_endpoint() as served:
        document = configuration(f"http://127.0.0.1:{served.port}/v1")
        document["endpoint"]["addresses"]["private"] = False
        with running(document) as gateway:
            assert error_code(gateway.ask()) == (502, "address_refused")
            [line] = gateway.stop().trial(1).requests
        assert (line.kind, line.code, line.status) == ("upstream_error", "address_refused", None) and not served.heard


@pytest.mark.parametrize(
    ("within", "by_host_gateway", "told"),
    [
        (None, False, {"private": False, "within": None}),
        (None, True, {"private": True, "within": None}),
        (("10.0.0.0/8", "host-gateway"), False, {"private": False, "within": ["10.0.0.0/8"]}),
        (("10.0.0.0/8", "host-gateway"), True, {"private": True, "within": None}),
        (("10.0.0.0/8",), True, {"private": True, "within": ["10.0.0.0/8"]}),
        (("host-gateway",), False, {"private": False, "within": []}),
    ],
)
def test_the_host_route_is_private_by_nature_and_in_the_sites_list_by_its_word(
    within: tuple[str, ...] | None, by_host_gateway: bool, told: dict[str, object]
) -> None:
    spec = run_spec(changes={"endpoint.private_addresses": "refused"})
    plan = GatewayPlan.from_spec(spec, "5" * 64, within)
    assert _addresses(plan, by_host_gateway=by_host_gateway) == told
