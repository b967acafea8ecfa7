"""The gateway's container between an agent's network and the scripted endpoint, all of them real."""

import hashlib
import json
import socket
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evidence.reading.clocks import moment
from evidence.trajectory.transcript import Proof, read_exchanges
from runs.attendant.attach import Attachment
from runs.containers import create_owned_network, remove_owned
from runs.engine.host.ca_files import read_ca_file
from runs.engine.network.egress import prove_egress
from runs.engine.network.gateway import GatewayError, RunNetworks, how_it_died, keep_ledger
from runs.engine.network.transcript import keep_transcript
from runs.scripted.server import Answer
from tests.gateway.authority import Authority
from tests.gateway.real_gateway import KEY, Site, chat, image, kinds

pytestmark = pytest.mark.harbor_compatibility

FLOODER = """
import socket
for number in range(10_000):
    with socket.create_connection(("model-gateway", 8080), 10) as link:
        link.sendall(b"GET /flood HTTP/1.1\\r\\nHost: g\\r\\n\\r\\n")
        while link.recv(4096):
            pass
print("flooded")
"""
CONNECTOR = """
import json, os, socket
for host, port in json.loads(os.environ["PLACES"]):
    try:
        socket.create_connection((host, port), 1.5).close()
        print("reached", host, port)
    except OSError as error:
        print("not reached", type(error).__name__)
"""
PROC_READER = """
import pathlib
for path in pathlib.Path("/proc").glob("[0-9]*/*"):
    if path.name in ("environ", "cmdline", "maps", "mountinfo", "status"):
        try:
            print(path.read_bytes())
        except OSError:
            pass
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("run")) as opened:
        yield opened


@pytest.mark.parametrize(
    ("mode", "statuses", "expected"),
    [
        ("positive", [200, 200], [("ok", None, 200)] * 2),
        ("negative", [200], [("ok", None, 200)]),
        ("forge", [200], [("ok", None, 200)]),
        ("unauthorized", [401], [("upstream_error", "status", 401)]),
        ("unavailable", [503], [("upstream_error", "status", 503)]),
        ("malformed", [200], [("malformed", "no_choice", 200)]),
        ("wrong-model", [200], [("wrong_model", None, 200)]),
        ("slow", [504], [("upstream_error", "timeout", None)]),
        ("hang", [504], [("upstream_error", "timeout", None)]),
    ],
)
def test_each_mode_of_the_endpoint_is_recorded_for_what_it_is(
    site: Site, mode: str, statuses: list[int], expected: list[tuple[Any, ...]]
) -> None:
    model = f"scripted-{mode}"
    limit = 1.0 if mode in ("slow", "hang") else 20.0
    with site.gateway(model, request_timeout_s=limit) as gateway:
        answers = site.ask(gateway, *[chat(model)] * len(statuses), trial=2)
        end = site.close(gateway)
    assert [status for status, _ in answers] == statuses
    assert end.problem is None and end.ledger.intact
    assert kinds(end.ledger, 2) == expected and not kinds(end.ledger, 1)


@pytest.mark.parametrize(
    ("of_own", "name", "expected"),
    [
        (True, "DNS:localhost", ("ok", None, 200)),
        (True, "DNS:other.example", ("upstream_error", "tls", None)),
        (False, "DNS:localhost", ("upstream_error", "tls", None)),
    ],
)
def test_an_endpoint_of_an_authority_of_ones_own_is_believed_by_its_record_alone(
    site: Site, tmp_path: Path, of_own: bool, name: str, expected: tuple[Any, ...]
) -> None:
    authority, model = Authority(tmp_path), "scripted-positive"
    ca = read_ca_file(str(authority.certificate))
    assert ca is not None
    with site.tls_server(authority.server(name)) as port:
        url = f"https://localhost:{port}/v1"
        with site.gateway(model, base_url=url, ca_pem=ca.pem if of_own else None) as gateway:
            site.ask(gateway, chat(model))
            assert kinds(site.close(gateway).ledger) == [expected]


@pytest.mark.parametrize("address", ["169.254.169.254", "10.255.255.1"])
def test_an_address_that_the_record_does_not_allow_is_never_tried(site: Site, address: str) -> None:
    with site.gateway("scripted-positive", route="direct", base_url=f"http://{address}:8000/v1") as gateway:
        site.ask(gateway, chat("scripted-positive"))
        assert kinds(site.close(gateway).ledger) == [("upstream_error", "address_refused", None)]


def test_late_failure_is_good_answers_and_then_an_error(site: Site) -> None:
    model = "scripted-late-failure"
    spoken = [
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a"},
        {"role": "assistant", "content": "b"},
    ]
    with site.gateway(model) as gateway:
        answers = site.ask(gateway, chat(model), chat(model, messages=spoken))
        report = site.close(gateway).ledger
    assert [status for status, _ in answers] == [200, 503]
    assert kinds(report) == [("ok", None, 200), ("upstream_error", "status", 503)]


def test_without_the_endpoints_key_the_endpoint_refuses(site: Site) -> None:
    with site.gateway("scripted-positive", credential=None) as gateway:
        [(status, _)] = site.ask(gateway, chat("scripted-positive"))
        assert (status, kinds(site.close(gateway).ledger)) == (401, [("upstream_error", "status", 401)])


def test_an_agent_gains_nothing_by_spoofing_or_by_asking_more_than_its_steps(site: Site) -> None:
    model = "scripted-positive"
    with site.gateway(model) as gateway:
        spoofed = {"X-Session-ID": "other__agent", "X-Forwarded-For": "1.1.1.1", "Cookie": "c"}
        good = site.ask(gateway, *[chat(model)] * 6, headers=spoofed)
        other = site.ask(gateway, chat("scripted-negative"), chat(model, max_tokens=1), trial=2)
        stranger = site.ask(gateway, chat(model), headers={"Authorization": "Bearer " + "0" * 64})
        report = site.close(gateway).ledger
    assert [status for status, _ in good] == [200] * 4 + [404] * 2
    assert [status for status, _ in other] == [404, 404] and [status for status, _ in stranger] == [401]
    assert report.trial(1).refused == {"steps_used_up": 2}
    assert report.trial(2).refused == {"body.model": 1, "body.max_tokens": 1}
    assert report.unattributed == {"token": 1} and len(report.trial(1).completions) == 4


def test_nobody_but_the_runs_agents_can_use_it(site: Site, tmp_path: Path) -> None:
    with site.gateway("scripted-positive") as gateway, Site(tmp_path) as other_run:
        inner, outer, name = (gateway.address, 8080), (gateway.egress_address, 8080), ("model-gateway", 8080)
        bridge = site.api.inspect_network("bridge")["Id"]
        # From a network with a way out, the inner address would be looked for outside this machine.
        tried = {bridge: [outer, name], other_run.networks.egress.id: [outer, name]}
        tried[other_run.networks.internal.id] = [inner, outer, name]
        for network, places in tried.items():
            seen = site.run(CONNECTOR, network=network, env={"PLACES": json.dumps(places)}).splitlines()
            assert len(seen) == len(places) and all(line.startswith("not reached") for line in seen)
        with pytest.raises(OSError):
            socket.create_connection(outer, 1.5)
        assert not routes_to(inner[0])
        env = {"PLACES": json.dumps([inner, name, outer])}
        seen = site.run(CONNECTOR, network=site.networks.internal.id, env=env).splitlines()
        assert [line.startswith("reached") for line in seen] == [True, True, False]
        assert site.close(gateway).ledger.lines == 2  # it opened and closed


def routes_to(address: str) -> list[str]:
    """This host's own routes to an address, its default route not counted."""
    routes = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
    number = int.from_bytes(socket.inet_aton(address), "little")
    return [fields[0] for fields in routes if int(fields[7], 16) and number & int(fields[7], 16) == int(fields[1], 16)]


