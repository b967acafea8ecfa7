"""A real gateway container of the prepared image, the scripted endpoint behind it, containers beside it."""

import json
import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runs.containers import (
    ContainerRequest,
    connect,
    create_owned,
    engine_call,
    reconcile,
    remove_owned,
    start_owned,
)
from runs.documents.ledger import LedgerReport
from runs.engine.assets.folder import AssetFolder
from runs.engine.assets.image_lock import read_image_lock
from runs.engine.network.gateway import GatewayEnd, GatewayPlan, RunGateway, RunNetworks, open_networks, start_gateway
from runs.ownership import Journal, Role
from runs.scripted.server import ScriptedServer

MIB = 1024 * 1024
KEY = "SENTINEL-7f3a9d-credential-of-the-endpoint"
MAX_TOKENS = 512

# Runs in a container beside the gateway: posts each body of ASK in turn and prints [status, text] lines.
ASKER = """
import http.client, json, os, sys
ask = json.loads(os.environ["ASK"])
for body in ask["bodies"]:
    link = http.client.HTTPConnection(ask["host"], 8080, timeout=ask.get("timeout", 20))
    try:
        headers = {"Authorization": "Bearer " + ask["token"], "Content-Type": "application/json"}
        headers |= ask.get("headers", {})
        link.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        answer = link.getresponse()
        print(json.dumps([answer.status, answer.read().decode()]), flush=True)
    except OSError as error:
        print(json.dumps([0, repr(error)]), flush=True)
    link.close()
"""


def image(role: str) -> str:
    """The prepared image's id; a missing one is a failure, since the gate was asked for."""
    return str(read_image_lock(AssetFolder(Path(os.environ["BENCHSITE_ASSETS"])).image_lock).of(role).id)


def chat(model: str, content: str = "the file is /app/ledger.csv", **changes: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": content}]
    return {"model": model, "messages": messages, "max_tokens": MAX_TOKENS} | changes


@dataclass
class Site:
    """One run's networks, journal and scripted endpoint; everything that it makes is removed at its end."""

    directory: Path
    networks: RunNetworks = field(init=False)
    journal: Journal = field(init=False)
    server: ScriptedServer = field(init=False)
    api: Any = field(init=False)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> "Site":
        self.api = connect()
        self._stack.callback(self.api.close)
        self.journal = Journal.create(self.directory, run_id=os.urandom(16).hex())
        self._stack.callback(self._clean)
        self.networks = open_networks(self.api, self.journal)
        self.server = self._stack.enter_context(self._serving())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def _serving(self, context: ssl.SSLContext | None = None) -> Iterator[ScriptedServer]:
        address = self.api.inspect_network(self.networks.egress.id)["IPAM"]["Config"][0]["Gateway"]
        with ScriptedServer(address, 0, KEY, slow_s=30.0) as server:
            if context is not None:
                server.socket = context.wrap_socket(server.socket, server_side=True)
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            try:
                yield server
            finally:
                server.shutdown()
                thread.join()

    @contextmanager
    def tls_server(self, context: ssl.SSLContext) -> Iterator[int]:
        """The port of a scripted endpoint that speaks TLS, on the address that the route host-gateway leads to."""
        with self._serving(context) as server:
            yield server.port

    def _clean(self) -> None:
        self.journal.fence("the test ended")
        assert reconcile(self.api, self.journal).clean

    @property
    def ledger(self) -> Path:
        return self.directory / "ledger.jsonl"

    def plan(self, model: str, **changes: Any) -> GatewayPlan:
        settings: dict[str, Any] = {
            "image_id": image("gateway"), "cpus": 1.0, "memory_bytes": 256 * MIB, "pids": 32, "nofile": 256,
            "base_url": f"http://127.0.0.1:{self.server.port}/v1", "model": model, "served_models": (),
            "private_addresses": False, "route": "host-gateway", "trials": 2, "max_steps": 4,
            "max_completion_tokens": MAX_TOKENS, "request_timeout_s": 20.0,
        }  # fmt: skip
        return GatewayPlan(**settings | changes)

    @contextmanager
    def gateway(self, model: str, credential: str | None = KEY, **changes: Any) -> Iterator[RunGateway]:
        gateway = start_gateway(
            self.api, self.journal, self.networks, self.plan(model, **changes), credential, self.ledger
        )
        try:
            yield gateway
        finally:
            gateway.close(self.api)
            remove_owned(self.api, self.journal, gateway.container.intent.nonce)
            self.journal.compact()

    def close(self, gateway: RunGateway) -> GatewayEnd:
        return gateway.close(self.api)

    def run(
        self,
        program: str,
        *,
        network: str,
        env: dict[str, str] | None = None,
        gateway: RunGateway | None = None,
    ) -> str:
        """What a program printed in an owned container of the verifier's image, as an agent is contained."""
        request = ContainerRequest(
            role=Role.AGENT, image_id=image("verifier"), command=("python3", "-I", "-S", "-c", program),
            cpus=1.0, memory_bytes=64 * MIB, pids=32, nofile=256, network=network, env=env or {},
            hosts={} if gateway is None else {"model-gateway": gateway.address},
        )  # fmt: skip
        owned = create_owned(self.api, self.journal, {}, request)
        try:
            start_owned(self.api, self.journal, owned)
            with engine_call("wait"):
                self.api.wait(owned.id, timeout=120)
                return str(self.api.logs(owned.id, stdout=True, stderr=True).decode())
        finally:
            remove_owned(self.api, self.journal, owned.intent.nonce)

    def ask(self, gateway: RunGateway, *bodies: dict[str, Any], trial: int = 1, **more: Any) -> list[tuple[int, str]]:
        """Answers to the bodies, asked from a container on the run's internal network."""
        ask = {"host": "model-gateway", "token": gateway.token(trial), "bodies": bodies, **more}
        env = {"ASK": json.dumps(ask)}
        printed = self.run(ASKER, network=self.networks.internal.id, env=env, gateway=gateway)
        return [(status, text) for status, text in map(json.loads, printed.splitlines())]


def kinds(report: LedgerReport, trial: int = 1) -> list[tuple[str, str | None, int | None]]:
    return [(line.kind, line.code, line.status) for line in report.trial(trial).requests]
