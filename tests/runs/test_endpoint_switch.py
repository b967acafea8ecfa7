"""The switch of an endpoint: who may throw it, what it ends, what it refuses, and that every act is audited."""

import pytest
from django.core.exceptions import PermissionDenied

from runs.models import AuditEntry, Endpoint, EndpointStop, Run, RunState
from runs.services import endpoint_switch, endpoint_testing, lifecycle, registry
from runs.services.endpoint_testing import CannotTest
from runs.services.previewing import make_preview
from runs.services.refusals import BadInput, Blocked
from runs.services.starting import confirm_by_hash
from tests.runs.rows import Process, endpoint_row, person, run_row
from tests.runs.sites import RECORD, Site, ready_site

pytestmark = pytest.mark.django_db


@pytest.fixture
def site() -> Site:
    return ready_site()


def stop(site: Site, reason: str = "it answers with another model") -> list[Run]:
    return endpoint_switch.stop(user=site.operator, name=site.endpoint.name, reason=reason)


def test_it_ends_the_open_runs_of_every_version_of_its_endpoint_and_no_other(site: Site) -> None:
    older = Endpoint.objects.get(pk=site.endpoint.pk)
    newer = registry.register_endpoint({**RECORD, "model": "another"}, user=None)
    elsewhere = endpoint_row("elsewhere")
    queued, active, foreign = run_row(), run_row(), run_row()
    Run.objects.filter(pk=queued.pk).update(endpoint=older)
    Run.objects.filter(pk=active.pk).update(endpoint=newer)
    Run.objects.filter(pk=foreign.pk).update(endpoint=elsewhere)
    lifecycle.claim(active.pk, worker="local", identity=Process(), host="host-local")

    assert {run.pk for run in stop(site)} == {queued.pk, active.pk}
    states = {run.pk: (run.state, run.cancel_requested_by_name) for run in Run.objects.all()}
    assert states[queued.pk] == (RunState.CANCELLED, "olga")
    assert states[active.pk][1] == "olga" and states[foreign.pk] == (RunState.QUEUED, "")


def test_nothing_starts_and_nothing_is_tested_until_it_is_allowed_again(site: Site) -> None:
    before = make_preview(**site.choice())
    stop(site)
    with pytest.raises(Blocked) as refused:
        confirm_by_hash(user=site.operator, preview_id=before.pk, spec_sha256=before.spec_sha256)
    assert [check["code"] for check in refused.value.checks] == ["endpoint.stopped"]
    assert [check["code"] for check in make_preview(**site.choice()).blocking] == ["endpoint.stopped"]
    with pytest.raises(CannotTest, match="was stopped by olga") as untested:
        endpoint_testing.request_test(user=site.operator, endpoint=site.endpoint, worker=site.worker)
    assert untested.value.code == "endpoint.stopped"

    assert endpoint_switch.allow(user=person("ada", "admin"), name=site.endpoint.name)
    assert not endpoint_switch.allow(user=person("ada", "admin"), name=site.endpoint.name)
    assert not make_preview(**site.choice()).blocking


def test_both_acts_are_audited_once_and_the_first_reason_stays(site: Site) -> None:
    run = run_row()
    Run.objects.filter(pk=run.pk).update(endpoint=site.endpoint)
    stop(site, "costs too much")
    stop(site, "again")
    endpoint_switch.allow(user=person("ada", "admin"), name=site.endpoint.name)
    entries = AuditEntry.objects.filter(kind__in=["endpoint_stop", "endpoint_allow"]).order_by("id")
    assert [(entry.kind, entry.actor_name, entry.subject, entry.detail) for entry in entries] == [
        ("endpoint_stop", "olga", "scripted", {"reason": "costs too much", "runs": [run.key]}),
        ("endpoint_allow", "ada", "scripted", {}),
    ]


@pytest.mark.parametrize("who", ["viewer", "reviewer"])
def test_others_may_not_stop_it(site: Site, who: str) -> None:
    with pytest.raises(PermissionDenied):
        endpoint_switch.stop(user=person("vera", who), name=site.endpoint.name, reason="because")
    assert not EndpointStop.objects.exists()


def test_an_operator_may_not_allow_it_again(site: Site) -> None:
    stop(site)
    with pytest.raises(PermissionDenied):
        endpoint_switch.allow(user=site.operator, name=site.endpoint.name)
    assert EndpointStop.objects.exists()


@pytest.mark.parametrize("reason", ["", "   ", "a\nb", "x" * 301])
def test_a_reason_is_one_line(site: Site, reason: str) -> None:
    with pytest.raises(BadInput, match=r"^reason: "):
        stop(site, reason)
    assert not EndpointStop.objects.exists()
