"""`start --wait` and its kin as a CI job sees them: the last line, the reports, what is refused beforehand."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from redis.exceptions import ConnectionError

from runs.management.commands import start
from runs.management.waiting import Interrupts
from runs.models import Cleanup, Run, RunState
from runs.outcomes.buckets import Bucket, Verdict
from runs.services import lifecycle, queue, runlog, transitions
from tests.commands.calling import command
from tests.runs.rows import FAILED, PASSED, Process, run_row
from tests.runs.sites import Site, ready_site

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "put", lambda run_id, worker, limit_s: None)


@pytest.fixture
def site() -> Site:
    return ready_site()


def end(run: Run, *ends: transitions.TrialEnd, verdict: Verdict = Verdict.PASSED) -> Run:
    lifecycle.claim(run.pk, worker="local", identity=Process(), host="h")
    for ordinal, trial in enumerate(ends, 1):
        lifecycle.record_trial(run.pk, ordinal, trial)
    lifecycle.finish(run.pk, state=RunState.FINISHED, verdict=verdict, cleanup=Cleanup.CLEAN)
    return Run.objects.get(pk=run.pk)


@pytest.fixture
def ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for: a started run passes as soon as it is followed."""

    def follow(run: Run, **_: Any) -> Run:
        return end(run, *[PASSED] * run.count_requested)

    monkeypatch.setattr(start, "follow", follow)


@pytest.mark.usefixtures("site", "ends_at_once")
class TestStart:
    def test_its_last_lines_are_the_coverage_and_the_count_strip(self) -> None:
        result = command("start", "--endpoint", "scripted", "--wait")
        assert result.code == 0
        assert result.out.splitlines()[-2:] == [
            "Passed: 3 of 3 · Graded: 3 of 3",
            "3 requested = 3 graded (3 passed + 0 failed) + 0 error + 0 cancelled",
        ]

    def test_it_writes_both_reports(self, tmp_path: Path) -> None:
        files = ["--junit", str(tmp_path / "j.xml"), "--summary", str(tmp_path / "s.md")]
        assert command("start", "--endpoint", "scripted", "--wait", *files).code == 0
        assert ElementTree.parse(tmp_path / "j.xml").getroot().get("tests") == "3"
        assert "Passed: 3 of 3" in (tmp_path / "s.md").read_text()

    def test_a_report_that_cannot_be_written_later_changes_no_verdict_but_is_no_success(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", full)
        result = command("start", "--endpoint", "scripted", "--wait", "--json", "--junit", str(tmp_path / "j.xml"))
        assert (result.code, result.json["verdict"]) == (4, "passed")
        assert "could not be written: No space left" in result.err


@pytest.mark.usefixtures("site")
class TestRefusedBeforeTheStart:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--junit", "x.xml"], "add --wait"),
            (["--summary", "x.md"], "add --wait"),
            (["--wait", "--junit", "/nonexistent/x.xml"], "no folder there"),
            (["--wait", "--summary", ""], "no folder there"),
        ],
    )
    def test_reports_that_could_not_be_written(self, arguments: list[str], said: str) -> None:
        result = command("start", "--endpoint", "scripted", *arguments)
        assert result.code == 2 and said in result.err and not Run.objects.exists()

    def test_an_interrupt_before_the_start_starts_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Interrupts, "received", property(lambda _: True))
        result = command("start", "--endpoint", "scripted", "--wait", "--json")
        assert (result.code, result.json["code"]) == (4, "command.interrupted")
        assert "nothing was started" in result.err and not Run.objects.exists()


class TestStatus:
    def test_reports_of_a_run_are_written_again_at_any_time(self, tmp_path: Path) -> None:
        run = end(run_row(), PASSED, FAILED, PASSED, verdict=Verdict.FAILED)
        assert command("status", run.key, "--junit", str(tmp_path / "j.xml")).code == 1
        assert ElementTree.parse(tmp_path / "j.xml").getroot().get("failures") == "1"

    def test_a_report_of_a_run_that_has_not_ended_shows_no_pass(self, tmp_path: Path) -> None:
        assert command("status", run_row().key, "--junit", str(tmp_path / "j.xml")).code == 0
        root = ElementTree.parse(tmp_path / "j.xml").getroot()
        assert (root.get("tests"), root.get("errors")) == ("3", "3")

    def test_a_list_has_no_report(self, tmp_path: Path) -> None:
        assert command("status", "--junit", str(tmp_path / "j.xml")).code == 2

    def test_on_a_terminal_a_list_is_narrow_and_an_empty_one_says_how_to_start(self) -> None:
        assert "There is no run yet" in command("status", terminal=True).out
        run = end(run_row(), PASSED, FAILED, PASSED, verdict=Verdict.FAILED)
        told = command("status", terminal=True).out
        assert run.key[:8] in told and run.key not in told and "2 passed" in told

    def test_in_80_columns_each_run_takes_one_line_and_a_failed_cleanup_is_said(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TERM", "dumb")  # 80 columns, no sequences
        run_row()
        left = end(run_row(), PASSED, PASSED, PASSED, verdict=Verdict.ERROR)
        Run.objects.filter(pk=left.pk).update(cleanup=Cleanup.FAILED)
        lines = command("status", terminal=True).out.splitlines()
        assert [line.split()[1] for line in lines] == ["result", "error,", "queued"]
        assert "cleanup failed" in lines[1] and "3 passed of 3" in lines[1] and max(map(len, lines)) <= 80

    def test_a_reward_that_does_not_count_is_shown_nowhere_as_a_grade(self, tmp_path: Path) -> None:
        seen = transitions.TrialEnd(
            bucket=Bucket.ERROR,
            reward=0,
            failure_class="worker_runtime",
            failure_code="worker_runtime.transfer_refused",
        )
        run, summary = end(run_row(), PASSED, FAILED, seen, verdict=Verdict.ERROR), tmp_path / "s.md"
        rows = [line.split("\t") for line in command("status", run.key).out.splitlines()[1:4]]
        assert [row[4] for row in rows] == ["1", "0", "not graded"]
        told = command("status", run.key, "--json", "--summary", str(summary)).json
        assert [trial["reward"] for trial in told["trials"]] == [1, 0, None]
        assert summary.read_text().count("not graded") >= 1

    def test_an_unknown_run_is_told_where_to_look(self) -> None:
        assert "The newest ones: manage.py status" in command("status", "0" * 32).err


class TestLogs:
    def test_following_an_ended_run_shows_all_of_it_however_small_the_windows(self) -> None:
        run = run_row()
        lines = [runlog.Line(source="engine", text=f"line {n}", at=run.created_at) for n in range(25)]
        runlog.append_log(run.pk, lines)
        lifecycle.request_cancel(run.pk, user=None)
        told = command("logs", run.key, "--follow", "--limit", "2").out.splitlines()
        assert [line.rpartition(" ")[2] for line in told] == [str(n) for n in range(25)]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("words", [[], ["--wait"]])
def test_a_connection_test_that_no_queue_took_was_not_made(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    def away(*_: Any) -> None:
        raise ConnectionError("refused")

    monkeypatch.setattr(queue, "put_endpoint_test", away)
    ready_site()
    result = command("endpoint", "test", "scripted", "--json", *words)
    assert (result.code, result.json["outcome"]) == (4, "not_made")
    assert result.json["failure"]["code"] == "endpoint_test.no_queue"
