"""A whole site on an engine of its own, all of which may be killed: engine, worker, queue, database."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runs.ownership import Journal
from tests.crash import frozen_worker
from tests.crash.command_server import ServedSite
from tests.crash.endpoint import ALIAS, KEY, Endpoint, serving
from tests.crash.engine_proxy import EngineProxy
from tests.crash.own_database import OwnDatabase
from tests.crash.own_engine import BRIDGE_ADDRESS, OwnEngine, own_engine
from tests.crash.sentinels import Sentinels
from tests.engine.plays import record
from tests.engine.site import ROOT, GateSite, wait_until

TASK = "ledger-totals"
UNRECORDED_S = 120.0
BUSY_S = 240.0
BLOCKED = 3  # exit code of a command that another one keeps waiting
ENDED = "select ended_at from runs_run where id = ?"


@dataclass
class CrashWorker:
    """The host's worker; `kill` leaves what it started behind, `start` begins a new one."""

    site: GateSite
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> Path:
        return self.site.data / "worker.log"

    def start(self) -> None:
        """Start a worker and wait until it serves its queue; what it recovers first is recovered by then."""
        command = [sys.executable, "-m", "tests.crash.frozen_worker", "--no-report"]
        with self.log.open("ab") as log:
            before = log.tell()
            self.process = subprocess.Popen(command, env=self.site.environment, cwd=ROOT, stdout=log, stderr=log)
        wait_until(lambda: b"Listening on" in self.log.read_bytes()[before:] or not self.alive)
        assert self.alive, self.log.read_text()[-3000:]

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def term(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """TERM, and once more if a run does not end by itself."""
        for _ in range(2):
            if self.alive and self.process is not None:
                self.process.send_signal(signal.SIGTERM)
                try:
                    self.process.wait(30)
                except subprocess.TimeoutExpired:
                    continue
        if self.alive:
            self.kill()


@dataclass
class Rig:
    """Everything of one site that can crash, and the means to stop it at a chosen place."""

    engine: OwnEngine
    proxy: EngineProxy
    endpoint: Endpoint
    places: frozen_worker.Places
    site: ServedSite
    worker: CrashWorker
    image_id: str

    def start_run(self) -> str:
        return self.site.start(ALIAS, TASK)

    def journal(self, run: str) -> Journal:
        return Journal(self.site.run_folder(run))

    def has_ended(self, run: str) -> bool:
        return self.site.value(ENDED, run) is not None

    def horse(self, run: str) -> int:
        """The process that executes the run."""
        return int(self.site.value("select lease_pid from runs_run where id = ?", run))

    def sandbox(self, run: str) -> int | None:
        """The process group of the sandbox that Harbor runs in; None when it ended."""
        return self._group(run, b"bwrap")

    def attendant(self, run: str) -> int | None:
        """The process group of the trial's attendant, whether it has recorded itself yet or not; None when it ended."""
        return self._group(run, b"/runs/attendant")

    def _group(self, run: str, named: bytes) -> int | None:
        owner = self.journal(run).read().owner
        leaders = (pid for pid in _processes_of(run, owner) if os.getpgid(pid) == pid)
        return next((pid for pid in leaders if named in Path(f"/proc/{pid}/cmdline").read_bytes()), None)

    def left_behind(self, run: str, strangers: Sentinels) -> list[str]:
        """Owned containers, networks and processes of a run that still exist."""
        api = self.engine.api()
        filters = {"label": [f"benchsite.run={run}"]}
        containers = [one["Id"] for one in api.containers(all=True, filters=filters)]
        networks = [one["Id"] for one in api.networks(filters=filters)]
        api.close()
        return [
            *(f"container {one}" for one in containers if one not in strangers.ids),
            *(f"network {one}" for one in networks if one not in strangers.ids),
            *(f"process {pid}" for pid in self.processes_left(run, strangers)),
        ]

    def processes_left(self, run: str, strangers: Sentinels) -> list[int]:
        """A harness that never recorded itself ends by itself, once it has loaded what it needs to see the fence."""
        owner = self.journal(run).read().owner
        decoys = {process.pid for process in strangers.processes.values()}
        left: list[int] = []

        def is_over() -> bool:
            left[:] = [pid for pid in _processes_of(run, owner) if pid not in decoys]
            return not left

        with suppress(AssertionError):
            wait_until(is_over, UNRECORDED_S)
        return left

    def executions(self, run: str) -> int:
        """How often the task was carried out, by what harness and attendant left in the run's folder."""
        folder = self.site.run_folder(run)
        observed = [path.read_text().count('"launched"') for path in folder.glob("trials/*/observed.jsonl")]
        jobs = [path for path in folder.glob("trials/*/job/*/") if path.is_dir()]
        return max(sum(observed), len(jobs), len(list(folder.glob("trials/*"))))


def _processes_of(run: str, owner: str) -> Iterator[int]:
    marks = (f"BENCHSITE_OWNER={owner}".encode(), f"/runs/{run}".encode())
    for place in Path("/proc").glob("[0-9]*"):
        try:
            seen = (place / "environ").read_bytes() + b"\0" + (place / "cmdline").read_bytes()
            state = (place / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX" and any(mark in seen for mark in marks):
            yield int(place.name)


@contextmanager
def crash_rig() -> Iterator[Rig]:
    """A prepared site with a running worker on an own engine; all of it is gone at the end."""
    images = locked_images()
    with ExitStack() as stack:
        engine = stack.enter_context(own_engine(images.values()))
        # From here on what this thread starts talks to the own engine's containers.
        stack.enter_context(engine.network())
        proxy = EngineProxy(engine.folder / "proxy.sock", engine.socket)
        stack.callback(proxy.close)
        yield stack.enter_context(_site_on(engine, proxy, images["verifier"]))


@contextmanager
def with_database(rig: Rig, database: OwnDatabase) -> Iterator[Rig]:
    """A second site on the rig's engine, whose rows are in `database`."""
    with _site_on(rig.engine, rig.proxy, rig.image_id, database) as second:
        yield second


@contextmanager
def _site_on(
    engine: OwnEngine, proxy: EngineProxy, image_id: str, database: OwnDatabase | None = None
) -> Iterator[Rig]:
    with ExitStack() as stack:
        endpoint = Endpoint()
        base_url = stack.enter_context(serving(endpoint, BRIDGE_ADDRESS))
        data = Path(tempfile.mkdtemp(prefix="bs-crash-"))
        stack.callback(shutil.rmtree, data, ignore_errors=True)
        places = frozen_worker.Places(data / "places")
        settings = {"DOCKER_HOST": proxy.url, frozen_worker.PLACES: str(places.folder)}
        if database is not None:
            settings["DATABASE_URL"] = database.url
        site = ServedSite(data, settings, database)
        stack.callback(site.close)
        stack.callback(site.stop_queue)
        _prepare(site, base_url)
        worker = CrashWorker(site)
        stack.callback(worker.stop)
        worker.start()
        yield Rig(engine, proxy, endpoint, places, site, worker, image_id)


def locked_images() -> dict[str, str]:
    lock = json.loads((Path(os.environ["BENCHSITE_ASSETS"]) / "images.json").read_bytes())
    return {role: str(image["id"]) for role, image in lock["images"].items()}


def _prepare(site: GateSite, base_url: str) -> None:
    site.done("migrate", "-v0")
    # Another test may be preparing from the same assets right now.
    wait_until(lambda: site.manage("prepare", "--offline").code != BLOCKED, BUSY_S)
    site.done("prepare", "--offline")
    site.done("worker", "--report")
    key = site.data / "endpoint-key"
    key.touch(0o600)
    key.write_text(KEY + "\n")
    site.register(record(ALIAS, base_url, str(key)))


def statuses(document: dict[str, Any]) -> tuple[str, str, str]:
    """State, verdict and cleanup of a run's document."""
    return document["state"], document["verdict"], document["cleanup"]
