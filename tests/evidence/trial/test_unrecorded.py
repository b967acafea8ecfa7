"""A folder from which a record was taken, or to which a file was added, never passes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from evidence.reading.observed import parse
from evidence.reading.own_records import supervision_problem
from evidence.suite.run_facts import read_run
from evidence.trial.classify import classify_trial
from evidence.trial.run_checks import PREPARED, owned_check
from runs.checks.readiness import ANSWER, CREDENTIAL, MODEL
from runs.outcomes.buckets import Bucket
from runs.ownership.format import load as load_journal
from tests.evidence.folders import RunCase, list_files, load_run, passing_run, preflight_check, sha256

REAL = Path(__file__).parents[2] / "fixtures/real-run"
type Change = Callable[[RunCase], object]


def _unfetched_reward(run: RunCase) -> None:
    """The attendant says that the verifier left nothing, and a reward lies in its place all the same."""
    found = run.trial.event("transfer", purpose="verifier_logs")
    found.update(outcome="source_absent", kept=None)
    list_files(found, [])


def _graded_first(run: RunCase) -> None:
    command = run.trial.event("exec", purpose="verifier")
    command["started_mono"] = run.trial.event("exec", purpose="agent")["mono"] - 1


def _added(path: str) -> Change:
    return lambda run: run.trial.kept.update({path: b"forged"})


FORGED: dict[str, tuple[Change, str]] = {
    "a reward that no transfer names": (_unfetched_reward, "integrity.artifact_hash"),
    "a kept file that no transfer names": (_added("agent/forged.json"), "integrity.artifact_hash"),
    "another trial's supervision": (
        lambda run: run.trial.supervision.update(trial=2),  # type: ignore[union-attr]
        "integrity.trial_identity",
    ),
    "no record of what the verifier was given": (
        lambda run: run.trial.drop("transfer", purpose="artifacts_in"),
        "integrity.verifier_input",
    ),
    "no record of the grading program": (
        lambda run: run.trial.drop("transfer", purpose="tests"),
        "invalid_evaluation.proof_missing",
    ),
    "graded before the agent ended": (_graded_first, "integrity.record_course"),
    "a record whose clock goes back": (
        lambda run: run.trial.events[-1].update(mono=1.0),
        "integrity.times_inverted",
    ),
    "a probe that failed": (lambda run: run.run["probe"].update(passed=False), "invalid_evaluation.proof_missing"),
    "no probe": (lambda run: run.run.update(probe=None), "invalid_evaluation.proof_missing"),
    "a number that no float holds": (
        lambda run: run.trial.event("exec", purpose="agent").update(duration_s=10**400),
        "integrity.observed_broken",
    ),
}


@pytest.mark.parametrize("make", [lambda: passing_run(1), lambda: load_run(REAL)], ids=["synthetic", "real"])
@pytest.mark.parametrize("name", FORGED)
def test_what_was_forged_or_taken_away_is_named_and_never_passes(
    name: str, make: Callable[[], RunCase], tmp_path: Path
) -> None:
    change, code = FORGED[name]
    run = make()
    change(run)
    judged = classify_trial(read_run(run.write(tmp_path / "run")).trials[0])
    assert (judged.bucket, judged.code) == (Bucket.ERROR, code)


def test_a_limit_that_no_calendar_holds_is_no_crash(tmp_path: Path) -> None:
    run = passing_run(1)
    run.spec["limits"]["agent_s"] = 10**400
    assert classify_trial(read_run(run.write(tmp_path / "run")).trials[0]).bucket is Bucket.ERROR


def test_a_reward_cannot_be_changed_under_the_name_of_a_removed_secret(tmp_path: Path) -> None:
    case = passing_run(1)
    case.trial.reward(json=b'{"reward": 0}')
    run = case.write(tmp_path / "run")
    path = "trials/1/kept/verifier/reward.json"
    entry = {"original_sha256": sha256(b'{"reward": 0}'), "sha256": sha256(b'{"reward": 1}'), "replaced": 1}
    (run / path).write_bytes(b'{"reward": 1}')
    (run / "evidence").mkdir()
    record = {"schema": "benchsite.redactions/v1", "files": {path: entry}}
    (run / "evidence/redactions.json").write_text(json.dumps(record))
    assert classify_trial(read_run(run).trials[0]).code == "integrity.artifact_hash"


@pytest.mark.parametrize("changed", [False, True])
def test_files_beyond_those_that_a_record_names_are_held_by_its_one_hash(changed: bool, tmp_path: Path) -> None:
    case = passing_run(1)
    case.trial.kept.update({f"agent/many/{number:03}.txt": b"x" for number in range(300)})
    case.trial.recopy()
    assert len(case.trial.event("transfer", purpose="agent_logs", direction="download")["entries"]) == 200
    run = case.write(tmp_path / "run")
    if changed:
        (run / "trials/1/kept/agent/many/299.txt").write_bytes(b"y")
    judged = classify_trial(read_run(run).trials[0])
    assert judged.code == ("integrity.artifact_hash" if changed else "passed.reward_1")


DOCUMENTS = {
    "spec.json": "integrity.spec_unreadable",
    "run.json": "integrity.run_unreadable",
    "journal.json": "integrity.journal_unreadable",
    "manifest.json": "integrity.manifest_mismatch",
    "ledger.jsonl": "integrity.ledger_broken",
    "trials/1/supervision.json": "integrity.record_unreadable",
    "trials/1/observed.jsonl": "integrity.observed_broken",
}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_record_in_another_encoding_is_not_guessed_at(name: str, encoding: str, tmp_path: Path) -> None:
    """`json.loads` of bytes guesses; nothing of ours writes anything but UTF-8 without a mark."""
    run = passing_run(1).write(tmp_path / "run")
    text = (run / name).read_text()
    (run / name).write_bytes(text.encode(encoding))
    codes = {check.code for check in read_run(run).trials[0].checks if not check.ok}
    assert DOCUMENTS[name] in codes


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("record", ["preflight", "readiness"])
def test_a_run_of_version_2_proves_that_it_was_ready_and_one_of_before_need_not(
    record: str, version: int, tmp_path: Path
) -> None:
    run = passing_run(1)
    del run.run[record]
    if version == 1:
        _as_version_1(run)
    judged = classify_trial(read_run(run.write(tmp_path / "run")).trials[0])
    assert judged.code == ("passed.reward_1" if version == 1 else "invalid_evaluation.proof_missing")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("record", ["preflight", "readiness"])
def test_a_check_that_refused_the_start_is_believed_in_a_record_of_any_version(
    record: str, version: int, tmp_path: Path
) -> None:
    run = passing_run(1)
    checks = run.run["readiness"]["checks"] if record == "readiness" else run.run["preflight"]
    checks[0]["passed"] = False
    if version == 1:
        _as_version_1(run)
    judged = classify_trial(read_run(run.write(tmp_path / "run")).trials[0])
    assert judged.code == "invalid_evaluation.proof_missing"


def _failed(name: str, code: str = "") -> Change:
    def change(run: RunCase) -> None:
        (found,) = [c for c in (*run.run["preflight"], *run.run["readiness"]["checks"]) if c["name"] == name]
        found.update(passed=False, level="note", code=code or found["code"])

    return change


@pytest.mark.parametrize("level", ["note", "accept"])
@pytest.mark.parametrize(
    ("change", "passes"),
    [
        *((_failed(name), False) for name in sorted(PREPARED)),
        (_failed(CREDENTIAL, "endpoint.auth_refused"), False),
        (_failed(MODEL, "endpoint.wrong_model"), False),
        (_failed(ANSWER, "endpoint.rate_limited"), False),
        (_failed(MODEL, "endpoint.model_not_listed"), True),
        (lambda run: run.run["preflight"].append(preflight_check("limit core") | {"passed": False}), True),
    ],
)
def test_a_check_that_refuses_the_start_is_no_note(change: Change, passes: bool, level: str, tmp_path: Path) -> None:
    run = passing_run(1)
    change(run)
    for check in (*run.run["preflight"], *run.run["readiness"]["checks"]):
        if not check["passed"]:
            check["level"] = level
    judged = classify_trial(read_run(run.write(tmp_path / "run")).trials[0])
    assert judged.code == ("passed.reward_1" if passes else "invalid_evaluation.proof_missing")


@pytest.mark.parametrize(("longer", "code"), [(0.9, "passed.reward_1"), (1.1, "integrity.observed_broken")])
def test_a_command_takes_no_longer_than_from_its_start_to_its_end(longer: float, code: str, tmp_path: Path) -> None:
    run = passing_run(1)
    command = run.trial.event("exec", purpose="agent")
    command["duration_s"] = command["mono"] - command["started_mono"] + longer
    assert classify_trial(read_run(run.write(tmp_path / "run")).trials[0]).code == code


@pytest.mark.parametrize(("version", "code"), [(1, "passed.reward_1"), (2, "invalid_evaluation.told_differently")])
def test_a_plan_of_version_1_belongs_to_evidence_of_version_1(version: int, code: str, tmp_path: Path) -> None:
    run = passing_run(1)
    plan = run.trial.plan
    plan["schema"] = "benchsite.environment-plan/v1"
    del plan["conduct"], plan["deadlines"]
    if version == 1:
        _as_version_1(run)
    assert classify_trial(read_run(run.write(tmp_path / "run")).trials[0]).code == code


@pytest.mark.parametrize("missing", ["gateway", "probe", "ended_at"])
def test_an_earlier_run_that_does_not_name_its_gateway_its_probe_or_its_end_is_not_evaluated(
    missing: str, tmp_path: Path
) -> None:
    run = passing_run(1)
    run.run[missing] = None
    _as_version_1(run)
    judged = classify_trial(read_run(run.write(tmp_path / "run")).trials[0])
    assert judged.code == "invalid_evaluation.proof_missing"


def _as_version_1(run: RunCase) -> None:
    """The spec names no version, and ledger and run's record do not name each other."""
    del run.spec["evidence_version"], run.run["ledger_sha256"]
    run.ledger.pop(0)


