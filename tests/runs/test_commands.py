"""Commands as CI uses them: exit codes, one JSON document, plain lines in a pipe, errors on stderr."""

import io
import json
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from benchsite.lib.serializing import Exit
from runs.engine import worker
from runs.management.escaping import escape_for_terminal
from runs.management.printing import Printer
from runs.models import Cleanup, Preview, Run, RunState, Worker
from runs.outcomes.buckets import Bucket, Verdict
from runs.serializers.errors import exit_of_run
from runs.services import lifecycle, queue, runlog, transitions
from runs.services.access import find_run
from runs.services.refusals import BadInput
from tests.commands.calling import command
from tests.runs.rows import ERROR, FAILED, PASSED, Process, person, run_row
from tests.runs.sites import SHARED_UID, Site, ready_site, report

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def put(monkeypatch) -> list[Any]:
    jobs: list[Any] = []
    monkeypatch.setattr(queue, "put", lambda run_id, worker, limit_s: jobs.append(run_id))
    monkeypatch.setattr(queue, "put_cleanup", lambda run_id, worker: jobs.append(run_id))
    return jobs


@pytest.fixture
def site() -> Site:
    return ready_site()


def ended(
    *ends: transitions.TrialEnd, state=RunState.FINISHED, verdict=Verdict.PASSED, cleanup=Cleanup.CLEAN, host="h"
) -> Run:
    run = run_row()
    lifecycle.claim(run.pk, worker="local", identity=Process(), host=host)
    for ordinal, end in enumerate(ends, 1):
        lifecycle.record_trial(run.pk, ordinal, end)
    if verdict is Verdict.CANCELLED:
        lifecycle.request_cancel(run.pk, user=None)
        lifecycle.close_trials(run.pk, bucket=Bucket.CANCELLED)
    lifecycle.finish(run.pk, state=state, verdict=verdict, cleanup=cleanup)
    return Run.objects.get(pk=run.pk)


class TestExitCodes:
    @pytest.mark.parametrize(
        ("code", "ending"),
        [
            (0, {"ends": (PASSED, PASSED, PASSED)}),
            (1, {"ends": (PASSED, PASSED, FAILED), "verdict": Verdict.FAILED}),
            (4, {"ends": (PASSED, PASSED, ERROR), "verdict": Verdict.ERROR}),
            (4, {"ends": (PASSED, PASSED, ERROR), "verdict": Verdict.INCOMPLETE}),
            (5, {"ends": (PASSED,), "state": RunState.CANCELLED, "verdict": Verdict.CANCELLED}),
            (6, {"ends": (PASSED, PASSED, PASSED), "verdict": Verdict.ERROR, "cleanup": Cleanup.FAILED}),
            (6, {"ends": (PASSED, PASSED, FAILED), "verdict": Verdict.FAILED, "cleanup": Cleanup.FAILED}),
        ],
    )
    def test_status_exits_by_the_verdict(self, code, ending):
        run = ended(*ending.pop("ends"), **ending)
        assert exit_of_run(run) == code
        result = command("status", run.key)
        assert result.code == code and result.err == ""
        assert f"verdict {run.verdict}, cleanup {run.cleanup}" in result.out

    def test_a_run_that_has_not_ended_is_no_failure(self):
        result = command("status", run_row().key)
        assert result.code == Exit.DONE and "queued" in result.out


