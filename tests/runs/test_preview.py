"""What is shown before anything starts: one spec, every check, and clear words when something is missing."""

from datetime import timedelta

import pytest
from django.core.exceptions import PermissionDenied
from django.utils import timezone

from benchsite.lib.canonical import load_object
from runs.checks.worker import REQUIRED_LIMITS
from runs.models import AuditEntry, HarnessLock, ImageLock, Preview, Run, TaskBundle, Worker
from runs.services import registry, reviewing, workers
from runs.services.previewing import make_preview
from runs.services.refusals import BadInput, UnknownName
from tests.runs.rows import person, run_row
from tests.runs.sites import RECORD, SHARED_UID, Site, ready_site, report

pytestmark = pytest.mark.django_db


@pytest.fixture
def site() -> Site:
    return ready_site()


def blocking_codes(preview: Preview) -> set[str]:
    return {check["code"] for check in preview.blocking}


def test_a_ready_site_shows_a_whole_spec_and_nothing_blocks(site):
    preview = make_preview(**site.choice())
    spec = load_object(preview.spec.encode())
    assert preview.blocking == [] and preview.to_accept == []
    assert [task["name"] for task in spec["tasks"]] == ["ledger-totals", "config-merge", "file-tree"]
    assert spec["worker"]["capability_sha256"] == site.worker.capability_sha256
    assert preview.expires_at - timezone.now() <= timedelta(minutes=15)
    assert Run.objects.count() == 0


def test_equal_choices_give_equal_bytes(site):
    first, second = make_preview(**site.choice()), make_preview(**site.choice())
    assert (first.spec, first.spec_sha256) == (second.spec, second.spec_sha256)
    assert first.pk != second.pk


def test_a_preview_is_audited(site):
    preview = make_preview(**site.choice())
    entry = AuditEntry.objects.get(kind="preview")
    assert (entry.actor_name, entry.detail["spec_sha256"]) == ("olga", preview.spec_sha256)


@pytest.mark.parametrize("roles", [(), ("viewer",), ("reviewer",)])
def test_only_operators_preview(site, roles):
    with pytest.raises(PermissionDenied):
        make_preview(**site.choice(user=person("vera", *roles)))
    assert Preview.objects.count() == 0


class TestNarrowing:
    def test_tasks_keep_the_profiles_order(self, site):
        preview = make_preview(**site.choice(tasks=["file-tree", "ledger-totals"]))
        names = [task["name"] for task in load_object(preview.spec.encode())["tasks"]]
        assert names == ["ledger-totals", "file-tree"]

    @pytest.mark.parametrize(
        ("narrowing", "code"),
        [
            ({"tasks": ["ledger"]}, "spec.task_not_in_profile"),
            ({"tasks": []}, "spec.no_tasks"),
            ({"tasks": ["file-tree", "file-tree"]}, "spec.task_repeated"),
            ({"max_steps": 33}, "spec.wider_than_profile"),
            ({"max_steps": 0}, "spec.below_minimum"),
            ({"max_trial_seconds": 601}, "spec.wider_than_profile"),
        ],
    )
    def test_nothing_is_widened_or_invented(self, site, narrowing, code):
        with pytest.raises(BadInput) as refused:
            make_preview(**site.choice(**narrowing))
        assert refused.value.code == code
        assert Preview.objects.count() == 0

    def test_an_unknown_task_is_told_with_the_known_ones(self, site):
        with pytest.raises(BadInput, match="ledger-totals, config-merge, file-tree"):
            make_preview(**site.choice(tasks=["ledger"]))