def test_its_secrets_are_in_no_file_log_ledger_process_or_inspect_output(site: Site, tmp_path: Path) -> None:
    model = "scripted-positive"
    with site.gateway(model) as gateway:
        answers = site.ask(gateway, chat(model), chat(model, store=True))
        container = gateway.container.id
        agent = site.run(PROC_READER, network=site.networks.internal.id)
        inspected = json.dumps(site.api.inspect_container(container))
        processes = json.dumps(site.api.top(container, "auxeww"))
        archive = tmp_path / "files.tar"
        with archive.open("wb") as file:
            for chunk in site.api.export(container):
                file.write(chunk)
        site.close(gateway)
        log = site.api.logs(container, stdout=True, stderr=True)
    with tarfile.open(archive) as files:
        assert any(name.endswith("model_gateway/serve.py") for name in files.getnames())
    seen = [agent, inspected, processes, str(answers), repr(gateway), log.decode(), site.ledger.read_text()]
    for secret in (KEY, gateway.run_key.hex(), gateway.token(1)):
        assert not any(secret in text for text in seen)
        assert secret.encode() not in archive.read_bytes()
        for file in site.directory.rglob("*"):
            assert not file.is_file() or secret.encode() not in file.read_bytes()


def test_it_is_contained_and_owned_like_every_other_container(site: Site) -> None:
    with site.gateway("scripted-positive") as gateway:
        seen = site.api.inspect_container(gateway.container.id)
        limits = inside(site, gateway.container.id, "/proc/1/limits")
        forwarding = inside(site, gateway.container.id, "/proc/sys/net/ipv4/ip_forward")
    host = seen["HostConfig"]
    assert host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"] and not host["CapAdd"] and not host["Privileged"]
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (256 * 1024**2, 256 * 1024**2, 32)
    assert seen["Mounts"] == [] and not host["Binds"] and not host.get("Tmpfs")
    assert seen["Config"]["User"] == "65534:65534"
    assert {leg["NetworkID"] for leg in seen["NetworkSettings"]["Networks"].values()} == {
        site.networks.internal.id,
        site.networks.egress.id,
    }
    assert gateway.container.intent.labels.items() <= seen["Config"]["Labels"].items()
    assert limits.split("Max core file size")[1].split()[:2] == ["0", "0"]
    assert forwarding.strip() == "0"


