"""Every run ends in one order, whatever fails on the way: stop, keep, ingest, remove, judge, say (design 3.10)."""

import errno
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import InterfaceError, OperationalError

from evidence.models import Artifact
from evidence.register import judging
from evidence.suite.provenance import provenance_document
from evidence.suite.run_facts import read_run
from runs.containers import CleanupReport, EngineError
from runs.engine.ending import conclusion
from runs.engine.ending.cleanup import CleanupResult, FencedRun, close
from runs.engine.ending.conclusion import Secrets, conclude
from runs.engine.ending.recovery import retry_cleanup
from runs.engine.host.folder import RunFolder
from runs.engine.trials.processes import launch
from runs.models import Cleanup, Run, RunState
from runs.outcomes.buckets import Verdict
from runs.ownership import Journal
from runs.services import lifecycle, lost_hosts
from runs.services.runlog import read_log
from runs.services.transitions import ResourceState
from tests.evidence.folders import RunCase, passing_run
from tests.evidence.rows import run_of
from tests.runs.rows import Process, again, person, run_row

pytestmark = pytest.mark.django_db(transaction=True)

GONE = EngineError("engine_unreachable", "The engine does not answer.", "private")


class Engine:
    """Stands in for an engine that answers."""

    def ping(self) -> bool:
        return True


class Gateway:
    """Stands in for a running gateway; `fails` says how its end fails."""

    def __init__(self, steps: list[str], fails: Exception | None = None, *, ended: bool = True) -> None:
        self.steps, self.fails, self.ended = steps, fails, ended

    def close(self, *_: Any) -> Any:
        self.steps.append("close the gateway")
        if self.fails:
            raise self.fails
        return type("End", (), {"problem": "", "died": None, "ended": self.ended})()


