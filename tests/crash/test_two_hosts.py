"""Two worker hosts with engines of their own share one database, one queue and one evidence storage."""

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.crash import frozen_worker
from tests.crash.command_server import ServedSite
from tests.crash.endpoint import ALIAS, KEY, Endpoint, serving
from tests.crash.own_database import own_database
from tests.crash.own_engine import BRIDGE_ADDRESS, OwnEngine, own_engine
from tests.crash.rig import TASK, CrashWorker, Rig, locked_images, statuses, with_database
from tests.documents.samples import copy_bundle
from tests.engine.looking import CONTAINERS, started_roles
from tests.engine.plays import record
from tests.engine.site import wait_until
from tests.engine.withholding import withholding

pytestmark = pytest.mark.harbor_compatibility

SOUTH = "south"
ADMINISTRATOR = """
from django.contrib.auth.models import Group, User
User.objects.create_user("ada").groups.set(Group.objects.filter(name="admin"))
"""
REVIEW = """
import os
from django.contrib.auth.models import Group, User
from runs.models import TaskBundle
from runs.services import reviewing
rita = User.objects.create_user("rita")
rita.groups.set(Group.objects.filter(name="reviewer"))
reviewing.review(TaskBundle.objects.get(revision=os.environ["REVISION"]), user=rita)
"""


@dataclass
class Host:
    """One worker host: its engine, its commands, its worker, and the endpoint that its containers reach."""

    name: str
    engine: OwnEngine
    site: ServedSite
    worker: CrashWorker
    endpoint: Endpoint
    endpoint_name: str

    def start_run(self) -> str:
        """Started from the other side of the world as well as from here: the queue is the worker's."""
        return self.site.start(self.endpoint_name, TASK, more=("--worker", self.name))

    def containers(self, run: str) -> list[str]:
        with closing(self.engine.api()) as api:
            return [one["Id"] for one in api.containers(all=True, filters={"label": [f"benchsite.run={run}"]})]

    def waiting_run(self) -> str:
        """A run whose agent waits for the endpoint."""
        self.endpoint.begun = 0
        self.endpoint.arm()
        run = self.start_run()
        wait_until(lambda: self.endpoint.reached.is_set() or ended(self, run))
        # The verifier's container is started beside the agent, who may well have asked before it stands.
        wait_until(lambda: started_roles(self.site, run) >= set(CONTAINERS) or ended(self, run))
        assert not ended(self, run), self.site.status(run)
        return run


def until_ended(host: Host, run: str) -> tuple[str, str, str]:
    """Wait for a run's end; state, verdict and cleanup. A failure shows what its host said."""
    try:
        wait_until(lambda: ended(host, run), 120)
    except AssertionError:
        log = host.site.manage("logs", run).out[-2000:]
        pytest.fail(f"{host.name}: {host.site.status(run)}\n{log}\n{host.worker.log.read_text()[-3000:]}")
    return statuses(host.site.status(run))


def ended(host: Host, run: str) -> bool:
    return host.site.value("select ended_at from runs_run where id = ?", run) is not None


def lease_host(host: Host, run: str) -> str:
    return str(host.site.value("select lease_host from runs_run where id = ?", run))


def power_cut(host: Host, run: str) -> None:
    """The worker and the process that executes the run are gone from one moment to the next."""
    horse = int(host.site.value("select lease_pid from runs_run where id = ?", run))
    host.worker.kill()
    os.kill(horse, signal.SIGKILL)


def unheard_for_an_hour(host: Host, worker: str) -> None:
    """A host that was heard from just now cannot be declared lost, and a test does not wait for silence."""
    change = "update runs_worker set heartbeat_at = heartbeat_at - interval '1 hour' where name = %s"
    with psycopg.connect(host.site.environment["DATABASE_URL"]) as connection:
        connection.execute(change, (worker,))


@pytest.fixture(scope="module")
def hosts(rig: Rig) -> Iterator[tuple[Host, Host]]:
    with own_database() as database, with_database(rig, database) as first:
        north = Host("local", first.engine, first.site, first.worker, first.endpoint, ALIAS)
        with _south(north) as south:
            yield north, south


@contextmanager
def _south(north: Host) -> Iterator[Host]:
    """A second host. What it shares with the first: database, queue, evidence, key, and nothing else."""
    with ExitStack() as stack:
        engine = stack.enter_context(own_engine(locked_images().values()))
        endpoint = Endpoint()
        with engine.network():
            base_url = stack.enter_context(serving(endpoint, BRIDGE_ADDRESS))
        data = Path(tempfile.mkdtemp(prefix="bs-south-"))
        stack.callback(shutil.rmtree, data, ignore_errors=True)
        shared = {
            "DATABASE_URL": north.site.environment["DATABASE_URL"],
            "REDIS_URL": f"unix://{north.site.data}/redis/redis.sock?db=0",
            "BENCHSITE_SECRET_KEY_FILE": str(north.site.data / "secret-key"),
            "BENCHSITE_EVIDENCE_OPTIONS": json.dumps({"location": str(north.site.data / "evidence")}),
        }
        own = {"DOCKER_HOST": engine.url, "BENCHSITE_WORKER": SOUTH, "BENCHSITE_HOST": "host-of-south"}
        own[frozen_worker.PLACES] = str(frozen_worker.Places(data / "places").folder)
        site = ServedSite(data, {**shared, **own}, north.site.database)
        stack.callback(site.close)
        site.done("prepare", "--offline")
        site.done("worker", "--report")
        key = data / "endpoint-key"
        key.touch(0o600)
        key.write_text(KEY + "\n")
        site.register({**record(ALIAS, base_url, str(key)), "name": "for-south"})
        worker = CrashWorker(site)
        stack.callback(worker.stop)
        worker.start()
        yield Host(SOUTH, engine, site, worker, endpoint, "for-south")


