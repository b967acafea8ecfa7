"""`preflight` on rows: what is stored, what is made anew, what blocks. The real host is checked in the gate."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs.checks.check import Check
from runs.engine.preflight import host_preflight
from runs.models import Preview, Run, Worker
from tests.commands.calling import command
from tests.runs.rows import person
from tests.runs.sites import SHARED_UID, Site, ready_site, report

pytestmark = pytest.mark.django_db


@pytest.fixture
def site(settings: Any) -> Site:
    settings.WORKER_HOST = "host-local"
    return ready_site()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the host's checks were asked for; they say that everything holds but what a test adds."""
    asked: list[Any] = []
    checks = [Check("disk", True, "disk.enough", "Room."), Check("limit memory", True, "limit.enforced", "Anew.")]
    monkeypatch.setattr(host_preflight, "host_checks", lambda host, expected: asked.append((host, expected)) or checks)
    return asked


def checks(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in document["checks"]}


def test_stored_checks_come_from_the_report_with_its_age(site: Site) -> None:
    Worker.objects.update(reported_at=timezone.now() - timedelta(hours=2))
    result = command("preflight", "--stored", "--json")
    assert (result.code, result.json["stored"], result.json["spec_sha256"]) == (0, True, None)
    assert 7200 <= result.json["reported_age_s"] < 7300
    assert {"worker report", "engine", "limit memory", "limit core", "worker idle"} <= set(checks(result.json))
    assert "every required check holds, by the report of 2 h ago" in command("preflight", "--stored").out


@pytest.mark.parametrize(
    ("changes", "name", "code"),
    [
        ({"limits": []}, "limit memory", "limit.memory_not_enforced"),
        ({"engine": None, "engine_problem": None}, "engine", "engine.unreachable"),
    ],
)
def test_a_stored_report_that_does_not_hold_exits_3(site: Site, changes: Any, name: str, code: str) -> None:
    report(**changes)
    result = command("preflight", "--stored", "--json")
    assert (result.code, checks(result.json)[name]["code"], result.json["blocked"]) == (3, code, True)


def test_what_only_has_to_be_accepted_does_not_block(site: Site) -> None:
    report(sandbox=SHARED_UID)
    assert command("preflight", "--stored").code == 0


def test_on_the_workers_host_the_checks_are_made_anew_and_replace_the_stored_ones(site: Site, made: list[Any]) -> None:
    report(limits=[])
    result = command("preflight", "--json")
    found = checks(result.json)
    assert found["limit memory"]["detail"] == "Anew." and found["disk"]["passed"]
    assert (result.code, found["limit cpu"]["passed"]) == (3, False)
    (host, expected) = made[0]
    assert host.worker == "local" and expected.harness_lock_sha256 == "1" * 64
    assert set(expected.images) == {"agent", "verifier", "gateway"}
    assert expected.limits.agent.memory_bytes == 1 << 30 and expected.disk_bytes == 2 << 30


def test_a_would_be_run_is_checked_with_its_spec_and_nothing_is_stored(site: Site, made: list[Any]) -> None:
    result = command("preflight", "--endpoint", "scripted", "--task", "file-tree", "--json")
    shown = command("preview", "--endpoint", "scripted", "--task", "file-tree", "--json").json
    assert (result.code, result.json["spec_sha256"]) == (0, shown["spec_sha256"])
    assert {"bundle reviewed", "spec resolved", "endpoint active"} <= set(checks(result.json))
    assert made[0][1].limits.agent.model_dump() == shown["spec"]["limits"]["agent"]
    assert Preview.objects.count() == 1 and not Run.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--endpoint", "nonesuch"], "input.unknown_endpoint"),
        (["--task", "file-tree"], "input.unknown_endpoint"),
        (["--endpoint", "scripted", "--task", "nonesuch"], "spec.task_not_in_profile"),
        (["--worker", "nonesuch"], "input.unknown_worker"),
    ],
)
def test_bad_input_exits_2(site: Site, made: list[Any], arguments: list[str], code: str) -> None:
    result = command("preflight", *arguments, "--json")
    assert (result.code, result.json["code"], made) == (2, code, [])


def test_another_hosts_worker_is_told_where_to_check(site: Site, made: list[Any]) -> None:
    report("far")
    result = command("preflight", "--worker", "far", "--json")
    assert (result.code, result.json["code"], made) == (2, "input.other_host", [])
    assert "host-far" in result.err and "--stored" in result.err
    assert command("preflight", "--worker", "far", "--stored").code == 0


def test_a_host_that_was_never_prepared_is_checked_and_blocked(made: list[Any]) -> None:
    result = command("preflight", "--json")
    assert (result.code, checks(result.json)["worker report"]["code"]) == (3, "worker.no_report")
    assert len(made) == 1


def test_a_viewer_sees_the_stored_checks_and_makes_none(site: Site, made: list[Any]) -> None:
    person("vera", "viewer")
    assert command("preflight", "--stored", "--user", "vera").code == 0
    assert (command("preflight", "--user", "vera").code, made) == (2, [])


def test_failed_checks_come_first_with_their_remedy(site: Site) -> None:
    report(limits=[])
    lines = command("preflight", "--stored").out.splitlines()
    assert lines[0].startswith("block\tlimit ") and "Use a worker whose engine" in lines[0]
    assert lines[-1].startswith("worker local: 10 required checks failed")


def test_on_a_terminal_the_checks_are_a_table_of_80_columns(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")  # 80 columns, no sequences
    told = command("preview", "--endpoint", "scripted", terminal=True).out.splitlines()
    heading = next(line for line in told if line.split() == ["check", "code", "what"])
    table = told[told.index(heading) : -1]
    assert max(map(len, table)) <= 80 and not any("limit.enforced" in line for line in table)
    assert "limit.enforced" in command("preview", "--endpoint", "scripted").out
