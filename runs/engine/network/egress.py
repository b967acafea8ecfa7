"""The proof of what an agent can reach: an owned probe on the run's internal network, before any agent starts.

Reachability decides, not options or routing tables (design 3.5): a refused connection was answered by
somebody, so it counts as reached. A check that cannot tell on this host is listed under `unproved`.
"""

import json
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import docker
import psutil

from runs.containers import engine_call
from runs.engine.network.gateway import ALIAS, PORT, RunGateway
from runs.engine.network.probing import said_by_probe
from runs.ownership import Journal

PROGRAM = Path(__file__).with_name("egress_probe.py")
ATTEMPT_SECONDS = 1.0
# The one attempt that must succeed may take longer on a busy host; it ends as soon as it has.
GATEWAY_SECONDS = 20.0
PROBE_BOUND_SECONDS = 60
OUTSIDE_ADDRESS = "192.0.2.1"
OUTSIDE_NAME = "example.com"
MAX_TARGETS = 200
_CLOSED_PORT = 9

_REACHED = {"connected", "refused", "resolved"}
_NOT_TRIED = "nothing to try on this host"
_ALWAYS_TRIED = {"host_address", "gateway_outer_leg", "outside_address", "name_lookup"}


@dataclass(frozen=True, slots=True)
class ProbeCheck:
    """One thing that an agent must (or must not) be able to do; `code` is None when it passed."""

    name: str
    passed: bool
    code: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class EgressReport:
    """The probe's findings; `unproved` are sentences for the preview and the run's facts."""

    checks: tuple[ProbeCheck, ...]
    unproved: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def failures(self) -> tuple[ProbeCheck, ...]:
        return tuple(check for check in self.checks if not check.passed)

    @property
    def sentence(self) -> str:
        """For people: that the run's network holds, or that it does not and what to look at."""
        if self.passed:
            return "From the run's network only the gateway can be reached."
        names = ", ".join(check.name.replace("_", " ") for check in self.failures)
        return f"The run's network is not confined: {names}. Check the engine's version and its rules."

    @property
    def detail(self) -> str:
        """Private: what answered."""
        return "; ".join(f"{check.code}: {check.detail}" for check in self.failures)

    def as_json(self) -> dict[str, Any]:
        """The form that `run.json` keeps."""
        checks = [asdict(check) for check in self.checks]
        return {"passed": self.passed, "checks": checks, "unproved": list(self.unproved)}


@dataclass(frozen=True, slots=True)
class Target:
    """An address that must not answer; `name` is the check that it belongs to."""

    name: str
    address: str
    port: int


def prove_egress(
    api: docker.APIClient,
    journal: Journal,
    gateway: RunGateway,
    image_id: str,
    *,
    endpoint_url: str | None = None,
) -> EgressReport:
    """Run the probe with the agent's own network settings. Raises EngineError, JournalError.

    A listener on all of this host's addresses is open meanwhile, so that a host which only drops what nobody
    listens to is not taken for unreachable.
    """
    with _listener() as listening:
        ports = _ports(listening, endpoint_url)
        targets = list(_targets(api, gateway, ports))[:MAX_TARGETS]
        plan = {
            "seconds": ATTEMPT_SECONDS,
            "gateway_seconds": GATEWAY_SECONDS,
            "gateway": ALIAS,
            "gateway_port": PORT,
            "ports": ports,
            "lookups": [OUTSIDE_NAME],
            "targets": [asdict(target) for target in targets],
        }
        bounds = {"bound_s": PROBE_BOUND_SECONDS, "nofile": MAX_TARGETS + 64}
        seen = _complete_report(said_by_probe(api, journal, gateway, image_id, PROGRAM, plan, **bounds))
    return judge(seen, gateway.address, [*_unprovable(listening, targets)])


def judge(seen: dict[str, Any] | None, gateway_address: str, unproved: Iterable[str]) -> EgressReport:
    """Turn the probe's output into checks; no output, or a check that never ran, is a failure. Pure."""
    if seen is None:
        check = ProbeCheck("probe", False, "egress.no_report", "the probe ended without a report")
        return EgressReport((check,), tuple(unproved))
    checks = [_isolated(name, seen["attempts"]) for name in _ISOLATED]
    return EgressReport((*checks, _gateway_check(seen["gateway"], gateway_address)), tuple(unproved))


_ISOLATED = {
    "default_gateway": "egress.default_gateway",
    "host_address": "egress.host_address",
    "network_gateway": "egress.network_gateway",
    "gateway_outer_leg": "egress.gateway_outer_leg",
    "ipv6": "egress.ipv6",
    "outside_address": "egress.outside_address",
    "name_lookup": "egress.name_lookup",
}


