"""A worker tests real connections: through a gateway of its own, and nothing of it stays."""

import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from runs.containers import connect
from runs.ownership import Journal, Outcome
from runs.scripted.scripts import ALIAS_PREFIX, Mode
from runs.scripted.server import Answer, ScriptedServer, answer_to
from tests.engine.looking import stores
from tests.engine.plays import record
from tests.engine.site import Done, GateSite
from tests.gateway.authority import Authority

pytestmark = pytest.mark.harbor_compatibility

POSITIVE = ALIAS_PREFIX + Mode.POSITIVE
# Aliases of this module's own server, beside those of the scripted endpoint.
ANSWERS = {
    "redirects": Answer(307, {}),
    "speaks-otherwise": Answer(200, {"hello": "world"}),
    "holds": Answer(200, {}, 30.0),
    "counts": Answer(429, {"error": {"message": "too many requests"}}),
}


@contextmanager
def bridge_server(key: str) -> Iterator[str]:
    def answer(request: dict[str, Any]) -> Answer:
        return ANSWERS.get(str(request.get("model"))) or answer_to(request)

    with closing(connect(30)) as api:
        address = api.inspect_network("bridge")["IPAM"]["Config"][0].get("Gateway") or "172.17.0.1"
    with ScriptedServer(address, 0, key, answer=answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        yield f"http://{address}:{server.port}/v1"
        server.shutdown()
        thread.join(5)


class Connecting:
    """A site whose worker serves, an endpoint's server, and its key."""

    def __init__(self, site: GateSite, base_url: str, key: str, key_file: Path) -> None:
        self.site, self.base_url, self.key, self.key_file = site, base_url, key, key_file

    def test(self, name: str, model: str, **changes: Any) -> Done:
        self.site.register({**record(name, self.base_url, str(self.key_file)), "model": model, **changes})
        return self.site.manage("endpoint", "test", name, "--wait", "--json")


@pytest.fixture(scope="module")
def tested(prepared: GateSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connecting]:
    key = f"sk-connection-{secrets.token_urlsafe(18)}"
    key_file = tmp_path_factory.mktemp("key") / "key"
    key_file.touch(0o600)
    key_file.write_text(key + "\n")
    with bridge_server(key) as base_url, prepared.worker():
        yield Connecting(prepared, base_url, key, key_file)


def codes(done: Done) -> list[str]:
    return [check["code"] for check in done.json["checks"] if not check["code"].endswith("not_proved")]


@pytest.fixture(scope="module")
def ready(tested: Connecting) -> Done:
    return tested.test("ready", POSITIVE)


def test_a_ready_endpoint_holds_every_check(ready: Done) -> None:
    assert (ready.code, ready.json["outcome"]) == (0, "ready")
    assert codes(ready) == [
        "endpoint.reachable", "endpoint.authenticated", "endpoint.answered", "endpoint.model_present",
        "credential.searched",
    ]  # fmt: skip
    assert 0 < ready.json["seconds"] < 5


@pytest.mark.parametrize(
    ("model", "code", "exit_code"),
    [
        ("scripted-unauthorized-at-once", "endpoint.auth_refused", 1),
        ("scripted-unavailable-at-once", "endpoint.not_ready", 1),
        ("scripted-wrong-model-at-once", "endpoint.wrong_model", 1),
        ("no-such-model", "endpoint.model_absent", 1),
        ("redirects", "endpoint.redirected", 1),
        ("speaks-otherwise", "endpoint.wrong_content", 1),
        ("counts", "endpoint.rate_limited", 1),
        ("holds", "endpoint.slow", 4),
    ],
)
def test_each_way_in_which_an_endpoint_is_not_ready_is_told_apart(
    tested: Connecting, model: str, code: str, exit_code: int
) -> None:
    done = tested.test("changing", model)
    assert done.code == exit_code and code in codes(done)
    (own,) = [check for check in done.json["checks"] if check["code"] == code]
    assert own["detail"] and own["remedy"]


def test_a_wrong_path_is_no_missing_model(tested: Connecting) -> None:
    done = tested.test("changing", POSITIVE, base_url=f"{tested.base_url}/extra")
    assert "endpoint.path_not_found" in codes(done)


def test_an_address_where_nobody_listens_and_one_without_tls_are_told_apart(tested: Connecting) -> None:
    host = tested.base_url.split("/")[2].split(":")[0]
    with closing(socket.create_server((host, 0))) as taken:
        port = taken.getsockname()[1]
    nobody = tested.test("changing", POSITIVE, base_url=f"http://{host}:{port}/v1")
    assert "endpoint.unreachable" in codes(nobody)
    no_tls = tested.test("changing", POSITIVE, base_url=tested.base_url.replace("http:", "https:"))
    assert "endpoint.tls_failed" in codes(no_tls)


def test_a_credential_that_the_worker_does_not_have_is_said_before_anything_is_created(tested: Connecting) -> None:
    missing = {"kind": "file", "name": str(tested.key_file.with_name("absent"))}
    done = tested.test("changing", POSITIVE, credential=missing)
    assert (done.code, done.json["outcome"], done.json["failure"]["code"]) == (4, "not_made", "credential.missing")


def test_nothing_of_a_test_stays_and_its_credential_is_nowhere(tested: Connecting, ready: Done) -> None:
    assert ready.code == 0
    journal = Journal(tested.site.data / "maintenance" / "local").read()
    assert all(resource.settled for resource in journal.resources)
    assert {resource.outcome for resource in journal.resources} <= {Outcome.REMOVED, Outcome.ABSENT}
    with closing(connect(30)) as api:
        filters = {"label": [f"benchsite.run={journal.run_id}"]}
        assert not api.containers(all=True, filters=filters) and not api.networks(filters=filters)
    assert not list((tested.site.data / "scratch").glob("connection-*"))
    assert not [place for place, content in stores(tested.site) if tested.key.encode() in content]


@contextmanager
def tls_server(key: str, authority: Authority) -> Iterator[str]:
    """The scripted endpoint behind a certificate of this authority; its base URL."""
    with closing(connect(30)) as api:
        address = api.inspect_network("bridge")["IPAM"]["Config"][0].get("Gateway") or "172.17.0.1"
    with ScriptedServer(address, 0, key) as server:
        server.socket = authority.server(f"IP:{address}").wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        yield f"https://{address}:{server.port}/v1"
        server.shutdown()
        thread.join(5)


def of_v2(name: str, base_url: str, key_file: Path, ca_file: Path) -> dict[str, Any]:
    first = {key: value for key, value in record(name, base_url, str(key_file)).items() if key != "served_model"}
    more = {"schema": "benchsite.endpoint/v2", "private_addresses": "allowed", "ca_file": str(ca_file)}
    return {**first, "model": POSITIVE, **more}


def test_a_ca_file_is_read_believed_alone_and_missed(tested: Connecting, tmp_path: Path) -> None:
    """Through the whole of a connection test, and a missing one through the preflight of a run."""
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
    own, other = Authority(tmp_path / "own"), Authority(tmp_path / "other")
    with tls_server(tested.key, own) as base_url:
        places = {"own": own.certificate, "other": other.certificate, "none": tmp_path / "none.pem"}
        found = {}
        for name, ca_file in places.items():
            tested.site.register(of_v2(f"tls-{name}", base_url, tested.key_file, ca_file))
            found[name] = tested.site.manage("endpoint", "test", f"tls-{name}", "--wait", "--json")
        assert (found["own"].code, found["own"].json["outcome"]) == (0, "ready")
        assert "ca_file.read" in codes(found["own"])
        assert found["other"].json["outcome"] == "not_ready" and "endpoint.tls_failed" in codes(found["other"])
        assert found["none"].json["failure"]["code"] == "ca_file.missing"
        run = tested.site.ended(tested.site.start("tls-none", "ledger-totals"))
    assert run["failure"]["code"] == "ca_file.missing" and run["trials"][0]["code"] == "worker_runtime.preflight"