class TestChecks:
    @pytest.mark.parametrize("name", REQUIRED_LIMITS)
    def test_a_limit_that_the_worker_cannot_enforce_blocks_by_name(self, site, name):
        limits = [{**limit, "enforced": limit["name"] != name} for limit in workers.report_of(site.worker)["limits"]]
        site.worker = report(limits=limits)
        preview = make_preview(**site.choice())
        assert blocking_codes(preview) == {f"limit.{name}_not_enforced"}
        assert f"mechanism of {name}" in preview.blocking[0]["detail"]

    def test_a_limit_that_was_never_proved_blocks(self, site):
        site.worker = report(limits=[])
        assert len(make_preview(**site.choice()).blocking) == len(REQUIRED_LIMITS)

    def test_what_nothing_requires_is_accepted_by_name(self, site):
        site.worker = report(sandbox=SHARED_UID)
        preview = make_preview(**site.choice())
        assert preview.blocking == []
        assert [check["name"] for check in preview.to_accept] == ["limit harness_uid"]

    def test_with_the_engine_stopped_the_preview_still_renders_and_says_so(self, site):
        problem = {"code": "engine.unreachable", "sentence": "The Docker Engine does not answer."}
        site.worker = report(engine=None, engine_problem=problem, limits=[])
        preview = make_preview(**site.choice())
        assert preview.spec and blocking_codes(preview) == {"engine.unreachable"}
        assert preview.blocking[0]["detail"] == "The Docker Engine does not answer."

    @pytest.mark.parametrize("platform", ["Darwin arm64", "Windows AMD64", "", None])
    def test_a_worker_that_is_not_linux_blocks(self, site, platform):
        """R004."""
        site.worker = report(platform=platform)
        assert blocking_codes(make_preview(**site.choice())) == {"worker.platform"}

    def test_a_worker_that_never_reported_blocks_with_a_remedy(self, site):
        Worker.objects.update(reported_at=None, capability_sha256="", report="")
        preview = make_preview(**site.choice(worker=Worker.objects.get()))
        assert {"worker.no_report", "spec.no_capabilities"} <= blocking_codes(preview)
        assert preview.spec == "" and preview.spec_sha256 == ""
        assert all(check["remedy"] or check["name"].startswith("spec") for check in preview.blocking)

    def test_an_old_report_blocks_and_says_how_old_it_is(self, site):
        Worker.objects.update(reported_at=timezone.now() - timedelta(days=2))
        preview = make_preview(**site.choice(worker=Worker.objects.get()))
        assert blocking_codes(preview) == {"worker.report_old"}
        assert "2 days ago" in preview.blocking[0]["detail"]

    def test_a_missing_image_or_harness_blocks_and_names_prepare(self, site):
        ImageLock.objects.filter(role="verifier").delete()
        HarnessLock.objects.all().delete()
        preview = make_preview(**site.choice())
        assert blocking_codes(preview) == {"spec.no_image", "spec.no_harness", "spec.agent_mismatch"}
        assert any("manage.py prepare" in check["detail"] for check in preview.blocking)

    def test_an_image_of_another_recipe_blocks(self, site):
        image = {"image_id": "sha256:" + "9" * 64, "recipe_sha256": "9" * 64}
        workers.record_image_locks("local", {"agent": image})
        assert blocking_codes(make_preview(**site.choice())) == {"spec.recipe_mismatch"}

    def test_a_bundle_that_is_not_reviewed_blocks(self, site):
        reviewing.retire(site.bundle, user=person("rita", "reviewer"))
        preview = make_preview(**site.choice(bundle=TaskBundle.objects.get()))
        assert blocking_codes(preview) == {"bundle.not_reviewed"}

    def test_a_worker_declared_lost_blocks(self, site):
        Worker.objects.update(lost_declared_at=timezone.now())
        assert blocking_codes(make_preview(**site.choice(worker=Worker.objects.get()))) == {"worker.declared_lost"}

    def test_a_busy_or_silent_worker_is_only_noted(self, site):
        run_row()
        preview = make_preview(**site.choice())
        assert preview.blocking == []
        assert {check["code"] for check in preview.notes} == {"worker.busy", "worker.not_alive"}

    def test_a_manifest_that_was_changed_in_the_database_fails_closed(self, site):
        """No process is started for a manifest that is not the reviewed one."""
        changed = TaskBundle(**{f.attname: getattr(site.bundle, f.attname) for f in TaskBundle._meta.fields})
        changed.manifest = changed.manifest.replace("ledger-totals", "ledger-total5")
        preview = make_preview(**site.choice(bundle=changed))
        assert "bundle.hash_differs" in blocking_codes(preview) and preview.spec == ""

    def test_failed_checks_come_first(self, site):
        site.worker = report(sandbox=SHARED_UID, limits=[])
        levels = [check["level"] for check in make_preview(**site.choice()).checks if not check["passed"]]
        assert levels == sorted(levels, key=["block", "accept", "note"].index)


class TestRegistry:
    def test_unknown_names_are_told_with_the_known_ones_and_the_remedy(self, site):
        for find, word in [
            (registry.find_profile, "profile"), (registry.find_endpoint, "endpoint"),
            (registry.find_bundle, "bundle"), (registry.find_worker, "worker"),
        ]:  # fmt: skip
            with pytest.raises(UnknownName) as refused:
                find("nonesuch")
            assert refused.value.code == f"input.unknown_{word}"
            assert "nonesuch" in refused.value.sentence
            assert any(place in refused.value.sentence for place in ("manage.py", "admin"))

    def test_a_changed_endpoint_is_a_new_version_and_the_same_record_is_not(self, site):
        assert registry.register_endpoint(RECORD, user=None).pk == site.endpoint.pk
        second = registry.register_endpoint({**RECORD, "model": "other"}, user=None)
        assert (second.version, registry.find_endpoint("scripted").pk) == (2, second.pk)
        site.endpoint.refresh_from_db()
        assert not site.endpoint.active

    def test_a_retired_endpoint_is_not_found_and_keeps_its_record(self, site):
        assert registry.retire_endpoint(site.endpoint, user=None)
        assert not registry.retire_endpoint(site.endpoint, user=None)
        with pytest.raises(UnknownName):
            registry.find_endpoint("scripted")

    def test_a_profile_is_stored_once_with_its_own_bytes(self, site):
        data = bytes(site.profile.source)
        assert registry.store_profile(data, user=None).pk == site.profile.pk
        again = registry.store_profile(data + b"\n", user=None)
        assert again.content_sha256 == site.profile.content_sha256
        assert again.file_sha256 != site.profile.file_sha256

    def test_the_newest_profile_of_a_name_is_meant(self, site):
        newer = registry.store_profile(bytes(site.profile.source) + b" ", user=None)
        assert registry.find_profile("environment-smoke").pk == newer.pk
        assert registry.find_profile(site.profile.content_sha256[:12]).name == "environment-smoke"


class TestSize:
    """The bundle's ceilings are held against the worker before anything starts (design 6)."""

    @pytest.mark.parametrize(
        ("engine", "code"),
        [({"cpus": 0}, "worker.too_little_cpus"), ({"memory_bytes": 64 * 1024**2}, "worker.too_little_memory")],
    )
    def test_a_worker_smaller_than_the_ceilings_blocks(self, site, engine, code):
        whole = workers.report_of(site.worker)["engine"]
        site.worker = report(engine={**whole, **engine})
        preview = make_preview(**site.choice())
        assert blocking_codes(preview) == {code}
        assert preview.blocking[0]["remedy"] == "Use a larger worker."

    def test_a_report_that_does_not_say_its_size_is_not_judged_by_it(self, site):
        site.worker = report(engine={"version": "20.10.24", "cgroup_version": "1"})
        assert blocking_codes(make_preview(**site.choice())) == set()
