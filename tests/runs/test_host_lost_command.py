"""``manage.py host_lost``: says first what would end, does it with --yes, for administrators alone."""

import pytest
from django.utils import timezone

from runs.models import Run, Worker
from tests.runs.rows import person
from tests.runs.test_commands import command
from tests.runs.test_recovery import Process, claimed_by

pytestmark = pytest.mark.django_db


@pytest.fixture
def lost() -> Run:
    person("ada", "admin")
    return claimed_by(Process(), host="far-away", worker="far")


def test_without_yes_it_says_what_would_end_and_ends_nothing(lost: Run) -> None:
    found = command("host_lost", "far", "--user", "ada")
    assert found.code == 3
    assert f"run {lost.key} would end" in found.out
    assert Run.objects.get(pk=lost.pk).active


def test_with_yes_it_ends_them_and_twice_is_once(lost: Run) -> None:
    first = command("host_lost", "far", "--yes", "--user", "ada", "--json").json
    assert first == {
        "schema": "benchsite.host-lost/v1",
        "worker": "far",
        "condition": "never started",
        "declared": True,
        "runs": [lost.key],
    }
    assert Run.objects.get(pk=lost.pk).state == "interrupted"
    again = command("host_lost", "far", "--yes", "--user", "ada", "--json").json
    assert (again["condition"], again["runs"]) == ("declared lost", [])


@pytest.mark.parametrize("role", ["viewer", "operator", "reviewer"])
def test_other_roles_are_refused(lost: Run, role: str) -> None:
    person("pat", role)
    found = command("host_lost", "far", "--yes", "--user", "pat", "--json")
    assert (found.code, found.json["code"]) == (2, "access.refused")
    assert Run.objects.get(pk=lost.pk).active


def test_the_local_operator_is_told_to_name_somebody_who_may(lost: Run) -> None:
    found = command("host_lost", "far", "--json")
    assert (found.code, found.json["code"]) == (2, "access.refused")
    assert "--user NAME" in found.json["sentence"]


def test_a_worker_that_serves_and_a_name_that_is_none_are_refused(lost: Run) -> None:
    Worker.objects.filter(name="far").update(pid=7, heartbeat_at=timezone.now())
    serving = command("host_lost", "far", "--yes", "--user", "ada", "--json")
    assert (serving.code, serving.json["code"]) == (3, "worker.still_serving")
    unknown = command("host_lost", "near", "--yes", "--user", "ada", "--json")
    assert (unknown.code, unknown.json["code"]) == (2, "input.unknown_worker")
