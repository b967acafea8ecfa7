"""A whole site of its own for the gate: data folder, database, queue, worker and a scripted endpoint, all real.

Everything goes through `manage.py` in processes of its own, as a person would do it. The assets are shared.
"""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runs.containers import connect
from runs.scripted.server import ScriptedServer
from tests.engine.plays import Stage

ROOT = Path(__file__).parent.parent.parent
WAIT_S = 240.0


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out.strip().splitlines()[-1])
        return document


@dataclass
class GateSite:
    """One data folder and the commands that work in it."""

    data: Path
    changes: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "BENCHSITE_ASSETS") if name in os.environ}
        return {**kept, "BENCHSITE_DATA": str(self.data), "BENCHSITE_DOCKER_TIMEOUT_S": "30", **self.changes}

    def manage(self, *arguments: str, **changes: str) -> Done:
        """Run one command to its end; `changes` are further environment variables of this command only."""
        command = [sys.executable, str(ROOT / "manage.py"), *arguments]
        environment = {**self.environment, **changes}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=WAIT_S, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    def done(self, *arguments: str, **changes: str) -> Done:
        done = self.manage(*arguments, **changes)
        assert done.code == 0, f"{arguments}: {done.code}\n{done.out}\n{done.err}"
        return done

    @contextmanager
    def worker(self) -> Iterator[int]:
        """A worker process for as long as the context lasts; gives its pid once it serves."""
        command = [sys.executable, str(ROOT / "manage.py"), "worker"]
        output = self.data / "worker.log"
        with output.open("ab") as log:
            process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        try:
            wait_until(lambda: "Listening on" in output.read_text() or process.poll() is not None)
            assert process.poll() is None, output.read_text()
            yield process.pid
        finally:
            _stop(process)

    def stop_queue(self) -> None:
        self.done("shell", "-v0", "-c", "from benchsite.lib import embedded_redis; embedded_redis.stop()")

    def value(self, query: str, *values: object) -> Any:
        """The first column of the first row of a query on the site's own database, or None."""
        return next(iter(self.values(query, *values)), None)

    def values(self, query: str, *values: object) -> list[Any]:
        with closing(sqlite3.connect(f"file:{self.data}/benchsite.sqlite3?mode=ro", uri=True, timeout=20)) as database:
            return [row[0] for row in database.execute(query, values)]

    def change(self, query: str, *values: object) -> None:
        with closing(sqlite3.connect(self.data / "benchsite.sqlite3", timeout=20)) as database, database:
            database.execute(query, values)

    def register(self, record: dict[str, Any]) -> None:
        imports = "import os; from runs.services.registry import register_endpoint"
        code = f"{imports}; register_endpoint(os.environb[b'RECORD'], user=None)"
        self.done("shell", "-v0", "-c", code, RECORD=json.dumps(record))

    def start(self, endpoint: str, *tasks: str, more: tuple[str, ...] = ()) -> str:
        """Start a run over `tasks`; returns its id."""
        chosen = [part for task in tasks for part in ("--task", task)]
        started = self.done("start", "--endpoint", endpoint, "--json", *chosen, *more)
        return str(started.json["run"])

    def status(self, run: str) -> dict[str, Any]:
        return self.manage("status", run, "--json").json

    def ended(self, run: str) -> dict[str, Any]:
        """Wait for the run's end; returns its document."""
        query = "select ended_at from runs_run where id = ?"
        wait_until(lambda: self.value(query, run) is not None)
        return self.status(run)

    def run_folder(self, run: str) -> Path:
        return self.data / "runs" / run


def _stop(worker: "subprocess.Popen[bytes]") -> None:
    """TERM lets it finish its run; a second one interrupts that, as after a test that failed half-way."""
    worker.send_signal(signal.SIGTERM)
    try:
        worker.wait(30)
    except subprocess.TimeoutExpired:
        worker.send_signal(signal.SIGTERM)
        worker.wait(120)


def prepared_site() -> GateSite:
    """A new data folder (short, for its socket) with a migrated database and the prepared assets registered."""
    site = GateSite(Path(tempfile.mkdtemp(prefix="bg-")))
    site.done("migrate", "-v0")
    site.done("prepare", "--offline")
    return site


def copied_site(site: GateSite) -> GateSite:
    """A second site with the same rows and nothing else: for a test that breaks its surroundings."""
    copy = GateSite(Path(tempfile.mkdtemp(prefix="bg-")))
    with closing(sqlite3.connect(site.data / "benchsite.sqlite3")) as source:
        source.execute("vacuum into ?", (str(copy.data / "benchsite.sqlite3"),))
    shutil.copy(site.data / "secret-key", copy.data / "secret-key")
    return copy


@contextmanager
def on_own_disk(site: GateSite, size: str) -> Iterator[GateSite]:
    """A copy of ``site`` whose data folder is a file system of its own, of a ``size`` such as ``24m``."""
    copy = copied_site(site)
    content = {path.name: path.read_bytes() for path in copy.data.iterdir()}
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "gate", str(copy.data)], check=True)
    for name, kept in content.items():
        (copy.data / name).write_bytes(kept)
    try:
        yield copy
    finally:
        (copy.data / "filler").unlink(missing_ok=True)
        copy.stop_queue()
        subprocess.run(["umount", "-l", str(copy.data)], check=True)
        shutil.rmtree(copy.data)


def wait_until(holds: Callable[[], object], limit_s: float = WAIT_S) -> None:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("it never came to hold")


@contextmanager
def serving(stage: Stage, key: str) -> Iterator[str]:
    """Play `stage` on the engine's default bridge; gives the base URL."""
    api = connect(30)
    address = api.inspect_network("bridge")["IPAM"]["Config"][0].get("Gateway") or "172.17.0.1"
    api.close()
    with ScriptedServer(address, 0, key, answer=stage.answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        yield f"http://{address}:{server.port}/v1"
        server.shutdown()
        thread.join(5)