class Ending:
    """The parts that a conclusion calls, each noting its turn; `break_` makes one fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        self._patch = monkeypatch
        self.closed, self.cleaned = FencedRun(), True
        self._stand_in("close", "fence and stop", lambda *_: self.closed)
        self._stand_in("connect_same", "connect", lambda *_: Engine())
        self._stand_in("keep_interrupted_logs", "keep logs", lambda *_: [])
        self._stand_in("keep_transcript", "keep the transcript", lambda *_: True)
        self._stand_in("keep_ledger", "keep the ledger", lambda *_: None)
        self._stand_in("ingest", "ingest", judging.ingest)
        self._stand_in("remove_all", "remove", lambda *_, **__: self._result())
        self._stand_in("publish", "publish", lambda *_, **__: {"verdict": {"value": "passed"}})
        self.said_at_the_end: list[str] = []
        self._finish = lifecycle.finish
        self._patch.setattr(conclusion.lifecycle, "finish", self._note_finish)

    def _result(self) -> CleanupResult:
        return CleanupResult(self.closed, CleanupReport(()), () if self.cleaned else ("engine_unreachable",))

    def _note_finish(self, run_id: str, **ending: Any) -> bool:
        self.note("finish")
        hit = self._finish(run_id, **ending)
        self.said_at_the_end = [line.text for line in read_log(Run.objects.get(pk=run_id)).lines]
        return hit

    def _stand_in(self, name: str, step: str, work: Callable[..., Any]) -> None:
        def play(*arguments: Any, **named: Any) -> Any:
            self.note(step)
            return work(*arguments, **named)

        self._patch.setattr(judging if name in ("ingest", "publish") else conclusion, name, play)

    def note(self, step: str) -> None:
        self.steps.append(step)

    def break_(self, name: str, step: str, error: Exception) -> None:
        def fail(*_: Any, **__: Any) -> Any:
            raise error

        self._stand_in(name, step, fail)


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> Ending:
    return Ending(monkeypatch)


@pytest.fixture(autouse=True)
def data(settings: Any, tmp_path: Path) -> None:
    settings.DATA = tmp_path / "data"
    settings.MEDIA_ROOT = str(tmp_path / "media")


def active(case: RunCase, tmp_path: Path) -> Run:
    """A run of the case that a worker carries out, with its folder in its place."""
    run, folder = run_of(case, tmp_path)
    shutil.copytree(folder, settings.DATA / "runs" / run.key)
    assert lifecycle.claim(run.pk, worker="local", identity=Process(), host="h")
    return run


ORDER = ["fence and stop", "connect", "keep logs", "close the gateway", "ingest", "remove", "publish", "finish"]


def test_the_end_has_one_order(ending: Ending, tmp_path: Path) -> None:
    """Processes stop before anything is read, and evidence is kept before anything is removed."""
    run = active(passing_run(), tmp_path)
    conclude(run.key, gateway=Gateway(ending.steps))
    assert ending.steps == ORDER
    assert (again(run).state, again(run).verdict, again(run).cleanup) == ("finished", "passed", "clean")


def test_whoever_sees_the_end_finds_it_in_the_log(ending: Ending, tmp_path: Path) -> None:
    """Pages and `logs --follow` ask no more once a run has ended."""
    run = active(passing_run(), tmp_path)
    conclude(run.key, gateway=Gateway(ending.steps))
    assert ending.said_at_the_end[-1] == "Verdict: Passed; cleanup: Clean"
    assert [line.text for line in read_log(again(run)).lines] == ending.said_at_the_end


@pytest.mark.parametrize(
    ("name", "step", "skipped"),
    [
        pytest.param("connect_same", "connect", {"keep logs", "close the gateway"}, id="no engine"),
        pytest.param("keep_interrupted_logs", "keep logs", {"close the gateway"}, id="no logs"),
    ],
)
def test_what_cannot_be_kept_stops_no_removal(
    ending: Ending, tmp_path: Path, name: str, step: str, skipped: set[str]
) -> None:
    run = active(passing_run(), tmp_path)
    ending.break_(name, step, GONE)
    conclude(run.key, gateway=Gateway(ending.steps))
    assert ending.steps == [one for one in ORDER if one not in skipped]
    assert again(run).terminal


@pytest.mark.parametrize("error", [GONE, OSError(errno.ENOSPC, "full")])
def test_a_gateway_that_does_not_end_well_stops_no_removal(ending: Ending, tmp_path: Path, error: Exception) -> None:
    run = active(passing_run(), tmp_path)
    conclude(run.key, gateway=Gateway(ending.steps, error))
    assert ending.steps == ORDER and again(run).terminal


def test_what_was_left_behind_makes_no_pass(ending: Ending, tmp_path: Path) -> None:
    run = active(passing_run(), tmp_path)
    ending.cleaned = False
    conclude(run.key, gateway=Gateway(ending.steps))
    ended = again(run)
    assert (ended.verdict, ended.cleanup, ended.count_passed) == ("error", Cleanup.FAILED, 3)


def test_a_lost_run_keeps_what_was_graded(ending: Ending, tmp_path: Path) -> None:
    case = passing_run()
    case.never_started(2, 3)
    run = active(case, tmp_path)
    conclude(run.key, interrupted=True)
    place = ORDER.index("close the gateway")
    assert ending.steps == [*ORDER[:place], "keep the transcript", "keep the ledger", *ORDER[place + 1 :]]
    ended = again(run)
    assert (ended.state, ended.verdict) == (RunState.INTERRUPTED, Verdict.ERROR)
    assert (ended.count_evaluated, ended.count_error, ended.count_cancelled) == (1, 2, 0)
    codes = list(ended.trials.order_by("ordinal").values_list("failure_code", flat=True))
    assert codes == ["", "worker_runtime.interrupted", "worker_runtime.interrupted"]


def test_concluding_twice_changes_nothing(ending: Ending, tmp_path: Path) -> None:
    run = active(passing_run(), tmp_path)
    conclude(run.key, gateway=Gateway(ending.steps))
    first = again(run)
    ending.steps.clear()
    conclude(run.key)
    assert "ingest" not in ending.steps and "finish" not in ending.steps and "remove" in ending.steps
    assert (again(run).verdict, again(run).ended_at) == (first.verdict, first.ended_at)


def test_a_run_without_a_folder_ends_with_what_it_knew(ending: Ending) -> None:
    run = run_row()
    lifecycle.claim(run.pk, worker="local", identity=Process(), host="h")
    why = {"stage": "preflight", "class": "worker_runtime", "code": "worker_runtime.disk_full", "detail": "private"}
    conclude(run.key, secrets=Secrets(failure=why))
    ended = again(run)
    assert (ended.state, ended.verdict, ended.cleanup) == ("failed", "error", "clean")
    assert (ended.failure_code, ended.count_error) == ("worker_runtime.disk_full", 3)
    assert ending.steps == ["finish"]


def test_a_cancelled_run_without_a_folder_is_cancelled(ending: Ending) -> None:
    run = run_row()
    lifecycle.claim(run.pk, worker="local", identity=Process(), host="h")
    lifecycle.request_cancel(run.pk, user=None)
    conclude(run.key)
    assert (again(run).state, again(run).verdict, again(run).count_cancelled) == ("cancelled", "cancelled", 3)


def test_a_lost_runs_evidence_is_scrubbed_of_the_credential_that_its_endpoint_names(
    ending: Ending, tmp_path: Path
) -> None:
    """The process that knew the secrets is gone; the credential is read again."""
    key = tmp_path / "key"
    key.write_text("sk-sentinel-of-a-lost-run\n")
    case = passing_run()
    case.spec["endpoint"]["credential"] = {"kind": "file", "name": str(key)}
    run = active(case, tmp_path)
    log = settings.DATA / "runs" / run.key / "trials" / "1" / "harbor.log"
    log.write_text("said sk-sentinel-of-a-lost-run")
    conclude(run.key, interrupted=True)
    assert "sentinel" not in log.read_text()


@pytest.mark.parametrize("named", ["env", "file"])
def test_what_a_lost_runs_evidence_cannot_be_scrubbed_of_is_said(ending: Ending, tmp_path: Path, named: str) -> None:
    case = passing_run()
    name = "BENCHSITE_TEST_NOWHERE" if named == "env" else str(tmp_path / "gone")
    case.spec["endpoint"]["credential"] = {"kind": named, "name": name}
    run = active(case, tmp_path)
    conclude(run.key, interrupted=True)
    facts = RunFolder.of(settings.DATA, run.key).read_facts()
    tokens, credential = facts["unscrubbed"]
    assert "tokens" in tokens and "credential.missing" in credential
    said = [line for line in ending.said_at_the_end if tokens in line and credential in line]
    assert len(said) == 1
    assert provenance_document(read_run(RunFolder.of(settings.DATA, run.key).path), {})["observed"]["unscrubbed"] == [
        tokens, credential,
    ]  # fmt: skip


def test_a_key_that_is_a_word_of_the_run_is_not_looked_for_and_that_is_said(ending: Ending, tmp_path: Path) -> None:
    """Attack 6f"""
    run = active(passing_run(), tmp_path)
    secrets = Secrets()
    secrets.add_credential("ollama", RunFolder.of(settings.DATA, run.key))
    assert secrets.values == []
    conclude(run.key, secrets=secrets, gateway=Gateway(ending.steps))
    assert RunFolder.of(settings.DATA, run.key).read_facts()["unscrubbed"] == secrets.unresolved != []
    assert len([line for line in ending.said_at_the_end if secrets.unresolved[0] in line]) == 1
    assert again(run).verdict == "passed"


def test_of_a_run_that_ended_by_itself_everything_was_known(ending: Ending, tmp_path: Path) -> None:
    run = active(passing_run(), tmp_path)
    conclude(run.key, secrets=Secrets(), gateway=Gateway(ending.steps))
    assert "unscrubbed" not in RunFolder.of(settings.DATA, run.key).read_facts()
    assert not any("could not be searched" in line for line in ending.said_at_the_end)


@pytest.mark.parametrize("known", [True, False])
def test_what_returns_after_its_host_was_lost_is_scrubbed_of_what_is_known_again(
    ending: Ending, tmp_path: Path, known: bool
) -> None:
    """Its run ended meanwhile, so only the cleanup that is tried again finds its evidence."""
    key = tmp_path / "key"
    if known:
        key.write_text("sk-sentinel-of-a-lost-host\n")
    case = passing_run()
    case.spec["endpoint"]["credential"] = {"kind": "file", "name": str(key)}
    run = active(case, tmp_path)
    log = settings.DATA / "runs" / run.key / "trials" / "1" / "harbor.log"
    log.write_text("said sk-sentinel-of-a-lost-host")
    lost_hosts.declare_host_lost(user=person("ada", "admin"), worker=run.worker)
    for _ in range(2):
        ending.cleaned = False
        assert retry_cleanup(run.key) is Cleanup.FAILED
    stored = Artifact.objects.get(run=run, path="trials/1/harbor.log")
    assert ("sentinel" in log.read_text()) is not known
    assert (stored.state, stored.sha256) == ("ok", hashlib.sha256(log.read_bytes()).hexdigest())
    unscrubbed = RunFolder.of(settings.DATA, run.key).read_facts()["unscrubbed"]
    said = [line.text for line in read_log(again(run)).lines if "could not be searched" in line.text]
    assert len(said) == 1 and all(text in said[0] for text in unscrubbed)
    assert any("credential.missing" in text for text in unscrubbed) is not known


def test_a_fence_that_cannot_be_written_leaves_no_process_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.create(tmp_path / "run", run_id="0" * 32)
    with (tmp_path / "log").open("wb") as output:
        child = launch(
            ["/bin/sleep", "60"], owner=journal.read().owner, environment={}, directory=tmp_path, output=output
        )
    journal.record_process(child.identity, trial=1)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Journal, "fence", full)
    closed = close(journal, "ended")
    assert closed.problems == ("os_OSError",) and not closed.clean
    assert [report.outcome.gone for report in closed.stopped] == [True]
    assert child.process.wait(5) != 0


def test_facts_that_cannot_be_written_now_keep_nothing_alive(ending: Ending, tmp_path: Path) -> None:
    """A full disk, say: the run is concluded by recovery, as interrupted, and never passes."""
    run = active(passing_run(), tmp_path)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(OSError):
        patch.setattr(RunFolder, "update_facts", _full_disk)
        conclude(run.key, gateway=Gateway(ending.steps))
    assert ending.steps[-1] == "remove" and not again(run).terminal
    conclude(run.key, interrupted=True)
    ended = again(run)
    assert (ended.state, ended.verdict, ended.count_passed) == (RunState.INTERRUPTED, Verdict.ERROR, 3)


@pytest.mark.parametrize("error", [OperationalError("database or disk is full"), InterfaceError("closed")])
def test_without_a_database_what_runs_is_stopped_all_the_same(ending: Ending, tmp_path: Path, error: Exception) -> None:
    """A data folder that became read-only, or a database that stays away: recovery concludes the run later."""
    run = active(passing_run(), tmp_path)

    def failing(*_: Any, **__: Any) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch, pytest.raises(type(error)):
        patch.setattr(conclusion.lifecycle, "enter_stage", failing)
        conclude(run.key, gateway=Gateway(ending.steps))
    assert ending.steps == ["fence and stop", "connect", "keep logs", "close the gateway"] and not again(run).terminal
    conclude(run.key, interrupted=True)
    assert (again(run).state, again(run).verdict) == (RunState.INTERRUPTED, Verdict.ERROR)


def _full_disk(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_ledger_whose_end_a_dead_engine_kept_is_not_called_tampered_with(ending: Ending, tmp_path: Path) -> None:
    """The engine died before the gateway's closing line was read: the trials are judged by what was written."""
    case = passing_run()
    case.ledger.pop()
    run = active(case, tmp_path)
    ending.break_("connect_same", "connect", GONE)
    ending.cleaned = False
    conclude(run.key, gateway=Gateway(ending.steps))
    ended = again(run)
    assert set(ended.trials.values_list("failure_code", flat=True)) == {""}
    assert (ended.verdict, ended.cleanup) == (Verdict.ERROR, Cleanup.FAILED)


