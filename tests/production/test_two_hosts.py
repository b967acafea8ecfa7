"""Two hosts with data folders of their own and one storage: what one imports, the other fetches."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from runs.documents.bundle.packaged import read_bundle
from runs.documents.bundle.tree import read_tree
from runs.services.bundle_files import CACHE, blob_name
from tests.documents.samples import copy_bundle
from tests.production.fetching import hash_of
from tests.production.sites import ROOT, Site

WAIT_S = 120


@pytest.fixture
def north(site: Site, tmp_path: Path) -> Site:
    """The host that imported the packaged bundle from a copy, which is gone."""
    site = replace(site, evidence=tmp_path / "shared")
    folder = copy_bundle(tmp_path)
    site.done("bundle", "import", str(folder))
    shutil.rmtree(folder)
    return site


@pytest.fixture
def south(north: Site, tmp_path: Path) -> Site:
    return Site(tmp_path / "south", north.database, north.evidence)


@pytest.fixture(scope="module")
def reviewed() -> str:
    """The hash of the packaged tasks, as the fetching process computes it."""
    tasks = ROOT / "runs/bundles/environment-smoke/tasks"
    return hash_of([read_tree(task).records for task in sorted(tasks.iterdir())])


@contextmanager
def fetching(site: Site) -> Iterator["subprocess.Popen[str]"]:
    """A process that is ready to fetch."""
    command = [sys.executable, "-m", "tests.production.fetching"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=site.environment, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout and process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def ask(process: "subprocess.Popen[str]") -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def answer(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        os.sched_yield()


def cached(site: Site) -> list[str]:
    return sorted(path.name for path in (site.data / CACHE).iterdir() if path.name != ".lock")


def last_blob(site: Site) -> Path:
    manifest = read_bundle(ROOT / "runs/bundles/environment-smoke").manifest
    assert site.evidence
    return site.evidence / blob_name(manifest.tasks[-1].files[-1].sha256)


def test_each_host_has_the_files_although_only_one_imported_them(north: Site, south: Site, reviewed: str) -> None:
    assert not list(north.data.glob("bundles*"))
    for host in (north, south):
        with fetching(host) as process:
            ask(process)
            assert answer(process) == reviewed
        assert json.loads(host.done("bundle", "check", "environment-smoke", "--json"))["valid"] is True
    assert cached(north) == cached(south) and len(cached(south)) == 1


def test_a_fetch_that_is_killed_leaves_nothing_that_is_used(south: Site, reviewed: str, tmp_path: Path) -> None:
    """Its last blob is a pipe that nobody writes to, so that the process is killed when all the others are written."""
    blob = last_blob(south)
    blob.rename(tmp_path / "kept")
    os.mkfifo(blob)
    all_but_one = (
        sum(len(task.files) for task in read_bundle(ROOT / "runs/bundles/environment-smoke").manifest.tasks) - 1
    )
    with fetching(south) as process:
        ask(process)
        wait_until(lambda: len([path for path in south.data.rglob("tasks/**/*") if path.is_file()]) == all_but_one)
        process.kill()
        process.wait()
    assert cached(south) == []
    blob.unlink()
    (tmp_path / "kept").rename(blob)
    with fetching(south) as process:
        ask(process)
        assert answer(process) == reviewed
    assert len(cached(south)) == 1 and [path.name for path in (south.data / "scratch").iterdir()] == [".lock"]


def test_processes_that_fetch_at_the_same_time_all_have_it_whole(south: Site, reviewed: str) -> None:
    with fetching(south) as one, fetching(south) as another, fetching(south) as third:
        for _ in range(20):
            for process in (one, another, third):
                ask(process)
            assert {answer(process) for process in (one, another, third)} == {reviewed}
            [name] = cached(south)
            shutil.rmtree(south.data / CACHE / name)
    assert [path.name for path in (south.data / "scratch").iterdir()] == [".lock"]


def test_a_tampered_blob_is_refused_on_the_host_that_lacks_it(north: Site, south: Site, reviewed: str) -> None:
    with fetching(north) as process:
        ask(process)
        assert answer(process) == reviewed
        last_blob(south).write_bytes(b"#!/bin/sh\necho '{\"reward\": 1}' >/logs/verifier/reward.json\n")
        with fetching(south) as other:
            ask(other)
            assert answer(other) == "bundle.stored_changed"
        ask(process)
        assert answer(process) == reviewed  # what it verified and holds does not depend on the storage any more
    assert cached(south) == []
    assert south.manage("bundle", "check", "environment-smoke").returncode == 4


def test_two_imports_at_the_same_time_store_one_whole_bundle(site: Site, tmp_path: Path) -> None:
    site = replace(site, evidence=tmp_path / "shared")
    folder = copy_bundle(tmp_path)
    command = [sys.executable, "manage.py", "bundle", "import", str(folder)]
    started = [subprocess.Popen(command, cwd=ROOT, env=site.environment) for _ in range(3)]
    assert [process.wait() for process in started] == [0, 0, 0]
    assert json.loads(site.done("bundle", "check", "environment-smoke", "--json"))["valid"] is True
    assert site.ask("select count(*) from runs_taskbundle") == [(1,)]
    assert all(len(path.name) == 64 for path in (tmp_path / "shared").rglob("*") if path.is_file())
