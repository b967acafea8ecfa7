"""`docker inspect` of a run's containers while its agent works, and what is left when it was cancelled."""

import socket
from datetime import datetime
from typing import Any

import pytest

from runs.containers.request import ALLOWED_CAPABILITIES
from runs.ownership import LABEL_NONCE, LABEL_OWNER, LABEL_ROLE, LABEL_RUN, ResourceStage, Role
from tests.engine.conftest import CancelledRun
from tests.engine.looking import CONTAINERS

pytestmark = pytest.mark.harbor_compatibility


def host(seen: dict[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = seen["HostConfig"]
    return config


@pytest.mark.parametrize("role", CONTAINERS)
def test_nothing_of_the_host_is_mounted_or_lent(cancelled: CancelledRun, role: str) -> None:
    seen = cancelled.live.containers[role]
    config = host(seen)
    assert seen["State"]["Running"]
    assert [mount for mount in seen["Mounts"] if mount["Type"] != "tmpfs"] == []
    assert not config["Binds"] and not config["VolumesFrom"] and not config["Devices"] and not config["DeviceRequests"]
    assert not config["PortBindings"] and not config["GroupAdd"]
    assert (config["PidMode"], config["UTSMode"], config["IpcMode"]) == ("", "", "private")


@pytest.mark.parametrize("role", CONTAINERS)
def test_no_privilege_is_left_but_the_listed_capabilities(cancelled: CancelledRun, role: str) -> None:
    config = host(cancelled.live.containers[role])
    assert config["Privileged"] is False and config["CapDrop"] == ["ALL"]
    assert set(config["CapAdd"] or ()) <= ({f"CAP_{name}" for name in ALLOWED_CAPABILITIES} | ALLOWED_CAPABILITIES)
    assert "no-new-privileges:true" in config["SecurityOpt"]
    assert not any("unconfined" in option for option in config["SecurityOpt"])


@pytest.mark.parametrize("role", CONTAINERS)
def test_every_limit_of_the_spec_is_the_engines(cancelled: CancelledRun, role: str) -> None:
    config, limits = host(cancelled.live.containers[role]), cancelled.live.spec["limits"][role]
    assert config["Memory"] == config["MemorySwap"] == limits["memory_bytes"] > sum(limits["tmpfs"].values())
    assert config["NanoCpus"] == limits["cpus"] * 1e9 and config["PidsLimit"] == limits["pids"]
    ulimits = {one["Name"]: (one["Soft"], one["Hard"]) for one in config["Ulimits"]}
    assert ulimits == {"nofile": (limits["nofile"],) * 2, "core": (0, 0)}
    assert config["OomKillDisable"] in (None, False)
    assert config["RestartPolicy"]["Name"] == "no"


@pytest.mark.parametrize("role", CONTAINERS)
def test_the_root_is_read_only_and_every_writable_path_and_the_log_have_a_size(
    cancelled: CancelledRun, role: str
) -> None:
    config, limits = host(cancelled.live.containers[role]), cancelled.live.spec["limits"][role]
    assert config["ReadonlyRootfs"] is True
    assert set(config.get("Tmpfs") or {}) >= set(limits["tmpfs"])
    for path, options in (config.get("Tmpfs") or {}).items():
        assert f"size={limits['tmpfs'][path]}" in options.split(",")
        assert {"nosuid", "nodev"} <= set(options.split(","))
    log = config["LogConfig"]["Config"]
    assert config["LogConfig"]["Type"] == "json-file" and log["max-file"] == "1"
    assert 0 < int(log["max-size"]) <= 64 * 1024 * 1024


def test_every_container_and_network_carries_its_own_four_labels(cancelled: CancelledRun) -> None:
    run = cancelled.run["run"]
    labels = [cancelled.live.containers[role]["Config"]["Labels"] for role in CONTAINERS]
    labels += [network["Labels"] for network in cancelled.live.networks.values()]
    assert len(labels) == 5
    assert {LABEL_RUN, LABEL_OWNER, LABEL_NONCE, LABEL_ROLE} <= set.intersection(*(set(one) for one in labels))
    assert {one[LABEL_RUN] for one in labels} == {run} and len({one[LABEL_OWNER] for one in labels}) == 1
    assert len({one[LABEL_NONCE] for one in labels}) == len(labels)
    assert [one[LABEL_ROLE] for one in labels] == [*CONTAINERS, "network", "network"]


def test_the_agent_has_only_the_runs_internal_network(cancelled: CancelledRun) -> None:
    legs = cancelled.live.agent["NetworkSettings"]["Networks"].values()
    (internal,) = [network for network in cancelled.live.networks.values() if network["Internal"]]
    assert [leg["NetworkID"] for leg in legs] == [internal["Id"]]
    assert internal["Options"]["com.docker.network.bridge.inhibit_ipv4"] == "true"
    # Beside the gateway nobody else is in it: the verifier and other runs are not.
    gateway, agent = cancelled.live.containers["gateway"]["Id"], cancelled.live.agent["Id"]
    assert set(internal["Containers"]) == {gateway, agent}


def test_the_verifier_has_no_network(cancelled: CancelledRun) -> None:
    verifier = cancelled.live.verifier
    assert host(verifier)["NetworkMode"] == "none"
    assert list(verifier["NetworkSettings"]["Networks"]) == ["none"]


def test_the_host_does_not_reach_the_gateway(cancelled: CancelledRun) -> None:
    """Its address on the egress network refuses; to the internal one this host has no way at all.

    From other containers, other runs' networks and with other headers: tests/gateway/test_container.py.
    """
    (internal,) = [network["Id"] for network in cancelled.live.networks.values() if network["Internal"]]
    legs = cancelled.live.containers["gateway"]["NetworkSettings"]["Networks"].values()
    addresses = {leg["NetworkID"] == internal: leg["IPAddress"] for leg in legs}
    assert set(addresses) == {True, False}
    assert cancelled.live.gateway_reached == {addresses[False]: False}


def test_a_cancelled_run_keeps_its_finished_trial_and_cancels_the_other(cancelled: CancelledRun) -> None:
    run = cancelled.run
    assert (run["state"], run["verdict"], run["cleanup"], run["exit_code"]) == ("cancelled", "cancelled", "clean", 5)
    first, second = run["trials"]
    assert (first["bucket"], first["reward"]) == ("passed", 1)
    assert (second["bucket"], second["code"], second["reward"]) == ("cancelled", "cancelled.requested", None)
    counts = run["counts"]
    assert (counts["requested"], counts["evaluated"], counts["cancelled"], counts["error"]) == (2, 1, 1, 0)
    agent_logs = cancelled.after.folder / "trials" / "2" / "kept" / "agent"
    assert agent_logs.is_dir() and any(agent_logs.iterdir())
    asked, ended = (datetime.fromisoformat(run[name]) for name in ("cancel_requested_at", "ended_at"))
    print(f"cancelled and everything gone {(ended - asked).total_seconds():.1f} s after it was asked for")


def test_after_a_cancellation_nothing_owned_exists(cancelled: CancelledRun) -> None:
    after = cancelled.after
    assert after.containers_left == after.networks_left == []
    resources = after.journal.resources
    assert {r.stage for r in resources} == {ResourceStage.REMOVED}
    assert sum(r.intent.role is Role.NETWORK for r in resources) == 2
    assert after.journal.fence is not None
    run = cancelled.run["run"].encode()
    assert [pid for pid, seen in after.processes.items() if run in seen] == []
    assert not (after.folder / "work").exists()


def test_the_queues_own_stop_is_not_what_ended_the_harness(cancelled: CancelledRun) -> None:
    """The worker still serves, and the harness process saved its own logs on TERM."""
    assert cancelled.worker_alive
    observed = (cancelled.after.folder / "trials" / "2" / "observed.jsonl").read_text()
    assert observed.splitlines()[-1].find('"event":"closed"') > 0


def test_a_connection_to_nowhere_is_seen_as_not_reached() -> None:
    """The probe of the two tests above can tell: a listening address is reached."""
    from tests.engine.looking import reaches

    with socket.create_server(("127.0.0.1", 0)) as server:
        assert reaches("127.0.0.1", server.getsockname()[1])
