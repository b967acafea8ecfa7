"""What looks like ours and is not: planted beside a run, and looked for by its exact id when the run is cleaned up."""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker

from runs.ownership import LABEL_NONCE, LABEL_OWNER, LABEL_ROLE, LABEL_RUN, JournalDocument
from tests.crash.own_engine import OwnEngine

WAIT = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]


@dataclass
class Sentinels:
    """Strangers by what they are: containers and networks by full id, folders by path, processes by themselves."""

    containers: dict[str, str] = field(default_factory=dict)
    networks: dict[str, str] = field(default_factory=dict)
    folders: dict[str, Path] = field(default_factory=dict)
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def ids(self) -> set[str]:
        return {*self.containers.values(), *self.networks.values()}

    def missing(self, api: docker.APIClient) -> Iterator[str]:
        """Those that did not survive."""
        for kind, found, inspect in (
            ("container", self.containers, api.inspect_container),
            ("network", self.networks, api.inspect_network),
        ):
            for what, one in found.items():
                if not _is_there(inspect, one):
                    yield f"{kind} {what}"
        for what, folder in self.folders.items():
            if not (folder / "work" / "file").is_file():
                yield f"folder {what}"
        for what, process in self.processes.items():
            if process.poll() is not None:
                yield f"process {what}"


@contextmanager
def planted(engine: OwnEngine, journal: JournalDocument, runs: Path, image_id: str) -> Iterator[Sentinels]:
    """Plant strangers beside the run of `journal`, whose folder lies in `runs`; they are removed at the end."""
    found = Sentinels()
    try:
        api = engine.api()
        _plant_resources(api, found, journal, image_id)
        api.close()
        for what in (f"{journal.run_id}-next", f"{journal.run_id}0"):
            found.folders[what] = runs / what
            (runs / what / "work").mkdir(parents=True)
            (runs / what / "work" / "file").touch()
        for what in (journal.run_id, f"{journal.run_id}0"):
            found.processes[what] = decoy(runs / what)
        yield found
    finally:
        _remove(engine, found)


def decoy(folder: Path) -> "subprocess.Popen[bytes]":
    """A process that looks like the harness of the run in `folder`, owner mark included, and is in no journal."""
    environment = {**os.environ, "BENCHSITE_OWNER": secrets.token_hex(16)}
    arguments = [*WAIT, "-m", "runs.harness.launch", "--run-directory", str(folder), "--trial", "1"]
    return subprocess.Popen(arguments, env=environment, start_new_session=True)


def _plant_resources(api: docker.APIClient, found: Sentinels, journal: JournalDocument, image_id: str) -> None:
    ours = {
        LABEL_RUN: journal.run_id,
        LABEL_OWNER: journal.owner,
        LABEL_NONCE: journal.resources[-1].nonce,
        LABEL_ROLE: "agent",
    }
    other = {LABEL_OWNER: secrets.token_hex(16), LABEL_NONCE: secrets.token_hex(16)}
    near = f"benchsite-{journal.resources[-1].nonce}"
    for what, name, labels in (
        ("of the same image", None, {}),
        ("with a name that begins like ours", f"{near}-other", {}),
        ("with our run and another owner", None, {**ours, **other}),
        ("with our owner and another nonce", None, {**ours, LABEL_NONCE: secrets.token_hex(16)}),
        ("of the run whose id ours begins", None, {**ours, LABEL_RUN: f"{journal.run_id}0"}),
    ):
        found.containers[what] = _container(api, image_id, name, labels)
    api.import_image_from_data(_empty_archive(), repository="unrelated")
    found.containers["unrelated"] = api.create_container("unrelated", ["/nothing"])["Id"]
    for what, name, labels in (
        ("unrelated", f"unrelated-{secrets.token_hex(4)}", {}),
        ("with a name that begins like ours", f"{near}-net", {**ours, **other}),
    ):
        found.networks[what] = api.create_network(name, driver="bridge", labels=labels)["Id"]


def _container(api: docker.APIClient, image_id: str, name: str | None, labels: dict[str, str]) -> str:
    config = {"Image": image_id, "Cmd": ["sleep", "infinity"], "Labels": labels, "HostConfig": {"NetworkMode": "none"}}
    # Not started: the run is held meanwhile, and its own calls have limits.
    return str(api.create_container_from_config(config, name=name)["Id"])


def _empty_archive() -> bytes:
    return bytes(10240)


def _is_there(inspect: Any, one: str) -> bool:
    try:
        return bool(inspect(one)["Id"] == one)
    except docker.errors.NotFound:
        return False


def _remove(engine: OwnEngine, found: Sentinels) -> None:
    for process in found.processes.values():
        process.kill()
        process.wait()
    for folder in found.folders.values():
        for place in (folder / "work" / "file",):
            place.unlink(missing_ok=True)
        for place in (folder / "work", folder):
            with suppress(FileNotFoundError):
                place.rmdir()
    api = engine.api()
    for one in found.containers.values():
        with suppress(docker.errors.NotFound):
            api.remove_container(one, force=True)
    for one in found.networks.values():
        with suppress(docker.errors.NotFound):
            api.remove_network(one)
    api.close()