def inside(site: Site, container: str, path: str) -> str:
    """What a file in the container's view says."""
    program = f"print(open({path!r}).read())"
    entered = site.api.exec_create(container, ["python3", "-I", "-c", program])
    return str(site.api.exec_start(entered["Id"]).decode())


def test_a_flood_from_an_agent_costs_no_proof_and_a_bounded_log(site: Site) -> None:
    model = "scripted-positive"
    with site.gateway(model) as gateway:
        site.ask(gateway, chat(model))
        assert "flooded" in site.run(FLOODER, network=site.networks.internal.id, gateway=gateway)
        site.ask(gateway, chat(model))
        end = site.close(gateway)
    assert end.ledger.intact and end.ledger.lines < 20
    assert end.ledger.unattributed == {"path": 10_000} and len(end.ledger.trial(1).completions) == 2


def test_the_copy_of_the_ledger_grows_while_the_run_lives(site: Site) -> None:
    model = "scripted-positive"
    with site.gateway(model) as gateway:
        site.ask(gateway, chat(model))
        until = time.monotonic() + 60
        while b'"kind":"ok"' not in site.ledger.read_bytes() and time.monotonic() < until:
            time.sleep(0.02)
        assert not gateway.follower.ended and site.ledger.read_bytes().count(b"\n") == 2
        assert site.ledger.stat().st_mode & 0o777 == 0o600


def test_a_gateway_that_was_killed_leaves_what_it_wrote_and_is_not_closed(site: Site) -> None:
    model = "scripted-positive"
    with site.gateway(model) as gateway:
        site.ask(gateway, chat(model))
        site.api.kill(gateway.container.id, signal="SIGKILL")
        end = site.close(gateway)
        assert gateway.follower.ended and end.problem is not None
    assert end.died is not None and (end.died["exit_code"], end.died["oom_killed"]) == (137, False)
    assert moment(end.died["at"]) is not None
    assert end.ledger.fault is not None and end.ledger.fault.code == "ledger.not_closed"
    assert len(end.ledger.trial(1).completions) == 1