def _isolated(name: str, attempts: list[dict[str, Any]]) -> ProbeCheck:
    own = [attempt for attempt in attempts if attempt["name"] == name]
    reached = [attempt for attempt in own if attempt["outcome"] in _REACHED]
    if not own:
        required = name in _ALWAYS_TRIED
        return ProbeCheck(name, not required, "egress.not_tried" if required else None, _NOT_TRIED)
    detail = ", ".join(_attempt_words(attempt) for attempt in (reached or own)[:8])
    return ProbeCheck(name, not reached, _ISOLATED[name] if reached else None, detail)


def _attempt_words(attempt: dict[str, Any]) -> str:
    place = attempt.get("lookup") or f"{attempt['address']} port {attempt['port']}"
    return f"{place}: {attempt['outcome']}"


def _gateway_check(gateway: dict[str, Any], address: str) -> ProbeCheck:
    right = gateway.get("address") == address and "Server: benchsite-gateway" in gateway.get("answer", "")
    detail = f"{ALIAS} is {gateway.get('address')}" if right else json.dumps(gateway)[:300]
    return ProbeCheck("gateway_reached", right, None if right else "egress.gateway_unreachable", detail)


def _ports(listening: int | None, endpoint_url: str | None) -> list[int]:
    """Ports to try everywhere: one with a listener, one without, and the endpoint's own."""
    ports = [_CLOSED_PORT] if listening is None else [listening, _CLOSED_PORT]
    if endpoint_url is not None:
        url = urlsplit(endpoint_url)
        ports.append(url.port or (443 if url.scheme == "https" else 80))
    return list(dict.fromkeys(ports))


def _targets(api: docker.APIClient, gateway: RunGateway, ports: list[int]) -> Iterator[Target]:
    bridge = f"br-{gateway.networks.internal.id[:12]}"
    places = [("gateway_outer_leg", gateway.egress_address), ("outside_address", OUTSIDE_ADDRESS)]
    places += [("network_gateway", address) for address in _network_gateways(api)]
    own_places = (_host_place(address, interface == bridge) for interface, address in _host_addresses())
    places += [place for place in own_places if place is not None]
    for name, address in dict.fromkeys(places):
        own = [PORT] if name == "gateway_outer_leg" else []
        for port in [*own, *ports]:
            yield Target(name, address, port)


def _host_place(address: str, is_bridge: bool) -> tuple[str, str] | None:
    if ":" not in address:
        return "host_address", address
    plain = address.split("%")[0]
    if not plain.startswith("fe80:"):
        return "ipv6", plain
    # Only the bridge's own link-local address is on the probe's link; inside, the link is eth0.
    return ("ipv6", f"{plain}%eth0") if is_bridge else None


def _host_addresses() -> Iterator[tuple[str, str]]:
    for interface, addresses in psutil.net_if_addrs().items():
        for found in addresses:
            inet = found.family in (socket.AF_INET, socket.AF_INET6)
            if inet and not found.address.startswith("127.") and found.address != "::1":
                yield interface, found.address


def _network_gateways(api: docker.APIClient) -> list[str]:
    with engine_call("list networks"):
        networks = api.networks()
    pools = [pool for network in networks for pool in network.get("IPAM", {}).get("Config") or []]
    return [str(pool["Gateway"]).split("/")[0] for pool in pools if pool.get("Gateway")]


@contextmanager
def _listener() -> Iterator[int | None]:
    """A port on which this host answers on all its addresses; None when there can be none."""
    try:
        server = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    except (OSError, ValueError):
        try:
            server = socket.create_server(("0.0.0.0", 0))
        except OSError:
            yield None
            return
    with server:
        yield int(server.getsockname()[1])


def _unprovable(listening: int | None, targets: list[Target]) -> Iterator[str]:
    yield "Only TCP connections and name lookups were tried, not UDP or ICMP."
    yield f"{OUTSIDE_ADDRESS} seldom answers anywhere, so its silence proves little by itself."
    yield f"On a host that resolves no outside names itself, a failed lookup of {OUTSIDE_NAME} proves little."
    if listening is None:
        yield "This host could not listen on a port, so its addresses' silence may be a packet filter's."
    if not any(target.name == "ipv6" for target in targets):
        yield "This host has no IPv6 address to try."
    if len(targets) == MAX_TARGETS:
        yield f"This host has more addresses than were tried ({MAX_TARGETS} attempts)."


def _complete_report(said: dict[str, Any] | None) -> dict[str, Any] | None:
    """What the probe said, when it has the form that the probe's program prints."""
    whole = said is not None and isinstance(said.get("attempts"), list) and isinstance(said.get("gateway"), dict)
    return said if whole else None
