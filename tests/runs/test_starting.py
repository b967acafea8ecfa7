"""A confirmation starts exactly one run, of exactly what was shown, or nothing."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
import time_machine
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils import timezone

from runs.models import AuditEntry, Preview, Run, RunState, Trial
from runs.services import queue, registry, reviewing, workers
from runs.services.previewing import make_preview
from runs.services.refusals import BadToken, Blocked, Changed, NoSuchPreview, NotAccepted, PreviewExpired
from runs.services.starting import confirm, confirm_by_hash, token_of
from tests.runs.rows import person
from tests.runs.sites import HARNESS, RECORD, SHARED_UID, Site, ready_site, report
from tests.runs.test_lifecycle import at_once

pytestmark = pytest.mark.django_db


@pytest.fixture
def put(monkeypatch) -> list[tuple]:
    """What is put into the queue, which these tests do not need to be real."""
    jobs: list[tuple] = []
    monkeypatch.setattr(queue, "put", lambda run_id, worker, limit_s: jobs.append((run_id, worker, limit_s)))
    return jobs


@pytest.fixture
def site() -> Site:
    return ready_site()


def start(site: Site, preview: Preview, **changes) -> Run:
    arguments = {"user": site.operator, "preview_id": preview.pk, "token": token_of(preview), **changes}
    return confirm(**arguments)


def test_a_confirmed_preview_becomes_a_queued_run_of_that_spec(site, put, django_capture_on_commit_callbacks):
    preview = make_preview(**site.choice(tasks=["file-tree"]))
    with django_capture_on_commit_callbacks(execute=True):
        run = start(site, preview)
    assert (run.spec, run.spec_sha256, run.state) == (preview.spec, preview.spec_sha256, RunState.QUEUED)
    assert list(run.trials.values_list("ordinal", "task_name")) == [(1, "file-tree")]
    assert (run.count_requested, run.created_by_name) == (1, "olga")
    assert [(key, worker) for key, worker, _ in put] == [(run.pk, "local")]
    assert Preview.objects.get().consumed_by == run
    entry = AuditEntry.objects.get(kind="start")
    assert (entry.run_id, entry.detail["spec_sha256"]) == (run.pk, run.spec_sha256)


def test_the_same_confirmation_twice_starts_one_run(site, put):
    preview = make_preview(**site.choice())
    assert start(site, preview) == start(site, preview)
    assert Run.objects.count() == 1 and AuditEntry.objects.filter(kind="start").count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_same_confirmation_many_times_at_once_starts_one_run(put):
    site = ready_site()
    preview = make_preview(**site.choice())
    results = at_once(*[lambda: start(site, preview).pk] * 5)
    assert len(set(results)) == 1 and Run.objects.count() == 1 and Trial.objects.count() == 3
    assert len(put) == 1


class TestToken:
    def test_a_forged_token_is_refused(self, site, put):
        preview = make_preview(**site.choice())
        token = token_of(preview)
        for forged in ("", "x", token[:-1] + ("A" if token[-1] != "A" else "B"), token.partition(":")[2]):
            with pytest.raises(BadToken):
                start(site, preview, token=forged)
        assert Run.objects.count() == 0

    def test_a_token_of_another_preview_is_refused(self, site, put):
        preview, other = make_preview(**site.choice()), make_preview(**site.choice())
        with pytest.raises(BadToken):
            start(site, preview, token=token_of(other))

    def test_a_token_of_another_site_is_refused(self, site, put, settings):
        preview = make_preview(**site.choice())
        token = token_of(preview)
        settings.SECRET_KEY = "another key of another site"
        with pytest.raises(BadToken):
            start(site, preview, token=token)

    def test_an_expired_preview_starts_nothing(self, site, put):
        preview = make_preview(**site.choice())
        token = token_of(preview)
        with (
            time_machine.travel(timezone.now() + timedelta(minutes=15, seconds=1)),
            pytest.raises(PreviewExpired),
        ):
            start(site, preview, token=token)
        assert Run.objects.count() == 0

    def test_a_replay_after_the_expiry_gets_the_run_that_was_started(self, site, put):
        preview = make_preview(**site.choice())
        run, token = start(site, preview), token_of(preview)
        with time_machine.travel(timezone.now() + timedelta(hours=1)):
            assert start(site, preview, token=token) == run

    def test_a_preview_belongs_to_its_user(self, site, put):
        preview = make_preview(**site.choice())
        with pytest.raises(NoSuchPreview):
            start(site, preview, user=person("otto", "operator"))

    def test_whoever_lost_the_role_starts_nothing(self, site, put):
        preview = make_preview(**site.choice())
        with pytest.raises(PermissionDenied):
            start(site, preview, user=person("olga", "viewer"))

    @pytest.mark.parametrize("key", ["", "r1", "0" * 32])
    def test_an_unknown_preview_is_named(self, site, key):
        with pytest.raises(NoSuchPreview):
            confirm(user=site.operator, preview_id=key, token="")

    def test_the_hash_stands_for_the_token(self, site, put):
        preview = make_preview(**site.choice())
        with pytest.raises(BadToken):
            confirm_by_hash(user=site.operator, preview_id=preview.pk, spec_sha256="0" * 64)
        run = confirm_by_hash(user=site.operator, preview_id=preview.pk, spec_sha256=preview.spec_sha256)
        assert run.spec_sha256 == preview.spec_sha256


class TestWhatChanged:
    """Anything that is no longer as it was shown is a difference, and refused."""

    def refused(self, site: Site, preview: Preview) -> dict[str, tuple[str, str]]:
        with pytest.raises(Changed) as changed:
            start(site, preview)
        assert Run.objects.count() == 0
        return {d.path: (d.old, d.new) for d in changed.value.differences}

    def test_the_workers_capabilities(self, site, put):
        preview = make_preview(**site.choice())
        worker = report(engine={"version": "29.0.0", "cgroup_version": "2"})
        differences = self.refused(site, preview)
        assert set(differences) == {"worker.capability_sha256"}
        assert worker.capability_sha256 in differences["worker.capability_sha256"][1]

    def test_an_image(self, site, put):
        preview = make_preview(**site.choice())
        recipe = site.worker.image_locks.get(role="agent").recipe_sha256
        workers.record_image_locks("local", {"agent": {"image_id": "sha256:" + "8" * 64, "recipe_sha256": recipe}})
        assert set(self.refused(site, preview)) == {"images.agent"}

    def test_the_harness(self, site, put):
        preview = make_preview(**site.choice())
        workers.record_harness_lock("local", {**HARNESS, "tree_sha256": "7" * 64})
        assert set(self.refused(site, preview)) == {"harness.tree_sha256"}

    def test_the_endpoint(self, site, put):
        preview = make_preview(**site.choice())
        registry.register_endpoint({**RECORD, "base_url": "http://192.0.2.8:8000/v1"}, user=None)
        differences = self.refused(site, preview)
        assert set(differences) == {"endpoint.base_url", "endpoint.host", "endpoint.version"}
        assert differences["endpoint.version"] == ("1", "2")

    def test_a_change_that_was_taken_back_is_none(self, site, put):
        preview = make_preview(**site.choice())
        workers.record_harness_lock("local", {**HARNESS, "tree_sha256": "7" * 64})
        workers.record_harness_lock("local", HARNESS)
        assert start(site, preview).spec_sha256 == preview.spec_sha256

    def test_a_bundle_that_was_retired_meanwhile_blocks(self, site, put):
        preview = make_preview(**site.choice())
        reviewing.retire(site.bundle, user=person("rita", "reviewer"))
        with pytest.raises(Blocked) as blocked:
            start(site, preview)
        assert [check["code"] for check in blocked.value.checks] == ["bundle.not_reviewed"]

    def test_a_retired_endpoint_blocks(self, site, put):
        preview = make_preview(**site.choice())
        registry.retire_endpoint(site.endpoint, user=None)
        with pytest.raises(Blocked):
            start(site, preview)


class TestChecks:
    def test_a_blocked_preview_cannot_be_confirmed(self, site, put):
        site.worker = report(limits=[])
        with pytest.raises(Blocked):
            start(site, make_preview(**site.choice()))
        assert Run.objects.count() == 0

    def test_what_the_worker_cannot_enforce_is_accepted_by_name_or_not_at_all(self, site, put):
        site.worker = report(sandbox=SHARED_UID)
        preview = make_preview(**site.choice())
        with pytest.raises(NotAccepted, match="limit harness_uid"):
            start(site, preview)
        run = start(site, preview, accepted=["limit harness_uid"])
        assert AuditEntry.objects.get(kind="start", run_id=run.pk).detail["accepted"] == ["limit harness_uid"]

    def test_a_required_limit_is_not_accepted_by_name(self, site, put):
        limits = [{**limit, "enforced": limit["name"] != "pids"} for limit in workers.report_of(site.worker)["limits"]]
        site.worker = report(limits=limits)
        with pytest.raises(Blocked):
            start(site, make_preview(**site.choice()), accepted=["limit pids"])


@pytest.mark.django_db(transaction=True)
def test_a_start_that_is_rolled_back_puts_no_job(put):
    """The job is put when the transaction commits, and never otherwise."""
    site = ready_site()
    preview = make_preview(**site.choice())
    with pytest.raises(RuntimeError), transaction.atomic():
        start(site, preview)
        raise RuntimeError
    assert put == [] and Run.objects.count() == 0 and Preview.objects.get().consumed_by is None
    run = start(site, preview)
    assert [job[0] for job in put] == [run.pk]


class Died(BaseException):
    """As kill -9: nothing after it is carried out."""


def test_a_start_that_died_between_its_commit_and_the_queue_is_taken_up_and_never_started_twice(
    site, monkeypatch, django_capture_on_commit_callbacks
):
    """The row is the truth: the worker's timer puts the job, and the same confirmation gives the same run."""
    preview = make_preview(**site.choice(tasks=["file-tree"]))

    def died(*_, **__):
        raise Died

    monkeypatch.setattr(queue, "put", died)
    with pytest.raises(Died), django_capture_on_commit_callbacks(execute=True):
        start(site, preview)
    run = Run.objects.get()
    assert (run.state, run.trials.count()) == ("queued", 1)
    put, waiting = [], SimpleNamespace(get_job_ids=list)
    monkeypatch.setattr(queue, "put", lambda run_id, worker: put.append((run_id, worker)))
    monkeypatch.setattr(queue, "queue_of", lambda worker: waiting)
    assert queue.put_missing(run.worker.name) == [run.pk] and put == [(run.pk, run.worker.name)]
    assert start(site, preview) == run and Run.objects.count() == 1