class TestStart:
    def test_it_previews_confirms_and_prints_the_run(self, site, put, django_capture_on_commit_callbacks):
        with django_capture_on_commit_callbacks(execute=True):
            result = command("start", "--endpoint", "scripted", "--json")
        run = Run.objects.get()
        assert result.code == 0 and put == [run.pk]
        assert (result.json["schema"], result.json["run"], result.json["state"]) == (
            "benchsite.run/v1", run.key, "queued",
        )  # fmt: skip
        assert run.created_by_name == "cli"

    def test_narrowing_and_user_are_passed_on(self, site):
        result = command(
            "start", "--endpoint", "scripted", "--task", "file-tree", "--max-steps", "3", "--user", "olga", "--json"
        )
        run = Run.objects.get()
        assert [trial["task"] for trial in result.json["trials"]] == ["file-tree"]
        assert json.loads(run.spec)["controls"]["max_steps"] == 3 and run.created_by_name == "olga"

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            (["--endpoint", "nonesuch"], "input.unknown_endpoint"),
            ([], "input.unknown_endpoint"),
            (["--endpoint", "scripted", "--profile", "nonesuch"], "input.unknown_profile"),
            (["--endpoint", "scripted", "--worker", "nonesuch"], "input.unknown_worker"),
            (["--endpoint", "scripted", "--task", "nonesuch"], "spec.task_not_in_profile"),
            (["--endpoint", "scripted", "--user", "nonesuch"], "input.unknown_user"),
            (["--endpoint", "scripted", "--max-steps", "99"], "spec.wider_than_profile"),
            (["--preview", "0" * 32, "--spec-sha256", "0" * 64], "preview.unknown"),
            (["--preview", "0" * 32], "input.bad"),
        ],
    )
    def test_bad_input_exits_2_and_starts_nothing(self, site, arguments, code):
        result = command("start", *arguments, "--json")
        assert result.code == 2
        assert (result.json["schema"], result.json["code"]) == ("benchsite.error/v1", code)
        assert len(result.err.splitlines()) == 1 and result.err.strip() == result.json["sentence"]
        assert Run.objects.count() == 0

    def test_a_name_that_is_unknown_is_told_with_those_that_are_known(self, site):
        result = command("start", "--endpoint", "nonesuch")
        assert "known here: scripted" in result.err and result.out == ""

    def test_a_blocked_start_exits_3_with_its_checks(self, site):
        report(limits=[])
        result = command("start", "--endpoint", "scripted", "--json")
        assert result.code == 3 and result.json["code"] == "preview.blocked"
        assert all(check["remedy"] for check in result.json["checks"])
        assert Run.objects.count() == 0

    def test_what_cannot_be_enforced_is_accepted_by_name(self, site):
        report(sandbox=SHARED_UID)
        assert command("start", "--endpoint", "scripted").code == 3
        assert command("start", "--endpoint", "scripted", "--accept", "limit harness_uid").code == 0

    def test_an_earlier_preview_is_confirmed_by_its_hash(self, site):
        shown = command("preview", "--endpoint", "scripted", "--json").json
        result = command("start", "--preview", shown["preview"], "--spec-sha256", shown["spec_sha256"], "--json")
        assert result.code == 0 and result.json["spec_sha256"] == shown["spec_sha256"]
        wrong = command("start", "--preview", shown["preview"], "--spec-sha256", "0" * 64, "--json")
        assert (wrong.code, wrong.json["code"]) == (2, "preview.bad_token")

    def test_a_viewer_starts_nothing(self, site):
        person("vera", "viewer")
        result = command("start", "--endpoint", "scripted", "--user", "vera", "--json")
        assert (result.code, result.json["code"]) == (2, "access.refused")


class TestPreview:
    def test_it_shows_the_spec_and_starts_nothing(self, site):
        result = command("preview", "--endpoint", "scripted", "--json")
        assert result.code == 0
        assert result.json["spec"]["schema"] == "benchsite.run-spec/v1" and not result.json["blocked"]
        assert Run.objects.count() == 0 and Preview.objects.count() == 1

    def test_a_blocked_preview_exits_3_and_says_which_checks(self, site):
        report(engine=None, engine_problem={"code": "engine.unreachable", "sentence": "No answer."}, limits=[])
        result = command("preview", "--endpoint", "scripted")
        assert result.code == 3
        assert "block\tengine\tengine.unreachable\tNo answer. Start the engine" in result.out

    def test_cli_and_python_give_the_same_bytes(self, site):
        from runs.services.previewing import make_preview

        shown = command("preview", "--endpoint", "scripted", "--json").json
        assert shown["spec_sha256"] == make_preview(**site.choice()).spec_sha256


