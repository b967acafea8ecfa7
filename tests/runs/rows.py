"""Rows for tests: a worker, a profile, a reviewed bundle, an endpoint and a queued run of three trials."""

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import Group, User
from django.utils import timezone

from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE, read_bundle
from runs.models import Endpoint, Profile, Run, TaskBundle, Trial, Worker
from runs.outcomes.buckets import Bucket
from runs.services.transitions import TrialEnd

HEX = "ab" * 32
TASKS = ("ledger-totals", "config-merge", "file-tree")
PASSED = TrialEnd(bucket=Bucket.PASSED, reward=1)
FAILED = TrialEnd(bucket=Bucket.FAILED, reward=0)
ERROR = TrialEnd(bucket=Bucket.ERROR, failure_class="grading", failure_code="grading.reward_missing")

PACKAGED_REVISION = read_bundle(ENVIRONMENT_SMOKE).manifest.revision


@dataclass(frozen=True)
class Process:
    """An identity for a lease; nothing alive has these numbers."""

    pid: int = 4_000_000
    start_ticks: int = 1
    boot_id: str = "00000000-0000-0000-0000-000000000000"


def person(name: str, *roles: str) -> User:
    user, _ = User.objects.get_or_create(username=name)
    user.groups.set(Group.objects.filter(name__in=roles))
    return User.objects.get(pk=user.pk)


def worker_row(name: str = "local", **values: Any) -> Worker:
    return Worker.objects.get_or_create(name=name, defaults={"host": f"host-{name}", **values})[0]


def profile_row(name: str = "environment-smoke") -> Profile:
    values = {
        "schema": "anvil-serving.benchmark-profile/v2",
        "document": "{}",
        "source": b"{}",
        "startable": True,
    }
    return Profile.objects.get_or_create(name=name, content_sha256=HEX, file_sha256=HEX, defaults=values)[0]


def bundle_row(
    name: str = "environment-smoke", revision: int = PACKAGED_REVISION, status: str = "reviewed"
) -> TaskBundle:
    times = {"reviewed_at": timezone.now(), "reviewed_by_name": "rita"} if status == "reviewed" else {}
    values = {
        "manifest": "{}",
        "manifest_sha256": HEX,
        "packaged": name,
        "status": status,
        **times,
    }
    return TaskBundle.objects.get_or_create(name=name, revision=revision, defaults=values)[0]


def endpoint_row(name: str = "scripted") -> Endpoint:
    values = {
        "record": "{}", "record_sha256": HEX, "base_url": "http://192.0.2.7:8000/v1", "host": "192.0.2.7",
        "model": "scripted", "route": "direct", "scripted": True,
    }  # fmt: skip
    return Endpoint.objects.get_or_create(name=name, version=1, defaults=values)[0]


def again(run: Run) -> Run:
    """The row as it is now."""
    return Run.objects.get(pk=run.pk)


def run_row(*, worker: str = "local", tasks: tuple[str, ...] = TASKS, **values: Any) -> Run:
    run = Run.objects.create(
        profile=profile_row(), bundle=bundle_row(), endpoint=endpoint_row(), worker=worker_row(worker),
        spec="{}", spec_sha256=HEX, count_requested=len(tasks), created_by_name="olga", **values,
    )  # fmt: skip
    Trial.objects.bulk_create(
        Trial(run=run, ordinal=number, task_name=task, task_checksum=HEX) for number, task in enumerate(tasks, 1)
    )
    return run