def test_a_lost_copy_is_taken_from_the_container_again(site: Site) -> None:
    model = "scripted-positive"
    with site.gateway(model) as gateway:
        site.ask(gateway, chat(model))
        site.close(gateway)
        site.ledger.unlink()
        assert keep_ledger(site.api, gateway.container.id, site.ledger).intact
        assert site.ledger.stat().st_mode & 0o777 == 0o600


def test_a_broken_copy_is_replaced_by_the_whole_log(site: Site) -> None:
    with site.gateway("scripted-positive") as gateway:
        site.close(gateway)
        site.ledger.write_bytes(b"something else\n")
        assert keep_ledger(site.api, gateway.container.id, site.ledger).intact
        assert b"something" not in site.ledger.read_bytes()


def test_without_the_container_the_copy_is_kept(site: Site) -> None:
    model = "scripted-positive"
    with site.gateway(model) as gateway:
        site.ask(gateway, chat(model))
        site.close(gateway)
        copy = site.ledger.read_bytes()
        report = keep_ledger(site.api, "0" * 64, site.ledger)
    assert report.intact and len(report.trial(1).completions) == 1 and site.ledger.read_bytes() == copy


def test_an_endpoint_whose_name_does_not_resolve_fails_the_start(site: Site) -> None:
    with (
        pytest.raises(GatewayError) as caught,
        site.gateway("scripted-positive", base_url="http://name.invalid/v1", route="direct"),
    ):
        pass
    assert caught.value.code == "gateway.resolve" and KEY not in caught.value.detail


def test_the_probe_passes_on_a_runs_network_and_leaves_nothing(site: Site) -> None:
    """Host ports are unreachable from the run's network except through the gateway."""
    own = {"label": f"benchsite.run={site.journal.read().run_id}"}
    before = len(site.api.containers(all=True, filters=own))
    with site.gateway("scripted-positive") as gateway:
        url = f"http://127.0.0.1:{site.server.port}/v1"
        report = prove_egress(site.api, site.journal, gateway, image("verifier"), endpoint_url=url)
    assert report.passed, report.detail
    assert len(site.api.containers(all=True, filters=own)) == before
    tried = {check.name: check.detail for check in report.checks}
    assert f"port {site.server.port}" in tried["network_gateway"] and report.unproved


def test_the_probe_fails_on_a_network_that_reaches_the_host(site: Site) -> None:
    """The probe's result decides, not the option's name."""
    open_network = create_owned_network(site.api, site.journal, internal=False)
    confined = site.networks
    site.networks = RunNetworks(open_network, confined.egress)
    try:
        with site.gateway("scripted-positive") as gateway:
            report = prove_egress(site.api, site.journal, gateway, image("verifier"))
    finally:
        site.networks = confined
        remove_owned(site.api, site.journal, open_network.intent.nonce)
    codes = {check.code for check in report.failures}
    assert not report.passed and {"egress.host_address", "egress.default_gateway", "egress.network_gateway"} <= codes


def test_a_gateway_that_was_removed_died_at_no_known_moment(site: Site) -> None:
    with site.gateway("scripted-positive") as gateway:
        assert how_it_died(site.api, gateway.container.id) is None
        site.api.remove_container(gateway.container.id, force=True)
        assert how_it_died(site.api, gateway.container.id) == {"at": None, "exit_code": None, "oom_killed": False}


def kept(site: Site, trial: int) -> list[dict[str, Any]]:
    """The exchanges of a trial's transcript."""
    lines = (site.directory / "trials" / str(trial) / "transcript.jsonl").read_text().splitlines()
    opening, *exchanges = map(json.loads, lines)
    assert opening == {"kind": "opened", "version": 1, "trial": trial}
    return exchanges


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def rebuilt(exchanges: list[dict[str, Any]]) -> list[str]:
    """The SHA-256 of each request as its differences give it."""
    units: list[str] = []
    found = []
    for request in (exchange["request"] for exchange in exchanges):
        tail = units[len(units) - request["tail"] :]
        units = [*units[: request["head"]], *request["new"], *tail]
        found.append(hashlib.sha256("".join(units).encode()).hexdigest())
    return found