class TestCancel:
    def test_a_queued_run_is_cancelled_and_twice_is_harmless(self):
        run = run_row()
        first = command("cancel", run.key, "--wait", "--json")
        assert (first.code, first.json["outcome"], first.json["state"]) == (5, "cancelled", "cancelled")
        second = command("cancel", run.key)
        assert second.code == 0 and "nothing is left to stop" in second.out

    def test_an_active_run_is_flagged(self):
        run = run_row()
        lifecycle.claim(run.pk, worker="local", identity=Process(), host="h")
        assert command("cancel", run.key[:8], "--json").json["outcome"] == "requested"
        assert lifecycle.cancel_requested_at(run.pk) is not None

    def test_a_viewer_cancels_nothing(self):
        person("vera", "viewer")
        run = run_row()
        assert command("cancel", run.key, "--user", "vera").code == 2
        assert Run.objects.get().state == RunState.QUEUED


class TestStatus:
    def test_a_list_is_one_line_a_run_in_a_pipe(self):
        runs = [run_row(), run_row()]
        lines = command("status").out.splitlines()
        assert [line.split("\t")[0] for line in lines] == [run.key for run in reversed(runs)]

    def test_the_list_takes_a_fixed_number_of_queries(self, django_assert_max_num_queries):
        for _ in range(5):
            run_row()
        command("status", "--json")
        with django_assert_max_num_queries(8):
            assert len(command("status", "--json").json["runs"]) == 5

    @pytest.mark.parametrize("key", ["r1", "0" * 32, "../../etc", "g" * 32, "1234567"])
    def test_a_bad_id_exits_2(self, key):
        result = command("status", key)
        assert result.code == 2 and key in result.err

    @pytest.mark.parametrize("limit", ["0", "-1", "201"])
    def test_a_limit_beyond_its_bounds_exits_2(self, limit):
        assert command("status", "--limit", limit).code == 2

    def test_an_id_may_be_shortened_while_it_is_unique(self):
        run = run_row()
        assert find_run(run.key[:8]) == run and find_run(str(run.pk)) == run
        run_row(id=run.key[:8] + ("0" * 24 if run.key[8] != "0" else "1" * 24))
        with pytest.raises(BadInput):
            find_run(run.key[:8])

    def test_owned_ids_are_for_operators(self):
        run = ended(PASSED, PASSED, PASSED)
        person("vera", "viewer")
        assert "owned" in command("status", run.key, "--json").json
        assert "owned" not in command("status", run.key, "--user", "vera", "--json").json


class TestLogs:
    def filled(self) -> Run:
        run = run_row()
        at = timezone.now().replace(hour=9, minute=5, second=1)
        texts = ["one", "two\x1b[31m", "three"]
        runlog.append_log(run.pk, [runlog.Line(source="engine", text=text, at=at) for text in texts])
        return run

    def test_a_window_and_the_next_cursor(self):
        document = command("logs", self.filled().key, "--cursor", "1", "--limit", "1", "--json").json
        assert [line["text"] for line in document["lines"]] == ["two\x1b[31m"] and document["next_cursor"] == 2

    def test_lines_cannot_steer_a_terminal(self):
        assert command("logs", self.filled().key).out.splitlines()[1] == "09:05:01 engine two\\x1b[31m"

    def test_following_ends_with_the_run(self):
        run = self.filled()
        lifecycle.request_cancel(run.pk, user=None)
        assert len(command("logs", run.key, "--follow").out.splitlines()) == 3

    @pytest.mark.parametrize(
        "arguments", [["--limit", "0"], ["--limit", "1001"], ["--cursor", "-1"], ["--follow", "--json"]]
    )
    def test_bad_windows_exit_2(self, arguments):
        assert command("logs", self.filled().key, *arguments).code == 2

    def test_a_viewer_reads_none(self):
        person("vera", "viewer")
        assert command("logs", self.filled().key, "--user", "vera").code == 2


DECLARE = ["--user", "ada", "--declare-resolved"]


