"""What a claimed run is checked for again: the first required check that fails ends it, with its class and remedy."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchsite import __version__
from runs.checks.check import Check
from runs.documents.profile.v2 import EVIDENCE_DISK_BYTES
from runs.engine.assets import Problem
from runs.engine.host.folder import RUN_FACTS_SCHEMA, RunFolder, write_document
from runs.engine.preflight import run_preflight as module
from runs.engine.preflight.capabilities import capability_digest
from runs.engine.preflight.run_preflight import PreflightFailed, preflight
from tests.runs.sites import REPORT
from tests.spec_documents import run_spec

MIB = 1024 * 1024
DISK_BYTES = 2048 * MIB  # what the packaged profile requires
IMAGES = {role: f"sha256:{digit * 64}" for role, digit in (("agent", "4"), ("verifier", "5"), ("gateway", "6"))}


class World:
    """A worker on which every check holds, until a test changes something."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        self.report: dict[str, Any] = dict(REPORT)
        self.harness: list[Problem] = []
        self.images: list[Problem] = []
        self.marks: list[Check] = []
        self.free = DISK_BYTES
        self.path = path
        self.spec: dict[str, Any] = {
            "harness.lock_sha256": "1" * 64,
            **{f"images.{role}": image for role, image in IMAGES.items()},
            "worker.capability_sha256": capability_digest(REPORT),
            "requirements.min_free_disk_bytes": DISK_BYTES,
        }
        path.chmod(0o700)
        self.subnets = 30
        monkeypatch.setattr(module, "free_subnets", lambda _, enough: min(enough, self.subnets))
        monkeypatch.setattr(module, "verify_harness", lambda _: self.harness)
        monkeypatch.setattr(module, "verify_images", lambda *_: self.images)
        monkeypatch.setattr(module, "free_bytes", lambda _: self.free)
        monkeypatch.setattr(module, "capability_report", lambda **_: self.report)
        monkeypatch.setattr(module, "connect", lambda _: SimpleNamespace(close=lambda: None))
        monkeypatch.setattr(module, "mark_checks", lambda *_: self.marks)

    def check(self) -> list[Check]:
        locked = [SimpleNamespace(role=role, id=image, recipe_sha256="3" * 64) for role, image in IMAGES.items()]
        images = SimpleNamespace(images=locked, verifier=SimpleNamespace(id=IMAGES["verifier"]))
        lock = SimpleNamespace(interpreter=SimpleNamespace(version="3.12.1"), adapter_sha256="4" * 64)
        harness = SimpleNamespace(lock_sha256="1" * 64, lock=lock, path=self.path)
        assets: Any = SimpleNamespace(harness=harness, images=images, digests=dict)
        nothing: Any = None
        folder = RunFolder(self.path)
        write_document(folder.facts, {"schema": RUN_FACTS_SCHEMA})
        return preflight(run_spec(changes=self.spec), assets, nothing, nothing, folder, "local")

    def limit(self, name: str, **changes: Any) -> None:
        limits = [{**one, **(changes if one["name"] == name else {})} for one in REPORT["limits"]]
        self.report = {**REPORT, "limits": limits}
        self.spec["worker.capability_sha256"] = capability_digest(self.report)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    return World(monkeypatch, tmp_path)


def refusal(world: World) -> PreflightFailed:
    with pytest.raises(PreflightFailed) as caught:
        world.check()
    return caught.value


def test_what_the_worker_is_like_is_recorded_with_the_run_also_when_a_check_fails(world: World) -> None:
    world.limit("memory", enforced=False)
    refusal(world)
    recorded = RunFolder(world.path).read_facts()["worker"]
    assert recorded["version"] == __version__
    assert recorded["report"] == world.report
    assert recorded["image_recipes"] == dict.fromkeys(IMAGES, "3" * 64)
    assert recorded["harness"] == {"interpreter": "3.12.1", "adapter_sha256": "4" * 64}


def test_on_a_worker_that_is_as_previewed_everything_holds(world: World) -> None:
    checks = world.check()
    assert all(check.passed for check in checks)
    names = {"harness", "interpreter", "images", "folder", "disk", "subnets", "engine", "platform", "limit memory"}
    assert {*names, "worker cpus", "worker memory", "worker"} <= {check.name for check in checks}


@pytest.mark.parametrize(
    ("key", "code"),
    [("sk-0123456789", "credential.searched"), ("ollama", "credential.not_searched"), (None, None)],
)
def test_a_key_that_evidence_cannot_be_searched_for_is_a_note_with_a_remedy(
    world: World, monkeypatch: pytest.MonkeyPatch, key: str | None, code: str | None
) -> None:
    """Attack 6e: nobody is kept from using a local server's dummy key, and everybody is told what that means."""
    world.spec["endpoint.credential"] = {"kind": "env", "name": "BENCHSITE_ENDPOINT_KEY"}
    if key is not None:
        monkeypatch.setenv("BENCHSITE_ENDPOINT_KEY", key)
    found = [check for check in world.check() if check.name == "credential in evidence"]
    assert [check.code for check in found] == ([code] if code else [])
    assert all(check.passed or ("longer random key" in check.remedy and check.level == "note") for check in found)


def test_a_container_that_does_not_see_its_images_files_ends_the_run(world: World) -> None:
    world.marks = [Check("agent image's files", False, "image.mark_missing", "Not its own.", "Restart the engine.")]
    failed = refusal(world)
    assert (failed.code, failed.failure_class) == ("image.mark_missing", "worker_runtime")
    assert "Restart" in failed.sentence


