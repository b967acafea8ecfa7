"""Folder, run's record, journal, spec and ledger are of one run, and the ledger's lines lie where its agents asked."""

import math
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from benchsite.lib.folder import Folder
from evidence.reading.tree import tree_files, tree_sha256
from evidence.suite.judgement import judge
from evidence.suite.run_facts import Expected, read_run
from evidence.trial.binding import SLACK_S, _seconds
from evidence.trial.classify import classify_trial
from runs.outcomes.buckets import Verdict
from tests.evidence.folders import RUN_ID, RunCase, at, load_run, passing_run, request

FIXTURES = Path(__file__).parents[2] / "fixtures"
# Real runs: one of before its ledger named it, and two of since.
REAL, BOUND, WRONG_MODEL = FIXTURES / "real-run", FIXTURES / "bound-runs/positive", FIXTURES / "bound-runs/wrong-model"
MAKE = pytest.mark.parametrize(
    "make",
    [lambda: passing_run(3), lambda: load_run(REAL), lambda: load_run(BOUND)],
    ids=["synthetic", "real of before", "real"],
)
OTHER_ID = "f" * 32
FOREIGN, TIMES, TRIALS = "integrity.ledger_foreign", "integrity.ledger_times", "integrity.foreign_trial"
BROKEN, IDENTITY, NO_COMPLETION = (
    "integrity.ledger_broken",
    "integrity.run_identity",
    "invalid_evaluation.no_completion",
)
type Change = Callable[[RunCase], object]


def first_code(run: RunCase, where: Path, expected: Expected = Expected()) -> str:  # noqa: B008
    facts = read_run(run.write(where), expected)
    code = classify_trial(facts.trials[0]).code
    passed = judge(facts, cleanup_clean=True).suite.verdict is Verdict.PASSED
    assert passed == (code == "passed.reward_1")
    return code


