"""With a real engine: what is ours goes for certain, and nothing else is ever touched."""

import json
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from runs.containers import (
    Deadline,
    EngineError,
    OwnedContainer,
    address_in,
    connect,
    connect_owned,
    container_body,
    create_owned,
    create_owned_network,
    find_owned,
    reconcile,
    remove_owned,
    start_owned,
    still_present,
)
from runs.engine.ending.cleanup import clean_up
from runs.ownership import Fenced, Journal, Outcome, ResourceStage, Role

from .conftest import agent_request

pytestmark = pytest.mark.harbor_compatibility
SPAWN = multiprocessing.get_context("spawn")
SOCKET = "/var/run/docker.sock"


@pytest.fixture
def owned_journal(api: Any, tmp_path: Path) -> Iterator[Journal]:
    journal = Journal.create(tmp_path / "run", run_id="r1")
    yield journal
    assert clean_up(lambda _: api, journal, reason="the test is over").state == "clean"


@pytest.fixture
def stranger(api: Any, tiny_image: str) -> Iterator[Callable[..., str]]:
    """Makes containers that are not ours, and removes them by their exact ids afterwards."""
    made: list[str] = []

    def make(labels: dict[str, str] | None = None, **config: Any) -> str:
        body = {"Image": tiny_image, "Cmd": ["/bin/busybox", "sleep", "300"], "Labels": labels or {}}
        name = config.pop("name", None)
        made.append(api.create_container_from_config({**body, **config}, name)["Id"])
        api.start(made[-1])
        return made[-1]

    yield make
    for container in made:
        api.remove_container(container, force=True, v=True)


def output_of(api: Any, journal: Journal, image: str, script: str, **changes: Any) -> str:
    """What a container of ours prints before it ends."""
    request = agent_request(image, command=("/bin/busybox", "sh", "-c", script), **changes)
    owned = create_owned(api, journal, {"trial": 1}, request)
    start_owned(api, journal, owned)
    api.wait(owned.id, timeout=120)
    text: str = api.logs(owned.id).decode()
    return text


class TestHardening:
    def test_the_limits_are_in_force_inside(self, api: Any, owned_journal: Journal, tiny_image: str) -> None:
        script = """
        bb=/bin/busybox
        $bb grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status
        echo "nofile $(ulimit -n) core $(ulimit -c)"
        $bb touch /made 2>/dev/null || echo "root is read-only"
        $bb dd if=/dev/zero of=/tmp/big bs=64k count=100 2>/dev/null
        echo "tmpfs holds $($bb stat -c %s /tmp/big)"
        $bb ip -o link | $bb wc -l
        $bb cat /etc/resolv.conf
        """
        text = output_of(api, owned_journal, tiny_image, script)
        for line in ("CapPrm", "CapEff", "CapBnd"):
            assert f"{line}:\t{'0' * 16}" in text
        assert "NoNewPrivs:\t1" in text and "Seccomp:\t2" in text
        assert "nofile 128 core 0" in text
        assert "root is read-only" in text
        assert "tmpfs holds 1048576" in text
        assert "\n1\n" in text  # the loopback is the only interface
        assert "nameserver 127.0.0.1" in text and "timeout:1 attempts:1" in text

    def test_processes_are_bounded(self, api: Any, owned_journal: Journal, tiny_image: str) -> None:
        script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do /bin/busybox sleep 20 & done; wait"
        text = output_of(api, owned_journal, tiny_image, script, pids=8)
        assert "can't fork" in text

    def test_only_the_capabilities_asked_for_are_there(self, api: Any, owned_journal: Journal, tiny_image: str) -> None:
        script = "/bin/busybox grep CapEff /proc/self/status"
        text = output_of(api, owned_journal, tiny_image, script, capabilities=("CHOWN", "KILL"))
        assert int(text.split()[1], 16) == 1 << 0 | 1 << 5

    def test_the_engine_applied_what_was_asked(self, api: Any, owned_journal: Journal, tiny_image: str) -> None:
        owned = create_owned(api, owned_journal, {}, agent_request(tiny_image))
        seen = api.inspect_container(owned.id)
        asked = container_body(agent_request(tiny_image), owned.intent)
        for name, value in asked["HostConfig"].items():
            assert (seen["HostConfig"].get(name) or None) == (value or None), name
        assert seen["Mounts"] == []
        assert seen["Config"]["Healthcheck"] == {"Test": ["NONE"]}
        assert owned.intent.labels.items() <= seen["Config"]["Labels"].items()

    def test_memory_is_bounded_without_swap(self, api: Any, owned_journal: Journal, tiny_image: str) -> None:
        request = agent_request(
            tiny_image,
            command=("/bin/busybox", "sh", "-c", "/bin/busybox tail /dev/zero"),
            memory_bytes=16 << 20,
        )
        owned = create_owned(api, owned_journal, {}, request)
        start_owned(api, owned_journal, owned)
        assert api.wait(owned.id, timeout=60)["StatusCode"] == 137

    def test_an_image_that_is_not_there_was_never_created(self, api: Any, owned_journal: Journal) -> None:
        with pytest.raises(EngineError) as raised:
            create_owned(api, owned_journal, {}, agent_request("sha256:" + "0" * 64))
        assert raised.value.code == "engine_absent"
        assert [r.stage for r in owned_journal.read().resources] == [ResourceStage.FAILED]