def test_a_ledger_without_its_end_is_believed_of_no_run_whose_engine_answered(ending: Ending, tmp_path: Path) -> None:
    case = passing_run()
    case.ledger.pop()
    run = active(case, tmp_path)
    conclude(run.key, gateway=Gateway(ending.steps))
    codes = set(again(run).trials.values_list("failure_code", flat=True))
    assert codes == {"integrity.ledger_broken"}


def test_evidence_that_cannot_be_kept_now_keeps_nothing_alive(ending: Ending, tmp_path: Path) -> None:
    """A full storage, say: recovery tries again, but the run's containers do not wait for that."""
    run = active(passing_run(), tmp_path)
    ending.break_("ingest", "ingest", OSError(errno.ENOSPC, "full"))
    with pytest.raises(OSError):
        conclude(run.key)
    assert ending.steps[-2:] == ["ingest", "remove"]
    assert again(run).state not in ("finished", "failed", "interrupted")


@pytest.mark.parametrize("ended", [True, False])
def test_a_gateway_that_was_too_slow_to_end_is_no_broken_ledger(ending: Ending, tmp_path: Path, ended: bool) -> None:
    """A busy host: it was told to end, and its last line came after the bound."""
    case = passing_run()
    case.ledger.pop()
    run = active(case, tmp_path)
    conclude(run.key, secrets=Secrets(), gateway=Gateway(ending.steps, ended=ended))
    assert RunFolder.of(settings.DATA, run.key).read_facts()["gateway"]["closed"] is ended
    assert again(run).verdict == ("error" if ended else "passed")


