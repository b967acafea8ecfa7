"""An engine goes on creating after its client died: recovery looks again, also after a clean end (design 4)."""

import pytest
from django.conf import settings

from runs.engine.ending.recovery import recover
from runs.engine.host.folder import RunFolder
from runs.models import Cleanup, Run, RunState
from runs.outcomes.buckets import Verdict
from runs.ownership import Intent, Journal, Outcome, Role
from runs.services import lifecycle
from tests.ownership.fake_engine import FakeEngine
from tests.runs.rows import PASSED, Process, run_row

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("real_queue")]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    engine = FakeEngine()
    monkeypatch.setattr("runs.engine.host.same_engine.connect", lambda *_: engine)
    monkeypatch.setattr("runs.engine.ending.recovery.connect", lambda *_: engine)
    return engine


def ended_clean() -> tuple[Run, Journal, Intent]:
    """A run that ended clean, one of whose intents was looked for and not found."""
    run = run_row(worker="local")
    lifecycle.claim(run.pk, worker="local", identity=Process(), host=settings.WORKER_HOST)
    for ordinal in (1, 2, 3):
        lifecycle.record_trial(run.pk, ordinal, PASSED)
    lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=Verdict.PASSED, cleanup=Cleanup.CLEAN)
    folder = RunFolder.of(settings.DATA, run.key)
    folder.create()
    journal = Journal.create(folder.path, run_id=run.key)
    intent = journal.intend(Role.AGENT, trial=1)
    journal.record_outcome(intent.nonce, Outcome.ABSENT)
    return Run.objects.get(pk=run.pk), journal, intent


def test_what_appeared_after_a_clean_end_is_removed_by_the_timer(engine: FakeEngine) -> None:
    run, journal, intent = ended_clean()
    late = engine.place("container", intent.labels)
    assert recover("local").clean
    assert late in engine.removed
    assert journal.read().resource(intent.nonce).resource_id == late
    assert Run.objects.get(pk=run.pk).verdict == Verdict.PASSED


def test_a_journal_that_is_settled_is_not_looked_at_again(engine: FakeEngine) -> None:
    intent = ended_clean()[2]
    engine.place("container", intent.labels)
    recover("local")
    engine.calls.clear()
    recover("local")
    assert engine.calls == []


def test_a_forgotten_probe_of_the_worker_goes_at_its_start(engine: FakeEngine) -> None:
    directory = settings.DATA / "maintenance" / "local"
    directory.mkdir(parents=True)
    journal = Journal.create(directory, run_id="maintenance-local")
    left = engine.place("container", journal.intend(Role.PROBE).labels)
    assert recover("local", every_folder=True).clean
    assert engine.removed == [left]


def test_what_a_killed_command_left_goes_while_the_worker_lives(engine: FakeEngine) -> None:
    """A certification that was killed, say: its container must not wait for the worker's next start."""
    directory = settings.DATA / "maintenance" / "certification"
    directory.mkdir(parents=True)
    journal = Journal.create(directory, run_id="maintenance-certification")
    left = engine.place("container", journal.intend(Role.VERIFIER).labels)
    abandoned = settings.DATA / "scratch" / "certify-left"
    abandoned.mkdir(parents=True)
    assert recover("local").clean
    assert engine.removed == [left] and not abandoned.exists()