def test_each_host_reports_for_itself(hosts: tuple[Host, Host]) -> None:
    north, south = hosts
    digests = north.site.values("select capability_sha256 from runs_worker order by name")
    assert len(digests) == 2 and len(set(digests)) == 2
    assert north.site.values("select host from runs_worker where name = ?", SOUTH) == ["host-of-south"]
    assert north.engine.url != south.engine.url


def test_runs_go_where_they_were_previewed_at_the_same_time(hosts: tuple[Host, Host]) -> None:
    north, south = hosts
    first, second = north.waiting_run(), south.waiting_run()
    assert north.containers(first) and not south.containers(first)
    assert south.containers(second) and not north.containers(second)
    assert lease_host(north, second) == "host-of-south" != lease_host(north, first)
    for host, run in ((north, first), (south, second)):
        host.endpoint.release()
        assert until_ended(host, run) == ("finished", "passed", "clean")
        assert not north.containers(run) and not south.containers(run)
    # Whichever host is asked, the evidence is the same and whole.
    assert north.site.manage("audit", second).code == south.site.manage("audit", first).code == 0


def test_a_bundle_that_one_host_imported_runs_on_the_other(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    """The next revision of the packaged bundle, from a folder that is gone when south fetches it from the storage."""
    north, south = hosts
    folder = copy_bundle(tmp_path)
    source = json.loads((folder / "bundle.json").read_bytes())
    (folder / "bundle.json").write_text(json.dumps({**source, "revision": source["revision"] + 1}))
    north.site.done("bundle", "build", str(folder))
    imported = north.site.done("bundle", "import", str(folder), "--json").json
    assert imported["status"] == "certified"
    north.site.done("shell", "-v0", "-c", REVIEW, REVISION=str(imported["revision"]))
    profile = north.site.done("profile", "import", str(folder / "profile.json"), "--json").json
    shutil.rmtree(folder)
    more = ("--worker", south.name, "--profile", profile["content_sha256"])
    run = north.site.start(south.endpoint_name, TASK, more=more)
    south.endpoint.release()
    assert until_ended(south, run) == ("finished", "passed", "clean"), south.site.manage("status", run, "--json").out
    assert [path.name for path in (south.site.data / "bundle-cache").glob("[0-9a-f]*")] == [imported["manifest_sha256"]]
    assert not (north.site.data / "bundle-cache").exists()
    assert south.site.manage("audit", run, "--replay-verifier").code == 0


def test_a_run_goes_only_where_it_fits(hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch) -> None:
    """South's engine loses a limit that the bundle requires: its own report says so, and nothing starts there."""
    north, south = hosts
    monkeypatch.setenv("DOCKER_HOST", south.engine.url)
    with withholding("pids") as engine:
        south.site.manage("worker", "--report", DOCKER_HOST=engine)
    try:
        refused = north.site.manage("start", "--endpoint", ALIAS, "--task", TASK, "--worker", SOUTH, "--json")
        assert (refused.code, refused.json["code"]) == (3, "preview.blocked")
        assert [check["code"] for check in refused.json["checks"]] == ["limit.pids_not_enforced"]
        shown = {name: south.site.manage("preflight", "--stored", "--worker", name) for name in (north.name, SOUTH)}
        assert {name: done.code for name, done in shown.items()} == {north.name: 0, SOUTH: 3}
        run = north.waiting_run()
        north.endpoint.release()
        assert until_ended(north, run) == ("finished", "passed", "clean")
    finally:
        south.site.done("worker", "--report")


def test_recovery_on_one_host_leaves_the_others_run_alone(hosts: tuple[Host, Host]) -> None:
    north, south = hosts
    run = south.waiting_run()
    power_cut(south, run)
    owned = south.containers(run)
    assert owned
    north.site.done("recover")
    assert not ended(north, run) and south.containers(run) == owned
    south.endpoint.release()
    south.worker.start()
    assert until_ended(south, run) == ("interrupted", "error", "clean")
    assert not south.containers(run) and south.endpoint.begun == 1


def test_a_host_declared_lost_has_a_failed_cleanup_until_it_comes_back(hosts: tuple[Host, Host]) -> None:
    north, south = hosts
    run = south.waiting_run()
    power_cut(south, run)
    north.site.done("shell", "-v0", "-c", ADMINISTRATOR)
    unheard_for_an_hour(north, SOUTH)
    north.site.done("host_lost", SOUTH, "--yes", "--user", "ada")
    assert statuses(north.site.status(run)) == ("interrupted", "error", "failed")
    assert south.containers(run)
    south.endpoint.release()
    south.worker.start()
    wait_until(lambda: north.site.status(run)["cleanup"] == "clean")
    assert statuses(north.site.status(run)) == ("interrupted", "error", "clean")
    assert not south.containers(run) and south.endpoint.begun == 1