class TestNetworks:
    def test_a_container_has_an_address_and_a_second_leg(
        self, api: Any, owned_journal: Journal, tiny_image: str
    ) -> None:
        inside = create_owned_network(api, owned_journal, internal=True)
        egress = create_owned_network(api, owned_journal, internal=False)
        gateway = create_owned(
            api,
            owned_journal,
            {},
            agent_request(tiny_image, role=Role.GATEWAY, network=inside.id, aliases=("model-gateway",)),
        )
        connect_owned(api, owned_journal, gateway, egress)
        start_owned(api, owned_journal, gateway)
        assert address_in(api, gateway.id, inside.id) != address_in(api, gateway.id, egress.id)

    def test_an_internal_network_gives_its_bridge_no_host_address(self, api: Any, owned_journal: Journal) -> None:
        network = create_owned_network(api, owned_journal, internal=True)
        bridge = f"br-{network.id[:12]}"
        families = {address.family for address in psutil.net_if_addrs()[bridge]}
        assert socket.AF_INET not in families

    def test_a_network_in_use_by_a_stranger_is_left_until_it_is_free(
        self, api: Any, owned_journal: Journal, stranger: Callable[..., str]
    ) -> None:
        network = create_owned_network(api, owned_journal, internal=True)
        theirs = stranger()
        api.connect_container_to_network(theirs, network.id)
        report = reconcile(api, owned_journal)
        assert [(r.outcome, r.detail) for r in report.left] == [
            (Outcome.UNKNOWN, f"the network is in use by: {theirs}")
        ]
        assert network.id in api.inspect_container(theirs)["NetworkSettings"]["Networks"][network.name]["NetworkID"]
        api.disconnect_container_from_network(theirs, network.id)
        assert reconcile(api, owned_journal).clean


class TestSentinels:
    def test_everything_that_is_not_ours_survives(
        self, api: Any, owned_journal: Journal, tiny_image: str, stranger: Callable[..., str]
    ) -> None:
        """As near to ours as a container can be, and still not touched."""
        ours = create_owned(api, owned_journal, {"trial": 1}, agent_request(tiny_image))
        start_owned(api, owned_journal, ours)
        never_started = create_owned(api, owned_journal, {"trial": 1}, agent_request(tiny_image))
        labels = ours.intent.labels
        theirs = [
            stranger(),
            stranger({"benchsite.run": "r1"}),
            stranger({**labels, "benchsite.owner": "f" * 32}),
            stranger({**labels, "benchsite.nonce": "f" * 32}),
            stranger({**labels, "benchsite.role": "verifier"}),
            stranger(name=f"benchsite-{ours.intent.nonce}-b"),
        ]
        network = api.create_network("benchsite-unrelated", labels={"benchsite.run": "r1"})["Id"]
        try:
            result = clean_up(lambda _: api, owned_journal, reason="cancelled")
            assert result.state == "clean"
            assert {r.id for r in result.report.removed} == {ours.id, never_started.id}
            assert all(api.inspect_container(container)["State"]["Running"] for container in theirs)
            assert api.inspect_network(network)["Id"] == network
        finally:
            api.remove_network(network)

    def test_a_container_never_started_is_found_by_its_labels(
        self, api: Any, owned_journal: Journal, tiny_image: str
    ) -> None:
        owned = create_owned(api, owned_journal, {}, agent_request(tiny_image))
        assert find_owned(api, owned.intent) == [owned.id]
        assert still_present(api, owned_journal) == [("agent", owned.id)]