def later(time: str, seconds: float) -> str:
    return (datetime.fromisoformat(time) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def opening(**changes: Any) -> Change:
    return lambda run: run.ledger[0].update(changes)


def record(**changes: Any) -> Change:
    return lambda run: run.run.update(changes)


def unopened(run: RunCase) -> None:
    run.ledger.pop(0)


def older(run: RunCase) -> None:
    """As a run was recorded before its ledger named it."""
    run.spec.pop("evidence_version")
    run.run.pop("ledger_sha256")
    unopened(run)


def both(*changes: Change) -> Change:
    return lambda run: [change(run) for change in changes]


def move(role: str, event: str, seconds: float, **match: Any) -> Change:
    """Puts the first trial's lines that many seconds from one of its events."""

    def change(run: RunCase) -> None:
        time = later(run.trial.event(event, role=role, **match)["at"], seconds)
        for line in run.lines_of(1):
            line["at"] = time
        _in_order(run)

    return change


def since_command(seconds: float) -> Change:
    """Puts them that many seconds from the beginning of the agent's command."""
    return lambda run: move(
        "agent", "exec", seconds - run.trial.event("exec", purpose="agent")["duration_s"], purpose="agent"
    )(run)


def _in_order(run: RunCase) -> None:
    """What a forger does who keeps the order of times: lines sorted, and the end after them."""
    body = [line for line in run.ledger if line["kind"] not in ("opened", "closed")]
    body.sort(key=lambda line: str(line["at"]))
    run.ledger[1:-1] = body
    run.ledger[0]["at"] = min(run.ledger[0].get("at", at(0)), body[0]["at"])
    run.ledger[-1]["at"] = max(run.ledger[-1].get("at", at(0)), body[-1]["at"])


def stranger(number: int, place: str) -> Change:
    """A line of a trial number that is none of the run's, at a time of the first trial's agent or before it."""

    def change(run: RunCase) -> None:
        stranger_at(number, run.asked_at(1) if place == "during" else at(0))(run)

    return change


def stranger_at(number: int, time: str) -> Change:
    def change(run: RunCase) -> None:
        run.ledger.insert(1, request(number, at=time))
        _in_order(run)

    return change


def gateway(**changes: Any) -> Change:
    return lambda run: next(each for each in run.journal["resources"] if each["role"] == "gateway").update(changes)


CHANGES: dict[str, tuple[Change, str]] = {
    "another run in the first line": (opening(run_id=OTHER_ID), FOREIGN),
    "another spec in the first line": (opening(spec_sha256="0" * 64), FOREIGN),
    "no spec in the first line": (opening(spec_sha256=None), FOREIGN),
    "another gateway in the first line": (opening(nonce="9" * 32), FOREIGN),
    "a nonce of something else in the journal": (opening(nonce=f"{0:032x}"), FOREIGN),
    "another gateway in the journal": (gateway(nonce="9" * 32), FOREIGN),
    "no gateway in the journal": (gateway(role="probe", session_id="image-mark-gateway"), IDENTITY),
    "no first line": (unopened, FOREIGN),
    "a spec of before, a ledger of now, another run": (
        both(lambda run: run.spec.pop("evidence_version"), opening(run_id=OTHER_ID)),
        FOREIGN,
    ),
    "a record that says there was no ledger": (record(ledger_sha256=None), FOREIGN),
    "a record of before": (lambda run: run.run.pop("ledger_sha256"), FOREIGN),
    "a record of before and no end of the run": (
        both(lambda run: run.run.pop("ledger_sha256"), record(ended_at=None)),
        "invalid_evaluation.proof_missing",
    ),
    "a run of before": (older, "passed.reward_1"),
    "a run of before whose record names a ledger": (both(older, record(ledger_sha256="0" * 64)), FOREIGN),
    "asked before its container was opened": (move("agent", "opened", -1.5), TIMES),
    "asked as long before it was opened as clocks may differ": (move("agent", "opened", -SLACK_S), NO_COMPLETION),
    "asked before its command began": (since_command(-1.5), NO_COMPLETION),
    "asked when its command began": (since_command(0), "passed.reward_1"),
    "asked when its command ended": (move("agent", "exec", 0, purpose="agent"), "passed.reward_1"),
    "asked after its command ended": (move("agent", "exec", 0.001, purpose="agent"), NO_COMPLETION),
    "answered while the verifier was opened": (move("verifier", "opened", 0), TIMES),
    "answered while the verifier ran": (move("verifier", "exec", -0.05), TIMES),
    "answered after the verifier": (move("verifier", "exec", 60), TIMES),
    "answered after the run": (move("agent", "opened", 3600), TIMES),
    "all of 1999": (lambda run: [line.update(at="1999-01-01T00:00:00.000000Z") for line in run.ledger] and None, TIMES),
    "the end after the run's": (lambda run: run.ledger[-1].update(at=at(301)), TIMES),
    "the beginning before the run's": (opening(at=at(-1)), TIMES),
    "a run that began at no time": (record(started_at="soon"), "integrity.run_unreadable"),
    "a run that ended at no time": (record(ended_at="soon"), "integrity.run_unreadable"),
    "a run without a time zone": (record(started_at="2026-06-17T04:00:00"), "integrity.run_unreadable"),
    "the readiness question": (stranger(4, "before"), "passed.reward_1"),
    "the readiness question during a trial": (stranger(4, "during"), TRIALS),
    "the readiness question when the agent's container was opened": (
        lambda run: stranger_at(4, run.trial.event("opened", role="agent")["at"])(run), TRIALS,
    ),
    "a question of a number that nobody has": (stranger(5, "before"), TRIALS),
    "reversed": (lambda run: run.ledger.__setitem__(slice(1, -1), run.ledger[-2:0:-1]), BROKEN),
    "an answer of status 500": (lambda run: run.lines_of(1)[0].update(status=500), BROKEN),
    "an answer with a code of what was wrong": (lambda run: run.lines_of(1)[0].update(code="status"), BROKEN),
    "an answer without hashes": (
        lambda run: run.lines_of(1)[0].update(request_sha256=None, response_sha256=None, message_sha256=None), BROKEN,
    ),
    "a container of a trial that the spec does not have": (
        lambda run: run.journal["resources"].append(
            run.journal["resources"][-1] | {"trial": 9, "nonce": "8" * 32, "resource_id": None}
        ),
        TRIALS,
    ),
    "a process of a trial that the spec does not have": (
        lambda run: run.journal["processes"].append({**run.journal["processes"][-1], "trial": 9, "pid": 7}),
        TRIALS,
    ),
}  # fmt: skip


def test_between_two_of_which_one_is_no_time_lies_no_interval() -> None:
    assert math.isnan(_seconds("soon", at(0))) and math.isnan(_seconds(at(0), "soon"))


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_of_no_one_run_is_named_and_never_evaluated(name: str, tmp_path: Path) -> None:
    change, code = CHANGES[name]
    run = passing_run(3)
    change(run)
    assert first_code(run, tmp_path / "run") == code


@MAKE
@pytest.mark.parametrize(
    "name",
    [
        "all of 1999", "reversed", "an answer of status 500", "an answer without hashes",
        "answered while the verifier ran", "answered after the verifier", "answered after the run",
        "asked before its container was opened",
        "a container of a trial that the spec does not have", "a question of a number that nobody has",
    ],
)  # fmt: skip
def test_a_real_run_of_before_is_held_to_the_same_times(name: str, make: Callable[[], RunCase], tmp_path: Path) -> None:
    change, code = CHANGES[name]
    run = make()
    change(run)
    assert first_code(run, tmp_path / "run") == code


def test_another_runs_ledger_in_the_folder_of_a_run_of_before_is_of_another_time(tmp_path: Path) -> None:
    run = passing_run(3)
    older(run)
    folder = run.write(tmp_path / "run")
    (folder / "ledger.jsonl").write_bytes((REAL / "ledger.jsonl").read_bytes())
    assert classify_trial(read_run(folder).trials[0]).code == TIMES


@pytest.mark.parametrize("name", CHANGES)
def test_a_real_run_with_the_same_change_gets_the_same_code(name: str, tmp_path: Path) -> None:
    change, code = CHANGES[name]
    run = load_run(BOUND)
    change(run)
    assert first_code(run, tmp_path / "run") == code


def test_real_runs_are_what_they_were(tmp_path: Path) -> None:
    codes = {
        folder.name: {classify_trial(trial).code for trial in read_run(folder).trials}
        for folder in (REAL, BOUND, WRONG_MODEL)
    }
    assert codes == {
        "real-run": {"passed.reward_1"},
        "positive": {"passed.reward_1"},
        "wrong-model": {"routing.wrong_model"},
    }


@pytest.mark.parametrize("with_record", [False, True])
def test_the_ledger_of_a_real_pass_in_the_folder_of_a_real_failure_is_foreign(
    with_record: bool, tmp_path: Path
) -> None:
    """The mix-up of two folders; with the run's record as well it is one run's record beside another's journal."""
    folder = Path(shutil.copytree(WRONG_MODEL, tmp_path / "mixed"))
    for name in ("ledger.jsonl", "run.json") if with_record else ("ledger.jsonl",):
        shutil.copyfile(BOUND / name, folder / name)
    facts = read_run(folder)
    assert {classify_trial(trial).code for trial in facts.trials} == {
        "integrity.spec_mismatch" if with_record else FOREIGN
    }
    failed = {check.name for check in facts.checks if not check.ok}
    assert failed >= {"ledger.opening", "ledger.interval" if not with_record else "run.journal"}


def test_a_real_wrong_model_that_was_called_ok_with_a_new_chain_is_another_ledger(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(WRONG_MODEL, tmp_path / "renamed"))
    run = load_run(WRONG_MODEL)
    for line in run.ledger:
        line["kind"] = "ok" if line["kind"] == "wrong_model" else line["kind"]
    shutil.copyfile(run.write(tmp_path / "chained") / "ledger.jsonl", folder / "ledger.jsonl")
    facts = read_run(folder)
    assert {check.name for check in facts.checks if not check.ok} == {"ledger.recorded"}
    assert {classify_trial(trial).code for trial in facts.trials} == {FOREIGN}


def test_a_real_run_put_back_to_the_older_ledger_is_foreign(tmp_path: Path) -> None:
    run = load_run(BOUND)
    unopened(run)
    assert first_code(run, tmp_path / "ledger") == FOREIGN
    run.run.pop("ledger_sha256")
    assert first_code(run, tmp_path / "record") == FOREIGN


def test_another_runs_ledger_is_foreign_whatever_its_times(tmp_path: Path) -> None:
    run, other = passing_run(3), passing_run(3)
    other.rename(OTHER_ID)
    folder, copied = run.write(tmp_path / "run"), other.write(tmp_path / "other")
    (folder / "ledger.jsonl").write_bytes((copied / "ledger.jsonl").read_bytes())
    facts = read_run(folder)
    assert {check.name for check in facts.checks if not check.ok} == {"ledger.opening", "ledger.recorded"}
    assert classify_trial(facts.trials[0]).code == FOREIGN


def test_an_answer_that_was_called_another_kind_is_not_in_the_ledger_that_the_record_names(tmp_path: Path) -> None:
    wrong = passing_run(1)
    for line in wrong.lines_of(1):
        line["kind"] = "wrong_model"
    folder = wrong.write(tmp_path / "wrong")
    assert classify_trial(read_run(folder).trials[0]).code == "routing.wrong_model"
    for line in wrong.lines_of(1):
        line["kind"] = "ok"
    (folder / "ledger.jsonl").write_bytes((wrong.write(tmp_path / "as ok") / "ledger.jsonl").read_bytes())
    assert classify_trial(read_run(folder).trials[0]).code == FOREIGN


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (RUN_ID, "passed.reward_1"),
        (f"benchsite-{RUN_ID}", "passed.reward_1"),
        ("a copy", "passed.reward_1"),
        (OTHER_ID, IDENTITY),
        (f"benchsite-{OTHER_ID}", IDENTITY),
    ],
)
def test_a_folder_that_is_called_by_a_runs_id_is_that_runs(name: str, code: str, tmp_path: Path) -> None:
    assert first_code(passing_run(1), tmp_path / name) == code


