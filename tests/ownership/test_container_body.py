"""Every container is built in one place, and no request softens it (design 3.7)."""

from typing import Any

import pytest

from runs.containers import RequestRefused, container_body
from runs.ownership import Intent, Role

from .conftest import agent_request

INTENT = Intent("r1", "0" * 32, "1" * 32, Role.AGENT)
NETWORK = "c" * 64


def body(**changes: Any) -> dict[str, Any]:
    return container_body(agent_request(**changes), INTENT)


def test_the_hardening_is_complete() -> None:
    host = body()["HostConfig"]
    expected = {
        "CapDrop": ["ALL"],
        "CapAdd": [],
        "SecurityOpt": ["no-new-privileges:true"],
        "Privileged": False,
        "ReadonlyRootfs": True,
        "Init": False,
        "AutoRemove": False,
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "NanoCpus": 500_000_000,
        "Memory": 64 << 20,
        "MemorySwap": 64 << 20,
        "PidsLimit": 32,
        "Ulimits": [
            {"Name": "nofile", "Soft": 128, "Hard": 128},
            {"Name": "core", "Soft": 0, "Hard": 0},
        ],
        "NetworkMode": "none",
        "Dns": ["127.0.0.1"],
        "DnsOptions": ["timeout:1", "attempts:1"],
        "DnsSearch": ["."],
        "Tmpfs": {"/tmp": "rw,exec,nosuid,nodev,size=1048576,mode=1777"},
    }
    assert {name: host[name] for name in expected} == expected


def test_nothing_of_the_host_is_given() -> None:
    host = body()["HostConfig"]
    for name in ("Binds", "Mounts", "Devices", "DeviceRequests", "VolumesFrom", "PidMode", "PortBindings"):
        assert name not in host


def test_the_log_is_one_bounded_file() -> None:
    assert body(log_bytes=5000)["HostConfig"]["LogConfig"] == {
        "Type": "json-file",
        "Config": {"max-size": "5000", "max-file": "1", "compress": "false"},
    }


def test_the_command_is_all_that_runs() -> None:
    built = body()
    assert (built["Entrypoint"], built["Cmd"]) == (["/bin/busybox", "sleep", "60"], [])
    assert built["Healthcheck"] == {"Test": ["NONE"]}


def test_the_labels_are_the_complete_tuple() -> None:
    assert body()["Labels"] == INTENT.labels
    assert len(INTENT.labels) == 4


def test_an_agent_has_exactly_its_network_and_the_gateways_name() -> None:
    built = body(network=NETWORK, address="10.9.0.3", aliases=("a",), hosts={"model-gateway": "10.9.0.2"})
    assert built["HostConfig"]["NetworkMode"] == NETWORK
    assert built["HostConfig"]["ExtraHosts"] == ["model-gateway:10.9.0.2"]
    assert built["NetworkingConfig"]["EndpointsConfig"] == {
        NETWORK: {"Aliases": ["a"], "IPAMConfig": {"IPv4Address": "10.9.0.3"}}
    }


def test_capabilities_are_given_only_when_asked_for() -> None:
    assert body(capabilities=("KILL", "CHOWN"))["HostConfig"]["CapAdd"] == ["CHOWN", "KILL"]


REFUSED: list[dict[str, Any]] = [
    {"image_id": "busybox:latest"},
    {"image_id": "sha256:" + "a" * 12},
    {"image_id": "busybox@sha256:" + "a" * 64},
    {"command": ()},
    {"cpus": 0},
    {"cpus": float("inf")},
    {"cpus": float("nan")},
    {"memory_bytes": 1 << 20},
    {"pids": 0},
    {"pids": -1},
    {"nofile": 0},
    {"log_bytes": 0},
    {"capabilities": ("SYS_ADMIN",)},
    {"capabilities": ("ALL",)},
    {"capabilities": ("NET_RAW",)},
    {"tmpfs": {"tmp": 1}},
    {"tmpfs": {"/": 1}},
    {"tmpfs": {"/a/../b": 1}},
    {"tmpfs": {"/a:exec": 1}},
    {"tmpfs": {"/a": 0}},
    {"network": "host"},
    {"network": "bridge"},
    {"network": "container:x"},
    {"network": NETWORK, "role": Role.VERIFIER},
    {"role": Role.NETWORK},
    {"aliases": ("a",)},
    {"address": "10.0.0.1"},
]


@pytest.mark.parametrize("changes", REFUSED, ids=str)
def test_a_request_that_would_soften_a_container_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(RequestRefused) as raised:
        body(**changes)
    assert raised.value.code == "container_request"
    assert raised.value.detail
