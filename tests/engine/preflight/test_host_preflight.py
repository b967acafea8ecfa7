"""What a host is checked for without any run: everything is said, and what cannot be checked is a failed check."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runs.checks.check import Check
from runs.containers import EngineError
from runs.engine.assets import AssetError, Problem
from runs.engine.preflight import host_preflight as module
from runs.engine.preflight import run_preflight
from runs.engine.preflight.capabilities import capability_digest
from runs.engine.preflight.host_preflight import ExpectedHost, Host, host_checks
from runs.ownership import JournalBusy
from tests.runs.sites import REPORT
from tests.spec_documents import run_spec

MIB = 1024 * 1024
IMAGES = {role: f"sha256:{digit * 64}" for role, digit in (("agent", "4"), ("verifier", "5"), ("gateway", "6"))}
LIMITS = run_spec().limits


class World:
    """A host on which every check holds, until a test changes something."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        path.chmod(0o700)
        self.path = path
        self.report: dict[str, Any] = dict(REPORT)
        self.harness: list[Problem] = []
        self.marks: list[Check] = []
        self.assets: AssetError | None = None
        self.journal: Exception | None = None
        self.engine: EngineError | None = None
        self.expected = ExpectedHost(capability_digest(REPORT), "1" * 64, IMAGES, LIMITS)
        monkeypatch.setattr(module, "load_assets", self._load)
        monkeypatch.setattr(module, "maintenance", self._maintenance)
        monkeypatch.setattr(module, "connect", lambda _: None)
        monkeypatch.setattr(module, "worker_report", lambda *_: self.report)
        monkeypatch.setattr(run_preflight, "verify_harness", lambda _: self.harness)
        monkeypatch.setattr(run_preflight, "verify_images", lambda *_: [])
        monkeypatch.setattr(run_preflight, "free_subnets", self._subnets)
        monkeypatch.setattr(module, "mark_checks", lambda *_: self.marks)

    def _load(self, _: Path) -> Any:
        if self.assets:
            raise self.assets
        locked = [SimpleNamespace(role=role, id=image) for role, image in IMAGES.items()]
        lock = SimpleNamespace(interpreter=SimpleNamespace(version="3.12.1"))
        harness = SimpleNamespace(lock_sha256="1" * 64, lock=lock)
        return SimpleNamespace(harness=harness, images=SimpleNamespace(images=locked))

    @contextmanager
    def _maintenance(self, *_: Any) -> Iterator[None]:
        if self.journal:
            raise self.journal
        yield

    def _subnets(self, _: Any, enough: int) -> int:
        if self.engine:
            raise self.engine
        return enough

    def checks(self) -> dict[str, Check]:
        host = Host("local", self.path, self.path, 5)
        found = host_checks(host, self.expected)
        assert len({check.name for check in found}) == len(found)
        return {check.name: check for check in found}

    def failed(self) -> dict[str, str]:
        return {name: check.code for name, check in self.checks().items() if not check.passed}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    return World(monkeypatch, tmp_path)


def test_on_a_host_that_is_ready_every_check_is_made_and_holds(world: World) -> None:
    names = {
        "engine", "platform", "limit memory", "limit core", "limit harness_uid", "worker memory", "images",
        "folder", "disk", "subnets", "harness", "interpreter", "locks recorded", "worker as reported",
    }  # fmt: skip
    world.report["engine"] = {**REPORT["engine"], "cpus": 2, "memory_bytes": 8192 * MIB}
    world.expected = ExpectedHost(capability_digest(world.report), "1" * 64, IMAGES, LIMITS)
    assert names <= set(world.checks()) and world.failed() == {}


@pytest.mark.parametrize(
    ("lock", "images"), [("2" * 64, IMAGES), ("1" * 64, {**IMAGES, "agent": f"sha256:{'9' * 64}"}), ("", {})]
)
def test_other_locks_in_the_rows_than_in_the_assets_block(world: World, lock: str, images: dict[str, str]) -> None:
    world.expected = ExpectedHost(capability_digest(REPORT), lock, images)
    assert world.failed() == {"locks recorded": "worker.locks_differ"}


def test_what_the_containers_see_is_said(world: World) -> None:
    world.marks = [Check("process list", False, "engine.no_ps", "No ps.", "Install it.")]
    assert world.failed() == {"process list": "engine.no_ps"}


def test_another_report_than_the_stored_one_blocks_with_its_remedy(world: World) -> None:
    world.expected = ExpectedHost("0" * 64, "1" * 64, IMAGES)
    assert world.failed() == {"worker as reported": "worker.changed"}
    assert "worker --report" in world.checks()["worker as reported"].remedy


def test_a_worker_that_never_reported_is_compared_with_nothing(world: World) -> None:
    world.expected = ExpectedHost("", "1" * 64, IMAGES)
    assert "worker as reported" not in world.checks()


def test_without_assets_the_rest_is_checked_all_the_same(world: World) -> None:
    world.assets = AssetError("assets.not_prepared", "Nothing is prepared.")
    assert world.failed() == {"assets": "assets.not_prepared"}
    assert {"engine", "disk", "subnets"} <= set(world.checks())


def test_without_an_engine_the_harness_is_checked_all_the_same(world: World) -> None:
    world.report = {**REPORT, "engine": None, "limits": []}
    world.harness = [Problem("harness.file_changed", "A file is not the locked one.")]
    failed = world.failed()
    assert (failed["engine"], failed["harness"]) == ("engine.unreachable", "harness.file_changed")


def test_an_engine_that_fails_on_the_way_is_a_failed_check(world: World) -> None:
    world.engine = EngineError("engine_timeout", "No answer in time.", "")
    assert world.failed() == {"engine answers": "engine_timeout"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (JournalBusy("maintenance_busy", "Another command uses the engine."), "maintenance_busy"),
        (PermissionError(13, "Permission denied"), "journal_unwritable"),
    ],
)
def test_a_journal_that_cannot_be_used_is_a_failed_check(world: World, error: Exception, code: str) -> None:
    world.journal = error
    assert world.failed() == {"journal": code}