@pytest.mark.parametrize("content", [b"", b"null", b'{"schema": "other"}', b'{"gar'])
@pytest.mark.parametrize("lost", [True, False])
def test_a_run_whose_own_record_is_damaged_ends_and_never_passes(
    ending: Ending, tmp_path: Path, content: bytes, lost: bool
) -> None:
    """It would be concluded again for ever otherwise, keep its host busy, and leave its containers running."""
    run = active(passing_run(), tmp_path)
    record = RunFolder.of(settings.DATA, run.key).facts
    record.write_bytes(content)
    conclude(run.key, interrupted=lost)
    ended = again(run)
    assert "remove" in ending.steps and record.read_bytes() == content
    assert (ended.state, ended.verdict) == (RunState.INTERRUPTED if lost else RunState.FINISHED, Verdict.ERROR)
    assert ended.count_passed == 0 and ended.count_error == ended.count_requested


def test_a_run_whose_own_record_is_gone_is_cleaned_by_its_journal(ending: Ending, tmp_path: Path) -> None:
    run = active(passing_run(), tmp_path)
    RunFolder.of(settings.DATA, run.key).facts.unlink()
    ending.cleaned = False
    conclude(run.key, interrupted=True)
    ended = again(run)
    assert "fence and stop" in ending.steps and "remove" in ending.steps
    assert (ended.state, ended.verdict, ended.cleanup) == (RunState.INTERRUPTED, Verdict.ERROR, Cleanup.FAILED)