class TestRemoval:
    def test_four_removals_at_once_all_end_in_success(self, api: Any, owned_journal: Journal, tiny_image: str) -> None:
        owned = create_owned(api, owned_journal, {}, agent_request(tiny_image))
        start_owned(api, owned_journal, owned)
        outcomes: list[Outcome] = []

        def remove() -> None:
            client = connect()
            outcomes.append(remove_owned(client, owned_journal, owned.intent.nonce))
            client.close()

        threads = [threading.Thread(target=remove) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(outcomes) == 4 and set(outcomes) <= {Outcome.REMOVED, Outcome.ABSENT}
        assert find_owned(api, owned.intent) == []

    def test_an_open_stream_makes_the_removal_unknown_and_not_success(
        self, api: Any, owned_journal: Journal, tiny_image: str
    ) -> None:
        owned = create_owned(api, owned_journal, {}, agent_request(tiny_image))
        start_owned(api, owned_journal, owned)
        reader = connect()
        stream, _ = reader.get_archive(owned.id, "/bin", chunk_size=1024)
        next(stream)
        hurried = connect()
        hurried.timeout = 1
        report = reconcile(hurried, owned_journal, deadline=Deadline(2))
        assert [r.outcome for r in report.resources] == [Outcome.UNKNOWN]
        stream.close()
        reader.close()
        hurried.close()
        assert reconcile(api, owned_journal).clean
        assert find_owned(api, owned.intent) == []

    def test_a_fence_between_create_and_start_leaves_nothing_running(
        self, api: Any, owned_journal: Journal, tiny_image: str
    ) -> None:
        owned = create_owned(api, owned_journal, {}, agent_request(tiny_image))
        owned_journal.fence("cancelled")
        with pytest.raises(Fenced):
            start_owned(api, owned_journal, owned)
        assert api.inspect_container(owned.id)["State"]["Status"] == "created"


def _create_and_die(directory: str, image: str) -> None:
    """Send the create request as a client would, and be killed before the answer is read."""
    journal = Journal(Path(directory))
    intent = journal.intend(Role.AGENT, trial=1)
    with journal.creating(intent), socket.socket(socket.AF_UNIX) as engine:
        engine.connect(SOCKET)
        body = json.dumps(container_body(agent_request(image), intent)).encode()
        head = (
            f"POST /v1.41/containers/create?name=benchsite-{intent.nonce} HTTP/1.1\r\nHost: engine\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        engine.sendall(head.encode() + body)
        os.kill(os.getpid(), signal.SIGKILL)


class TestClientsKilledMidCreate:
    def test_every_container_whose_client_was_killed_is_found_and_removed(
        self, api: Any, owned_journal: Journal, tiny_image: str
    ) -> None:
        """The intents have no id, and the engine goes on creating."""
        clients = [
            SPAWN.Process(target=_create_and_die, args=(str(owned_journal.directory), tiny_image)) for _ in range(8)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert {client.exitcode for client in clients} == {-signal.SIGKILL}
        intents = [resource.intent for resource in owned_journal.read().resources]
        assert len(intents) == 8
        assert all(resource.resource_id is None for resource in owned_journal.read().resources)
        # A busy engine creates what it was asked for after one cleanup has believed it absent; recovery looks again.
        removed, until = 0, time.monotonic() + 120
        while removed < 8 and time.monotonic() < until:
            result = clean_up(lambda _: api, owned_journal, reason="interrupted")
            assert result.state == "clean"
            removed += len(result.report.removed)
        assert removed == 8
        assert [find_owned(api, intent) for intent in intents] == [[]] * 8

    def test_a_create_that_races_the_cancel_is_removed_or_never_made(
        self, api: Any, tiny_image: str, tmp_path: Path
    ) -> None:
        for number in range(6):
            journal = Journal.create(tmp_path / str(number), run_id="r1")
            made: list[OwnedContainer] = []
            thread = threading.Thread(target=_create_until_fenced, args=(journal, tiny_image, made))
            thread.start()
            while len(made) < number % 3 and thread.is_alive():
                pass
            result = clean_up(lambda _: api, journal, reason="cancelled")
            thread.join()
            assert result.state == "clean"
            assert still_present(api, journal) == []


def _create_until_fenced(journal: Journal, image: str, made: list[OwnedContainer]) -> None:
    client = connect()
    with suppress(Fenced, EngineError):
        while len(made) < 10:
            made.append(create_owned(client, journal, {}, agent_request(image)))
            start_owned(client, journal, made[-1])
    client.close()
