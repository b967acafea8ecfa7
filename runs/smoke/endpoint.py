"""Serves the scripted endpoint for the smoke, in its own process, on the engine's bridge address only."""

import json
import os
import secrets
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
from django.conf import settings

from benchsite.lib.canonical import JsonObject
from benchsite.lib.commandline import command
from runs.containers import connect, engine_call
from runs.documents.endpoints import SCHEMA
from runs.scripted.scripts import ALIAS_PREFIX, Mode

KEY_VARIABLE = "BENCHSITE_SCRIPTED_KEY"
# Longer than the lowered limit of the slow scenario, so that no answer ever comes in time.
SLOW_SECONDS = 60


@dataclass(frozen=True, slots=True)
class ScriptedEndpoint:
    """A running scripted endpoint and the file that holds its key."""

    base_url: str
    key_file: Path

    def record(self, mode: Mode) -> JsonObject:
        """The endpoint record of one of its aliases."""
        return {
            "schema": SCHEMA,
            "name": ALIAS_PREFIX + mode.value,
            "base_url": self.base_url,
            "model": ALIAS_PREFIX + mode.value,
            "route": "direct",
            "private_addresses": "allowed",
            "credential": {"kind": "file", "name": str(self.key_file)},
            "controls": ["max_tokens"],
            "request_timeout_s": 120,
            "scripted": True,
        }


@contextmanager
def serve() -> Iterator[ScriptedEndpoint]:
    """Start the endpoint on a free port of the default bridge's address; end it afterwards."""
    key_file = settings.DATA / "scripted-key"
    if not key_file.exists():
        key_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"scripted-{secrets.token_urlsafe(24)}\n")
    arguments = command("scripted_endpoint", "--json", "--bind", _bridge_address())
    arguments += ["--port", "0", "--slow-seconds", str(SLOW_SECONDS)]
    environment = {**os.environ, f"{KEY_VARIABLE}_FILE": str(key_file)}
    environment.pop(KEY_VARIABLE, None)
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environment) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("the scripted endpoint did not start; its message stands above")
            yield ScriptedEndpoint(json.loads(line)["base_url"], key_file)
        finally:
            process.terminate()


def _bridge_address() -> str:
    """The host's address on the engine's default bridge: containers reach it, other machines do not."""
    api: docker.APIClient = connect(settings.DOCKER_TIMEOUT_S)
    with engine_call("inspect the default bridge"):
        pools = api.inspect_network("bridge")["IPAM"]["Config"] or []
    for pool in pools:
        address = pool.get("Gateway") or str(pool["Subnet"]).rpartition(".")[0] + ".1"
        try:
            with socket.create_server((address, 0)):
                return str(address)
        except OSError:
            continue
    raise RuntimeError("the engine's default bridge has no address on this host")
