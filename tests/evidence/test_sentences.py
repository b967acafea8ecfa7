"""What a code's sentence says is what happened: each observation that a sentence once misnamed, with its own words."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from benchsite.lib.folder import Folder
from evidence.reading.tree import tree_files, tree_sha256
from evidence.suite.judgement import judge
from evidence.suite.run_facts import read_run
from evidence.suite.verdict import suite_verdict
from evidence.trial.classify import classify_trial
from runs.outcomes.codes import CODES
from tests.evidence.folders import RunCase, passing_run
from tests.evidence.trial_facts import PASSING, facts_of


def first_of(folder: Path) -> str:
    return classify_trial(read_run(folder).trials[0]).code


def as_link(place: Path) -> None:
    place.rename(place.with_name("moved"))
    place.symlink_to(place.with_name("moved"))


def as_file(place: Path) -> None:
    shutil.rmtree(place)
    place.write_text("x")


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


def test_a_trial_of_a_run_that_was_cancelled_before_it_left_nothing_and_misses_nothing(tmp_path: Path) -> None:
    run = passing_run(2)
    run.never_started(2)
    assert classify_trial(read_run(run.write(tmp_path / "run")).trials[1]).code == "worker_runtime.not_started"


@pytest.mark.parametrize("value", ["", False, 0, [], {}])
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


def _no_probe(run: RunCase) -> None:
    run.run["probe"] = None


def _nothing_of(purpose: str) -> Callable[[RunCase], object]:
    return lambda run: run.trial.drop("transfer", purpose=purpose)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (_no_probe, "no egress probe that passed"),
        (_nothing_of("tests"), "grading program"),
        (_nothing_of("environment"), "no task files were sent"),
    ],
)
def test_a_missing_part_of_the_proof_is_among_those_that_its_sentence_names(
    change: Callable[[RunCase], object], word: str, tmp_path: Path
) -> None:
    run = passing_run(1)
    change(run)
    judged = classify_trial(read_run(run.write(tmp_path / "run")).trials[0])
    assert judged.code == "invalid_evaluation.proof_missing" and word in judged.sentence


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("integrity.foreign_trial", ("another task", "folder", "container", "ledger")),
        ("integrity.trial_identity", ("trial", "job", "session", "container", "process")),
        ("integrity.artifact_hash", ("byte for byte", "recorded no such copy")),
        ("integrity.run_identity", ("Folder", "record", "journal", "gateways", "expected")),
    ],
)
def test_a_sentence_names_all_that_gives_its_code(code: str, words: tuple[str, ...]) -> None:
    assert all(word in CODES[code].sentence for word in words)


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


def test_a_floor_of_nothing_is_not_met_where_nothing_passed() -> None:
    failed = classify_trial(facts_of("failed.reward_0", 12))
    suite = suite_verdict([failed] * 3, floor=0.0, cleanup_clean=True)
    assert (suite.verdict, suite.floor_met) == ("failed", False)
    assert "too few passed: 0 of 3, needed: one" in suite.sentence