@pytest.mark.parametrize(
    ("reward", "code"),
    [
        ({"txt": b"1", "json": None}, "passed.reward_1"),
        ({"txt": b"1", "json": b'{"reward":1.0,"resolved":true}'}, "integrity.reward_both_files"),
    ],
)
def test_a_file_that_a_verifier_wrote_beside_its_reward_is_kept_and_decides_nothing(
    reward: dict[str, bytes | None], code: str, tmp_path: Path
) -> None:
    run = passing_run(1)
    beside = b'{"resolved":true,"regressions":[]}'
    run.trial.kept["verifier/reward-details.json"] = beside
    run.trial.reward(**reward)
    folder = run.write(tmp_path / "run")
    assert classify_trial(read_run(folder).trials[0]).code == code
    assert (folder / "trials/1/kept/verifier/reward-details.json").read_bytes() == beside


def _owns(role: str, number: int, **changes: object) -> Change:
    """As many containers of one role as this belong to the first trial."""

    def change(run: RunCase) -> None:
        (one,) = [each for each in run.journal["resources"] if each["role"] == role and each["trial"] == 1]
        more = [one | {"nonce": f"{n}e" * 16, "resource_id": f"{n}e" * 32} | changes for n in range(1, number)]
        run.journal["resources"] += more

    return change