def test_the_folder_is_named_where_it_lies_whatever_leads_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = passing_run(1).write(tmp_path / OTHER_ID)
    (tmp_path / RUN_ID).symlink_to(folder)
    monkeypatch.chdir(folder)
    for path in (Path(), tmp_path / RUN_ID):
        assert classify_trial(read_run(path).trials[0]).code == IDENTITY


@MAKE
def test_a_runs_id_that_was_replaced_everywhere_is_not_the_one_that_is_expected(
    make: Callable[[], RunCase], tmp_path: Path
) -> None:
    run = make()
    expected = Expected(run_id=run.run["run_id"])
    run.rename(OTHER_ID)
    assert first_code(run, tmp_path / "unnamed") == "passed.reward_1"
    assert first_code(run, tmp_path / "expected", expected) == IDENTITY
    assert first_code(run, tmp_path / RUN_ID) == IDENTITY


def test_what_is_expected_and_found_changes_nothing(tmp_path: Path) -> None:
    run = passing_run(1)
    folder = run.write(tmp_path / "copy")
    expected = Expected(RUN_ID, run.run["spec_sha256"], tree_sha256(tree_files(Folder(folder))))
    assert classify_trial(read_run(folder, expected).trials[0]).code == "passed.reward_1"


@pytest.mark.parametrize(
    ("expected", "code"),
    [
        (Expected(run_id=OTHER_ID), IDENTITY),
        (Expected(spec_sha256="0" * 64), "integrity.spec_mismatch"),
        (Expected(folder_sha256="0" * 64), "integrity.folder_mismatch"),
    ],
)
def test_what_is_expected_and_not_found_is_a_difference(expected: Expected, code: str, tmp_path: Path) -> None:
    assert first_code(passing_run(1), tmp_path / "run", expected) == code