class TestCleanup:
    def test_on_another_host_the_worker_is_asked(self, put, django_capture_on_commit_callbacks):
        run = ended(PASSED, PASSED, PASSED, verdict=Verdict.ERROR, cleanup=Cleanup.FAILED, host="elsewhere")
        with django_capture_on_commit_callbacks(execute=True):
            result = command("cleanup", run.key)
        assert result.code == 0 and put == [run.pk] and "was asked" in result.out

    def test_on_its_own_host_it_is_done_at_once(self):
        run = ended(PASSED, PASSED, PASSED, verdict=Verdict.ERROR, cleanup=Cleanup.FAILED, host=settings.WORKER_HOST)
        result = command("cleanup", run.key, "--json")
        assert (result.code, result.json["cleanup"], result.json["verdict"]) == (0, "clean", "error")

    def test_a_run_that_has_not_ended_is_refused(self):
        assert command("cleanup", run_row().key).code == 2

    def failed(self):
        person("ada", "admin")
        return ended(PASSED, PASSED, PASSED, verdict=Verdict.ERROR, cleanup=Cleanup.FAILED, host="elsewhere")

    def test_a_declaration_says_that_nothing_was_verified_and_exits_0(self):
        run = self.failed()
        result = command("cleanup", run.key, *DECLARE, "--reason", "the host is scrap")
        assert result.code == 0 and "declared resolved, not verified; verdict error unchanged" in result.out
        assert command("status", run.key, "--json").json["cleanup"] == "declared"

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [(DECLARE, "cleanup.no_reason"), (["--reason", "why"], "input.reason_alone")],
    )
    def test_a_declaration_needs_its_reason_and_a_reason_its_declaration(self, arguments, code):
        result = command("cleanup", self.failed().key, *arguments, "--json")
        assert (result.code, result.json["code"]) == (2, code)

    def test_the_local_operator_declares_nothing(self):
        run = self.failed()
        result = command("cleanup", run.key, "--declare-resolved", "--reason", "why", "--json")
        assert (result.code, result.json["code"]) == (2, "access.refused")

    def test_a_declaration_that_is_not_due_exits_3(self):
        run = self.failed()
        run.worker.host, run.worker.pid, run.worker.heartbeat_at = "elsewhere", 5, timezone.now()
        run.worker.save()
        result = command("cleanup", run.key, *DECLARE, "--reason", "why", "--json")
        assert (result.code, result.json["code"]) == (3, "cleanup.declare_there")


class TestWorker:
    def test_it_claims_runs_under_the_name_it_is_given(self, settings, monkeypatch):
        settings.WORKER_NAME = "local"  # put back when the test ends
        served = []
        monkeypatch.setattr(worker, "serve", lambda name, **_: served.append((name, settings.WORKER_NAME)))
        assert command("worker", "--name", "second").code == 0
        assert served == [("second", "second")]

    @pytest.mark.parametrize("name", ["", "bad name", "../up", "a" * 65])
    @pytest.mark.parametrize("how", [[], ["--report"]])
    def test_a_name_that_is_none_registers_no_worker(self, settings, name, how):
        settings.WORKER_NAME = "local"
        found = command("worker", "--name", name, *how, "--json")
        assert (found.code, found.json["code"]) == (2, "input.bad_worker_name")
        assert not Worker.objects.exists()


class TestPrinter:
    def test_text_from_elsewhere_is_inert(self):
        assert escape_for_terminal("a\x1b]0;t\x07\n\u202eb\u00e9") == "a\\x1b]0;t\\x07\\x0a\\u202eb\u00e9"

    def test_a_table_on_a_terminal_has_headings_and_no_markup(self):
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        out = Terminal()
        Printer(out, io.StringIO(), as_json=False).table(("task",), [["[bold]x[/bold]"]])
        assert "task" in out.getvalue() and "[bold]x[/bold]" in out.getvalue()

    def test_json_is_one_ascii_line(self):
        out = io.StringIO()
        printer = Printer(out, io.StringIO(), as_json=True)
        printer.line("hidden")
        printer.json({"schema": "benchsite.x/v1", "name": "é"})
        assert out.getvalue() == '{"schema": "benchsite.x/v1", "name": "\\u00e9"}\n'