def test_the_transcript_survives_its_follower_and_is_the_ledgers_to_the_byte(site: Site) -> None:
    model = "scripted-positive"
    trials = site.directory / "trials"
    for trial in (1, 2):
        (trials / str(trial)).mkdir(parents=True, exist_ok=True)
    said = [chat(model, f"question {number}, né") for number in range(4)]
    with site.gateway(model) as gateway:
        gateway.follow_transcript(trials)
        site.ask(gateway, said[0])
        until(lambda: (trials / "1" / "transcript.jsonl").exists())
        assert gateway.transcript is not None
        gateway.transcript.drop()
        site.ask(gateway, said[1])
        gateway.transcript.drop()
        site.ask(gateway, *said[2:])
        site.ask(gateway, chat(model), trial=2)
        end = site.close(gateway)
    assert end.problem is None
    for trial, count in ((1, 4), (2, 1)):
        exchanges, requests = kept(site, trial), end.ledger.trial(trial).requests
        assert [exchange["ledger"]["seq"] for exchange in exchanges] == [request.seq for request in requests]
        assert len(exchanges) == count and rebuilt(exchanges) == [request.request_sha256 for request in requests]
        answers = [hashlib.sha256(exchange["answer"].encode()).hexdigest() for exchange in exchanges]
        assert answers == [request.response_sha256 for request in requests]
        assert (trials / str(trial) / "transcript.jsonl").stat().st_mode & 0o777 == 0o600


def test_what_a_killed_worker_left_in_the_gateway_is_taken_by_the_recovery(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = "scripted-positive"
    (tmp_path / "1").mkdir()
    with site.gateway(model) as gateway:
        site.ask(gateway, chat(model, "one"), chat(model, "two"))
        with monkeypatch.context() as killed:
            killed.setattr(Attachment, "say", lambda *_: None)  # before it could say what it holds
            assert keep_transcript(site.api, gateway.container.id, tmp_path)
        path = tmp_path / "1" / "transcript.jsonl"
        first, whole = path.read_bytes().splitlines(keepends=True)[:2], path.read_bytes()
        path.write_bytes(b"".join(first) + b'{"kind":"exchange","number":1,"led')  # as a killed worker leaves it
        site.ask(gateway, chat(model, "three"))
        assert keep_transcript(site.api, gateway.container.id, tmp_path)
        taken = path.read_bytes().splitlines(keepends=True)
        site.close(gateway)
        assert not keep_transcript(site.api, gateway.container.id, tmp_path)
    assert taken[:3] == whole.splitlines(keepends=True) and json.loads(taken[3])["number"] == 2
    assert len(taken) == 4 and path.read_bytes() == b"".join(taken)


QUIET_ASKER = """
import http.client, json, os
ask = json.loads(os.environ["ASK"])
for _ in range(ask["times"]):
    link = http.client.HTTPConnection("model-gateway", 8080, timeout=60)
    headers = {"Authorization": "Bearer " + ask["token"], "Content-Type": "application/json"}
    link.request("POST", "/v1/chat/completions", json.dumps(ask["body"]), headers)
    answer = link.getresponse()
    answer.read()
    print(answer.status, flush=True)
"""


def test_an_endpoint_of_huge_answers_exhausts_no_memory_and_what_found_no_room_is_named(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = "scripted-positive"
    huge = Answer(503, {"error": "\u0001" + "x" * (15 * 1024 * 1024)})
    monkeypatch.setattr(site.server, "answer", lambda _: huge)
    path = tmp_path / "1" / "transcript.jsonl"
    path.parent.mkdir()
    with site.gateway(model) as gateway:
        ask = {"times": 4, "body": chat(model), "token": gateway.token(1)}
        env, inner = {"ASK": json.dumps(ask)}, site.networks.internal.id
        assert site.run(QUIET_ASKER, network=inner, env=env, gateway=gateway).split() == ["503"] * 4
        assert keep_transcript(site.api, gateway.container.id, tmp_path)
        end = site.close(gateway)
    assert end.problem is None and end.died is None and end.ledger.intact
    with path.open("rb") as file:
        proofs = [exchange.proof for exchange in read_exchanges(file, end.ledger.trial(1), trial=1)]
    assert proofs == [Proof.MATCHES, Proof.MATCHES, Proof.MATCHES, Proof.LOST]
