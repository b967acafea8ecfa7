"""What is wrong around a run is said in one sentence with its remedy; nothing starts, and nothing is left.

Unknown profiles, endpoints, tasks and workers: tests/runs/test_commands.py.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runs.containers import connect
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE
from runs.engine.assets.image_lock import read_images, write_images
from tests.engine.conftest import HANG, Gate
from tests.engine.site import ROOT, Done, GateSite, on_own_disk

pytestmark = pytest.mark.harbor_compatibility

NO_ENGINE = "unix:///nonexistent/docker.sock"
ABSENT = "sha256:" + "0" * 64
TASK = "ledger-totals"


def carried_out(world: GateSite, **changes: str) -> tuple[dict[str, Any], str]:
    """Start a run, break the world, let a worker carry it out; gives its document and the log's text."""
    run = world.start(HANG, TASK)
    world.done("worker", "--burst", "--no-report", **changes)
    return world.status(run), world.done("logs", run).out


def nothing_started(world: GateSite, document: dict[str, Any]) -> None:
    """No trial began, none is graded, and the engine holds nothing of the run."""
    assert (document["state"], document["verdict"], document["exit_code"]) == ("failed", "error", 4)
    assert document["counts"]["evaluated"] == 0 and document["counts"]["error"] == 1
    assert document["trials"][0]["trial_uuid"] is None
    assert {one["role"] for one in document["owned"]} <= {"probe"} and document["cleanup"] == "clean"
    with closing(connect(30)) as api:
        filters = {"label": [f"benchsite.run={document['run']}"]}
        assert not api.containers(all=True, filters=filters) and not api.networks(filters=filters)
    assert not (world.run_folder(document["run"]) / "work").exists()


STORE = """
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE, read_bundle
from runs.services.bundle_files import store_files
record = (ENVIRONMENT_SMOKE / "certification.json").read_bytes()
store_files(ENVIRONMENT_SMOKE, read_bundle(ENVIRONMENT_SMOKE), record)
"""


def one_sentence(done: Done) -> str:
    (line,) = done.err.strip().splitlines()
    return line


def test_a_task_file_changed_by_one_byte_ends_the_run_before_anything_starts(world: GateSite) -> None:
    """Of a bundle whose files lie in the storage; those of the packaged one are the product's own."""
    world.done("shell", "-v0", "-c", STORE)
    changed = ENVIRONMENT_SMOKE / "tasks" / TASK / "environment" / "ledger.csv"
    digest = hashlib.sha256(changed.read_bytes()).hexdigest()
    (blob,) = (path for path in (world.data / "evidence").rglob(digest))
    content = blob.read_bytes()
    blob.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
    for trigger in world.values("select name from sqlite_master where type = 'trigger'"):
        world.change(f'drop trigger "{trigger}"')
    world.change("update runs_taskbundle set packaged = '', stored_at = current_timestamp")
    document, log = carried_out(world)
    assert document["failure"] == {"stage": "preflight", "class": "integrity", "code": "bundle.stored_changed"}
    assert document["trials"][0]["class"] == "integrity"
    assert "is not the one of its manifest. Find out who writes to the storage" in log
    nothing_started(world, document)


def test_an_image_that_is_gone_ends_the_run_before_anything_starts(world: GateSite, tmp_path: Path) -> None:
    assets = _assets_without_an_image(world, tmp_path)
    document, log = carried_out(world, BENCHSITE_ASSETS=str(assets))
    failure = document["failure"]
    assert (failure["stage"], failure["code"]) == ("preflight", "image.missing")
    assert "manage.py prepare" in log
    nothing_started(world, document)


def test_an_offline_prepare_names_the_image_that_is_gone(world: GateSite, tmp_path: Path) -> None:
    done = world.manage("prepare", "--offline", BENCHSITE_ASSETS=str(_assets_without_an_image(world, tmp_path)))
    assert done.code == 3
    assert "agent" in one_sentence(done)


def _assets_without_an_image(world: GateSite, folder: Path) -> Path:
    source = Path(world.environment["BENCHSITE_ASSETS"])
    for name in ("harness", "harness.json"):  # without the cache, from which it could be built again
        (folder / name).symlink_to(source / name)
    images = read_images(source / "images.json")
    images["agent"] = replace(images["agent"], id=ABSENT)
    write_images(folder / "images.json", images)
    return folder


def test_without_an_engine_a_claimed_run_ends_with_the_remedy(world: GateSite) -> None:
    document, log = carried_out(world, DOCKER_HOST=NO_ENGINE)
    failure = document["failure"]
    assert (failure["stage"], failure["class"], failure["code"]) == (
        "preflight", "worker_runtime", "engine_unreachable",
    )  # fmt: skip
    assert document["trials"][0]["class"] == "worker_runtime"
    assert "The container engine cannot be reached at /nonexistent/docker.sock: DOCKER_HOST names it." in log
    nothing_started(world, document)


def test_without_an_engine_a_start_is_blocked(world: GateSite) -> None:
    reported = world.manage("worker", "--report", DOCKER_HOST=NO_ENGINE)
    assert reported.code == 3
    done = world.manage("start", "--endpoint", HANG)
    assert done.code == 3 and done.out == ""
    assert "The start is blocked" in one_sentence(done) and "Start the engine" in one_sentence(done)
    assert world.value("select count(*) from runs_run where state = 'queued'") == 0


@pytest.fixture
def small_world(gate: Gate) -> Iterator[GateSite]:
    """A site on a disk of 24 MiB."""
    with on_own_disk(gate.site, "24m") as site:
        yield site


def test_too_little_room_ends_the_run_before_anything_starts(small_world: GateSite) -> None:
    document, log = carried_out(small_world)
    assert document["failure"] == {"stage": "preflight", "class": "worker_runtime", "code": "worker.disk_full"}
    assert "Free space where BENCHSITE_DATA lies." in log
    nothing_started(small_world, document)


def test_on_a_full_disk_a_start_says_so_and_starts_nothing(small_world: GateSite) -> None:
    before = small_world.value("select count(*) from runs_run")
    with (small_world.data / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError):
        while True:
            filler.write(b"x" * 4096)
    done = small_world.manage("start", "--endpoint", HANG)
    assert done.code == 4 and done.out == ""
    assert "disk" in one_sentence(done) and "full" in one_sentence(done)
    assert small_world.value("select count(*) from runs_run") == before


OLD = "import runpy, sys; sys.version_info = (3, 11, 7, 'final', 0); runpy.run_path(sys.argv[1], run_name='__main__')"


def test_python_3_11_is_told_what_is_needed() -> None:
    command = [sys.executable, "-c", OLD, str(ROOT / "manage.py")]
    found = shutil.which("python3.11")
    if found and subprocess.run([found, "-V"], capture_output=True, check=False).returncode == 0:
        command = [found, str(ROOT / "manage.py"), "start"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("benchsite needs Python 3.12 or newer; run script/")
    assert done.stdout == "" and done.returncode == 3