def test_a_folder_of_too_many_files_is_not_the_expected_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = passing_run(1).write(tmp_path / "run")
    expected = Expected(folder_sha256=tree_sha256(tree_files(Folder(folder))))
    monkeypatch.setattr("evidence.reading.tree.MAX_FILES", 5)
    assert classify_trial(read_run(folder, expected).trials[0]).code == "integrity.folder_mismatch"


@pytest.mark.parametrize("names", [("task-1", "task-1", "task-1"), ("task-1", "task-2", "task-2")])
def test_a_task_that_stands_twice_makes_no_spec(names: tuple[str, ...], tmp_path: Path) -> None:
    """One that passed, counted three times while the others' folders are gone."""
    run = passing_run(3)
    for task, name in zip(run.spec["tasks"], names, strict=True):
        task["name"] = name
    assert first_code(run, tmp_path / "run") == "integrity.spec_unreadable"
    run = passing_run(3)
    run.spec["tasks"] = [run.spec["tasks"][0]] * 3
    run.trials = run.trials[:1]
    assert first_code(run, tmp_path / "ordinals") == "integrity.spec_unreadable"


@MAKE
def test_a_trial_that_was_taken_out_of_the_spec_still_stands_in_journal_and_ledger(
    make: Callable[[], RunCase], tmp_path: Path
) -> None:
    run = make()
    run.spec["tasks"].pop()
    run.trials.pop()
    facts = read_run(run.write(tmp_path / "run"))
    failed = {check.name for check in facts.checks if not check.ok}
    failed |= {check.name for trial in facts.trials for check in trial.checks if not check.ok}
    assert failed >= {"journal.trials", "journal.resources", "ledger.readiness"}
    assert {classify_trial(trial).code for trial in facts.trials} == {TRIALS}