def _stopped(change: Change) -> Change:
    """The agent was stopped, so that a verifier that was ready is removed and another takes its place."""

    def changed(run: RunCase) -> None:
        run.trial.event("exec", purpose="agent").update(exit_code=None, timed_out=True)
        change(run)

    return changed


def _runs(number: int) -> Change:
    """As many processes as this are the first trial's."""

    def change(run: RunCase) -> None:
        first = run.journal["processes"][0]
        run.journal["processes"] = [{**first, "pid": 100 + n, "pgid": 100 + n, "sid": 100 + n} for n in range(number)]
        run.trial.supervision["process"].update(pid=100, pgid=100, sid=100)  # type: ignore[index]

    return change


@pytest.mark.parametrize(
    ("change", "held"),
    [
        (_owns("agent", 1), True),
        (_owns("agent", 2), False),
        (_owns("agent", 2, resource_id=None), True),  # of a creation that failed
        (_owns("verifier", 2), False),
        (_stopped(_owns("verifier", 2)), True),
        (_stopped(_owns("verifier", 3)), False),
        (_runs(2), True),
        (_runs(3), False),
    ],
)
@pytest.mark.parametrize("tasks", [1, 3])
def test_a_trial_has_no_more_containers_and_processes_than_one_has(
    change: Change, held: bool, tasks: int, tmp_path: Path
) -> None:
    run = passing_run(tasks)
    change(run)
    folder = run.write(tmp_path / "run")
    journal = load_journal((folder / "journal.json").read_bytes())
    assert owned_check(journal, parse((folder / "trials/1/observed.jsonl").read_bytes()), 1).ok is held


FIRST, LAST = 2**53, 2**53 + 1


@pytest.mark.parametrize(
    ("place", "within", "beyond"),
    [
        (("process", "pid"), FIRST, LAST),
        (("process", "pid"), -FIRST, -LAST),
        (("mono_started",), 0, -0.5),
        (("mono_started",), 0.5, -1),
        (("mono_ended",), float(FIRST), float(2 * FIRST)),
        (("exit_code",), 255, 256),
        (("exit_code",), 0, -1),
        (("signal",), 1, 0),
        (("signal",), 64, 65),
    ],
)
def test_a_number_of_our_own_record_is_within_its_bounds(place: tuple[str, ...], within: float, beyond: float) -> None:
    for value, held in ((within, True), (beyond, False)):
        document = dict(passing_run(1).trial.supervision or {})
        document.update(exit_code=None, signal=None, process=dict(document["process"]))
        target = document
        for name in place[:-1]:
            target = target[name]
        target[place[-1]] = value
        assert (supervision_problem(document) == "") is held


def test_a_record_of_a_process_that_is_mistyped_is_no_record(tmp_path: Path) -> None:
    document = dict(passing_run(1).trial.supervision or {})
    assert supervision_problem(document) == ""
    assert supervision_problem({**document, "interrupted": "no"})
    assert supervision_problem({**document, "exit_code": 0, "signal": 9}) == "an exit code and a signal"
    run = passing_run(1)
    run.trial.supervision.update(interrupted="no")  # type: ignore[union-attr]
    assert classify_trial(read_run(run.write(tmp_path / "run")).trials[0]).bucket is Bucket.ERROR
