"""What a code's sentence says is what happened: each observation that a sentence once misnamed, with its own words."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command

from benchsite.lib.folder import Folder
from evidence.reading.tree import tree_files, tree_sha256
from evidence.suite.judgement import judge
from evidence.suite.run_facts import Expected, read_run
from evidence.suite.verdict import suite_verdict
from evidence.trial.classify import classify_trial
from runs.checks.readiness import CREDENTIAL
from tests.evidence.folders import RunCase, at, list_files, passing_run, request
from tests.evidence.trial_facts import PASSING, facts_of


def first_of(folder: Path) -> str:
    return classify_trial(read_run(folder).trials[0]).code


def as_link(place: Path) -> None:
    place.rename(place.with_name("moved"))
    place.symlink_to(place.with_name("moved"))


def as_file(place: Path) -> None:
    shutil.rmtree(place)
    place.write_text("x")


FAILED = {"stage": "trial", "class": "worker_runtime", "code": "worker_runtime.engine", "detail": ""}


@pytest.mark.parametrize("place", ["trials/1", "trials"])
@pytest.mark.parametrize("lose", [shutil.rmtree, as_link, as_file], ids=["deleted", "a link", "a file"])
@pytest.mark.parametrize("kept", ["journal", "ledger"])
def test_a_started_trial_without_its_records_is_missing_and_not_one_that_never_started(
    place: str, lose: Callable[[Path], object], kept: str, tmp_path: Path
) -> None:
    run = passing_run(1)
    if kept == "journal":
        run.ledger = []
    else:
        run.journal["resources"] = [each for each in run.journal["resources"] if each["trial"] is None]
    folder = run.write(tmp_path / "run")
    lose(folder / place)
    checks = {check.code for check in read_run(folder).trials[0].checks if not check.ok}
    assert "integrity.trial_missing" in checks
    assert first_of(folder).startswith("integrity.")


@pytest.mark.parametrize("ended", [{"interrupted": True}, {"failure": FAILED}], ids=["interrupted", "failed"])
@pytest.mark.parametrize("left", ["", "environment.json"])
def test_of_a_run_that_broke_off_a_started_trial_has_its_folder_at_least(
    ended: dict[str, Any], left: str, tmp_path: Path
) -> None:
    run = passing_run(1)
    run.run.update(ended)
    folder = run.write(tmp_path / "run")
    plan = (folder / "trials/1/environment.json").read_bytes()
    shutil.rmtree(folder / "trials/1")
    if left:
        (folder / "trials/1").mkdir()
        (folder / "trials/1" / left).write_bytes(plan)
    assert (first_of(folder) == "integrity.trial_missing") == (not left)


def test_a_trial_of_a_run_that_was_cancelled_before_it_left_nothing_and_misses_nothing(tmp_path: Path) -> None:
    run = passing_run(2)
    run.never_started(2)
    assert classify_trial(read_run(run.write(tmp_path / "run")).trials[1]).code == "worker_runtime.not_started"


@pytest.mark.parametrize("value", ["", False, 0, [], {}, "soon", "1999", "0001-01-01T00:00:00"])
def test_a_cancel_at_no_time_is_a_record_that_cannot_be_read_and_no_cancellation(value: object, tmp_path: Path) -> None:
    run = passing_run(1)
    run.run["cancel_requested_at"] = value
    assert first_of(run.write(tmp_path / "run")) == "integrity.run_unreadable"


@pytest.mark.parametrize("value", ["true", 1, None, []])
def test_a_trial_that_was_cancelled_by_a_word_is_a_record_that_cannot_be_read(value: object, tmp_path: Path) -> None:
    run = passing_run(1)
    assert run.trial.supervision is not None
    run.trial.supervision["cancel_requested"] = value
    assert first_of(run.write(tmp_path / "run")) == "integrity.record_unreadable"


@pytest.mark.parametrize(
    ("option", "digits", "code"),
    [
        ("run_id", 32, "input.no_run_id"),
        ("spec_sha256", 64, "input.no_sha256"),
        ("folder_sha256", 64, "input.no_sha256"),
    ],
)
def test_a_mistyped_expectation_is_bad_input_and_no_difference(
    option: str, digits: int, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = passing_run(1).write(tmp_path / "run")
    good = "a" * digits
    for value in ("", "hello", good.upper(), good[1:], f"{good}a", f"{good}\n", f" {good}", "g" * digits, "١" * digits):
        with pytest.raises(SystemExit) as refused:
            call_command("classify", str(folder), json=True, **{option: value})
        told = json.loads(capsys.readouterr().out)
        assert (refused.value.code, told["code"]) == (2, code)
        assert f"--{option.replace('_', '-')}" in told["sentence"] and str(digits) in told["sentence"]


def exit_of(folder: Path, **options: Any) -> int:
    try:
        call_command("classify", str(folder), **options)
    except SystemExit as ended:
        assert isinstance(ended.code, int)
        return ended.code
    return 0


@pytest.mark.parametrize("option", ["run_id", "spec_sha256", "folder_sha256"])
def test_an_expectation_that_is_not_met_is_an_integrity_error(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = passing_run(1)
    folder = run.write(tmp_path / "run")
    met = {
        "run_id": run.run["run_id"],
        "spec_sha256": run.run["spec_sha256"],
        "folder_sha256": tree_sha256(tree_files(Folder(folder))),
    }
    for expected, code in ((met, 0), (met | {option: "f" * len(met[option])}, 4)):
        assert exit_of(folder, json=True, **expected) == code
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["verdict"] for one in told] == ["passed", "error"]
    assert all(check["code"].startswith("integrity.") for check in told[1]["failed_checks"])


def test_what_a_run_of_before_does_not_prove_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = passing_run(1)
    for evidence, words in ((2, False), (None, True)):
        if evidence is None:
            run.spec.pop("evidence_version")
            run.run.pop("ledger_sha256")
            run.ledger.pop(0)
        folder = run.write(tmp_path / str(evidence))
        assert exit_of(folder) == 0
        assert ("evidence of version 1" in capsys.readouterr().out) is words


def _reward_unfetched(run: RunCase) -> None:
    found = run.trial.event("transfer", purpose="verifier_logs")
    found.update(outcome="source_absent", kept=None)
    list_files(found, [])


def _stray(folder: Path) -> None:
    (folder / "trials/notes.txt").write_text("x")


def _renamed(folder: Path) -> None:
    folder.rename(folder.with_name("0" * 32))


def _question_of_no_trial(run: RunCase) -> None:
    run.ledger.insert(2, request(2, at=at(run.trial.offset + 5.5)))


def _another_process(run: RunCase) -> None:
    assert run.trial.supervision is not None
    run.trial.supervision["process"]["pid"] += 1


def _another_supervision(run: RunCase) -> None:
    assert run.trial.supervision is not None
    run.trial.supervision["trial"] = 2


def _another_in_harbors_job(run: RunCase) -> None:
    for statistics in run.trial.job_result["stats"]["evals"].values():
        statistics["reward_stats"] = {"reward": {"1": [run.trial.folder, "task-9__AbCdEfG"]}}


def _many(run: RunCase) -> None:
    run.trial.kept.update({f"agent/many/{number:03}.txt": b"x" for number in range(300)})
    run.trial.recopy()


def _put(kind: str, *place: str | int, value: object) -> Callable[[RunCase], None]:
    """Another value in a document of the run, or of its first trial."""

    def change(run: RunCase) -> None:
        here = getattr(run if hasattr(run, kind) else run.trial, kind)
        for part in place[:-1]:
            here = here[part]
        here[place[-1]] = value

    return change


def _opened(role: str, **changes: object) -> Callable[[RunCase], None]:
    return lambda run: run.trial.event("opened", role=role).update(changes)


def _drop(name: str, **match: str) -> Callable[[RunCase], None]:
    return lambda run: run.trial.drop(name, **match)


def _other_journal(run: RunCase) -> None:
    """The journal of another run, which has the same containers."""
    run.journal["run_id"] = "0" * 32


def _blocked(place: str, name: str) -> Callable[[RunCase], None]:
    """A check of the start that refuses it, in the record of a run that went on all the same."""

    def change(run: RunCase) -> None:
        checks = run.run["readiness"]["checks"] if place == "readiness" else run.run[place]
        next(check for check in checks if check["name"] == name).update(passed=False, code=f"{name}.refused")

    return change


IDENTITY, FOREIGN, STORED = "integrity.trial_identity", "integrity.foreign_trial", "integrity.artifact_hash"
RUN, SPEC, PROOF = "integrity.run_identity", "integrity.spec_mismatch", "invalid_evaluation.proof_missing"
type Changed = Callable[[RunCase], object]
type Spoilt = Callable[[Path], object]
# What is changed in the documents or in the written folder, the code, and what its sentence says of it.
SAID: list[tuple[Changed | None, Spoilt | None, str, str]] = [
    (None, _stray, FOREIGN, "other names in trials/: 1"),
    (None, lambda folder: (folder / "trials/2").mkdir(), FOREIGN, "other names in trials/: 1"),
    (_put("result", "task_name", value="task-2"), None, FOREIGN, "Harbor's result is of another task"),
    (_put("lock", "task", "name", value="task-2"), None, FOREIGN, "Harbor's lock is of another task"),
    (_another_in_harbors_job, None, FOREIGN, "other trials that Harbor's job names: 1"),
    (lambda run: run.ledger.insert(-1, request(9, at=at(90))), None, FOREIGN, "the ledger holds trial 9"),
    (lambda run: run.journal["processes"][0].update(trial=7), None, FOREIGN, "the journal holds trial 7"),
    (_question_of_no_trial, None, FOREIGN, "the ledger holds a question of no trial after the start"),
    (_another_supervision, None, IDENTITY, "the supervision record is another trial's"),
    (_another_process, None, IDENTITY, "the supervised process is not the journaled one"),
    (_opened("agent", container_id="0" * 64), None, IDENTITY, "the agent's container is not the journaled one"),
    (_opened("verifier", session_id="x__verifier__trial"), None, IDENTITY, "verifier's container has another session"),
    (_opened("agent", trial=2), None, IDENTITY, "the agent's container was opened for another trial"),
    (_put("config", "trial_name", value="task__ZzZzZzZ"), None, IDENTITY, "Harbor's files name another trial than"),
    (_put("job_result", "id", value=str(UUID(int=5))), None, IDENTITY, "Harbor's files name 2 jobs"),
    (_put("result", "id", value=str(UUID(int=5))), None, IDENTITY, "the id in Harbor's result is not the journaled"),
    (_put("result", "id", value="x"), None, IDENTITY, "Harbor's result has no id"),
    (_opened("agent", trial_uuid=str(UUID(int=5))), None, IDENTITY, "journal and attendant name 2 ids for it"),
    (lambda run: run.trial.kept.update({"agent/x": b"x"}), None, STORED, "files that no transfer names: 1"),
    (_reward_unfetched, None, STORED, "files that no transfer names: 2"),
    (
        None,
        lambda folder: (folder / "trials/1/kept/verifier/reward.json").write_text('{"reward": 0}'),
        STORED,
        "a file that it copied has other content",
    ),
    (
        None,
        lambda folder: (folder / "trials/1/kept/verifier/reward.json").unlink(),
        STORED,
        "a file that it copied is missing or no plain file",
    ),
    (
        _many,
        lambda folder: (folder / "trials/1/kept/agent/many/299.txt").write_text("y"),
        STORED,
        "an output of many files has other files",
    ),
    (None, _renamed, RUN, "the folder is called by another run's id"),
    (_other_journal, None, RUN, "the ownership journal is another run's"),
    (_put("run", "gateway", "container_id", value="0" * 64), None, RUN, "names another gateway than the journal"),
    (_put("run", "probe", value=None), None, PROOF, "no egress probe that passed"),
    (_blocked("preflight", "sandbox"), None, PROOF, "no preflight that passed"),
    (lambda run: run.run.pop("preflight"), None, PROOF, "no preflight that passed"),
    (_blocked("readiness", CREDENTIAL), None, PROOF, "the endpoint was not ready"),
    (lambda run: run.run.pop("readiness"), None, PROOF, "the endpoint was not ready"),
    (_put("run", "gateway", value=None), None, PROOF, "no gateway was recorded"),
    (_drop("transfer", purpose="tests"), None, PROOF, "no grading program was sent"),
    (_drop("transfer", purpose="environment"), None, PROOF, "no task files were sent"),
]


@pytest.mark.parametrize(
    ("change", "spoil", "code", "words"), SAID, ids=[f"{code}-{words}" for _, _, code, words in SAID]
)
def test_a_sentence_says_what_was_seen(
    change: Changed | None, spoil: Spoilt | None, code: str, words: str, tmp_path: Path
) -> None:
    run = passing_run(1)
    if change is not None:
        change(run)
    folder = run.write(tmp_path / "run")
    if spoil is not None:
        spoil(folder)
    judged = classify_trial(read_run(next(tmp_path.iterdir())).trials[0])
    assert (judged.code, words in judged.sentence) == (code, True), judged.sentence


@pytest.mark.parametrize(
    ("expected", "code", "words"),
    [
        (Expected(run_id="0" * 32), RUN, "another run was expected"),
        (Expected(spec_sha256="0" * 64), SPEC, "another hash was expected"),
    ],
)
def test_the_sentence_of_an_expectation_says_that_it_was_one(
    expected: Expected, code: str, words: str, tmp_path: Path
) -> None:
    judged = classify_trial(read_run(passing_run(1).write(tmp_path / "run"), expected).trials[0])
    assert (judged.code, words in judged.sentence) == (code, True), judged.sentence


def test_the_sentence_of_a_spec_that_differs_by_itself_names_the_runs_record(tmp_path: Path) -> None:
    run = passing_run(1)
    run.rehash, run.run["spec_sha256"] = False, "0" * 64
    judged = classify_trial(read_run(run.write(tmp_path / "run")).trials[0])
    assert (judged.code, "the run's record has another hash" in judged.sentence) == (SPEC, True), judged.sentence


@pytest.mark.parametrize("name", ["*evil*", "{why}", "x" * 300])
def test_a_sentence_repeats_no_name_that_others_chose(name: str, tmp_path: Path) -> None:
    """It is public; the names that it was judged by are not."""
    run = passing_run(1)
    run.trial.kept[f"agent/{name[:200]}"] = b"x"
    run.trial.recopy()
    run.trial.kept[f"agent/{name[:200]}"] = b"y"
    judged = classify_trial(read_run(run.write(tmp_path / "run")).trials[0])
    assert judged.code == STORED
    assert name[:200] not in judged.sentence and name[:60] in judged.detail


def test_the_verdicts_sentence_names_how_many_passed_and_how_many_were_needed(tmp_path: Path) -> None:
    run = passing_run(3)
    for trial in run.trials[1:]:
        trial.reward(json=b'{"reward": 0}')
    folder = run.write(tmp_path / "run")
    failed = judge(read_run(folder), cleanup_clean=True).suite
    assert (failed.verdict, "1 of 3, needed: 100 %" in failed.sentence) == ("failed", True)


@pytest.mark.parametrize(("floor", "needed"), [(0.0, "one"), (0.25, "25 %"), (1.0, "100 %")])
def test_the_share_that_was_needed_is_named_and_where_none_was_one_is(floor: float, needed: str) -> None:
    suite = suite_verdict([classify_trial(PASSING)] * 3, floor=floor, cleanup_clean=True)
    assert f"(3 of 3, needed: {needed})" in suite.sentence


def test_a_run_with_a_floor_of_nothing_and_no_pass_failed_and_says_so(tmp_path: Path) -> None:
    run = passing_run(3)
    run.spec["scoring"]["pass_rate_floor"] = 0.0
    for trial in run.trials:
        trial.reward(json=b'{"reward": 0}')
    suite = judge(read_run(run.write(tmp_path / "run")), cleanup_clean=True).suite
    assert (suite.verdict, "0 of 3, needed: one" in suite.sentence) == ("failed", True)


def test_a_floor_of_nothing_is_not_met_where_nothing_passed() -> None:
    failed = classify_trial(facts_of("failed.reward_0", 12))
    suite = suite_verdict([failed] * 3, floor=0.0, cleanup_clean=True)
    assert (suite.verdict, suite.floor_met) == ("failed", False)
    assert "too few passed: 0 of 3, needed: one" in suite.sentence