@pytest.mark.parametrize("interrupted", [True, False])
def test_a_run_whose_folder_is_gone_says_what_to_look_for(ending: Ending, tmp_path: Path, interrupted: bool) -> None:
    """What it owned is known from its row only, which is no permission to remove anything; and it had begun."""
    run = active(passing_run(), tmp_path)
    shutil.rmtree(settings.DATA / "runs" / run.key)
    owned = ResourceState(nonce="a" * 32, kind="container", role="agent", stage="started", resource_id="b" * 64)
    lifecycle.mirror_journal(run.key, [owned])
    conclude(run.key, interrupted=interrupted)
    ended = again(run)
    assert (ended.verdict, ended.cleanup) == (Verdict.ERROR, Cleanup.FAILED)
    assert set(ended.trials.values_list("failure_code", flat=True)) == {"worker_runtime.interrupted"}
    assert f"label benchsite.run={run.key}" in ended.log_lines.get().text


@pytest.mark.parametrize("folders", [(), (1,), (1, 2, 3), (1, 7)])
@pytest.mark.parametrize("spec", [b"", b"{}", b'{"schema":"benchsite.run-spec/v1"}'])
def test_a_run_whose_spec_was_damaged_ends_with_every_trial_an_error(
    ending: Ending, tmp_path: Path, spec: bytes, folders: tuple[int, ...]
) -> None:
    run = active(passing_run(), tmp_path)
    folder = RunFolder.of(settings.DATA, run.key)
    (folder.path / "spec.json").write_bytes(spec)
    for number in range(1, 8):
        place = folder.path / "trials" / str(number)
        if number in folders:
            place.mkdir(exist_ok=True)
        elif place.exists():
            shutil.rmtree(place)
    conclude(run.key)
    ended = again(run)
    assert (ended.verdict, ended.count_error) == (Verdict.ERROR, ended.count_requested)
    assert {trial.failure_code for trial in ended.trials.all()} == {"integrity.spec_unreadable"}