@pytest.mark.parametrize(
    ("integrity", "failure_class"),
    [(True, "integrity"), (False, "worker_runtime")],
)
def test_a_harness_that_is_not_the_locked_one_ends_the_run(world: World, integrity: bool, failure_class: str) -> None:
    problem = Problem("harness.any", "A file is not the locked one. Run: manage.py prepare", integrity=integrity)
    world.harness = [problem]
    failed = refusal(world)
    assert (failed.code, failed.failure_class) == ("harness.any", failure_class)
    assert "manage.py prepare" in failed.sentence


def test_an_image_that_is_gone_ends_the_run(world: World) -> None:
    world.images = [Problem("image.missing", "The agent image is gone. Run: manage.py prepare")]
    assert (refusal(world).code, refusal(world).failure_class) == ("image.missing", "worker_runtime")


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("harness.lock_sha256", "9" * 64, "harness.lock_changed"),
        ("images.agent", "sha256:" + "9" * 64, "image.spec_mismatch"),
        ("worker.capability_sha256", "9" * 64, "worker.changed"),
    ],
)
def test_what_is_not_as_previewed_is_an_integrity_failure(world: World, path: str, value: str, code: str) -> None:
    world.spec[path] = value
    failed = refusal(world)
    assert (failed.code, failed.failure_class) == (code, "integrity") and "Preview again." in failed.sentence


@pytest.mark.parametrize("name", ["memory", "pids", "storage", "no_network", "capabilities"])
def test_a_limit_that_is_not_enforced_ends_the_run(world: World, name: str) -> None:
    world.limit(name, enforced=False)
    failed = refusal(world)
    assert failed.code == f"limit.{name}_not_enforced" and "Use a worker" in failed.sentence


def test_what_may_be_accepted_in_a_preview_ends_no_run(world: World) -> None:
    world.limit("core", enforced=False)
    assert [check.name for check in world.check() if not check.passed] == ["limit core"]


def test_a_limit_that_was_not_proved_is_not_enforced(world: World) -> None:
    world.report = {**REPORT, "limits": [one for one in REPORT["limits"] if one["name"] != "memory"]}
    assert refusal(world).code == "limit.memory_not_enforced"


def test_another_report_than_the_previewed_ends_the_run(world: World) -> None:
    world.report = {**REPORT, "host": "another"}
    assert (refusal(world).code, refusal(world).failure_class) == ("worker.changed", "integrity")


def test_without_an_engine_the_remedy_is_said(world: World) -> None:
    problem = {"code": "engine_unreachable", "sentence": "The engine does not answer."}
    world.report = {**REPORT, "engine": None, "engine_problem": problem}
    assert refusal(world).sentence == (
        "The engine does not answer. Start the engine on that host, then run manage.py worker --report there."
    )


def test_too_little_room_is_said_before_anything_starts(world: World) -> None:
    world.free = DISK_BYTES - 1
    failed = refusal(world)
    assert (failed.code, failed.failure_class) == ("worker.disk_full", "worker_runtime")
    assert failed.sentence.endswith("Free space where BENCHSITE_DATA lies.")


def test_a_profile_that_requires_less_than_the_evidence_of_a_run_takes_gives_no_smaller_disk(world: World) -> None:
    world.spec["requirements.min_free_disk_bytes"] = 0
    world.free = EVIDENCE_DISK_BYTES
    world.check()
    world.free = EVIDENCE_DISK_BYTES - 1
    assert refusal(world).code == "worker.disk_full"


@pytest.mark.parametrize(
    ("engine", "code"),
    [({"cpus": 0}, "worker.too_little_cpus"), ({"memory_bytes": 2047 * MIB}, "worker.too_little_memory")],
)
def test_a_worker_smaller_than_the_ceilings_ends_the_run(world: World, engine: dict[str, Any], code: str) -> None:
    world.report = {**REPORT, "engine": {**REPORT["engine"], **engine}}
    world.spec["worker.capability_sha256"] = capability_digest(world.report)
    failed = refusal(world)
    assert (failed.code, failed.failure_class) == (code, "worker_runtime") and "larger worker" in failed.sentence


def test_a_run_needs_two_free_subnets(world: World) -> None:
    world.subnets = 2
    world.check()
    world.subnets = 1
    failed = refusal(world)
    assert failed.code == "engine.no_free_subnet" and "Remove networks that nobody uses" in failed.sentence


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o701])
def test_a_folder_that_others_may_enter_ends_the_run(world: World, mode: int) -> None:
    world.path.chmod(mode)
    assert refusal(world).code == "worker.folder_not_private"


def test_a_link_in_the_place_of_the_runs_folder_ends_the_run(world: World, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    world.path = tmp_path / "link"
    world.path.symlink_to(tmp_path / "elsewhere")
    assert refusal(world).code == "worker.folder_not_private"


def test_an_interpreter_that_is_not_the_locked_one_is_a_check_of_its_own(world: World) -> None:
    world.harness = [Problem("harness.interpreter_changed", "It is not the locked one.", integrity=True)]
    assert (refusal(world).code, refusal(world).failure_class) == ("harness.interpreter_changed", "integrity")


def test_the_free_disk_of_a_report_is_no_capability_for_it_changes_from_minute_to_minute() -> None:
    other = {**REPORT, "disk_free_bytes": 1}
    assert other != REPORT and capability_digest(other) == capability_digest(REPORT)
    assert capability_digest({**REPORT, "host": "another"}) != capability_digest(REPORT)
