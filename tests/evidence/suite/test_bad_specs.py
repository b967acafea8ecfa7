"""A stranger's folder may hold any spec: whatever it holds, the run is judged, and nothing of it is believed."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchsite.lib.canonical import walk
from benchsite.lib.problems import path_of
from evidence.suite.document import suite_document
from evidence.suite.judgement import judge
from evidence.suite.provenance import observed_worker, provenance_document
from evidence.suite.run_facts import read_run
from evidence.trial.document import trial_document
from runs.outcomes.buckets import Bucket, Verdict
from tests.evidence.folders import canonical, passing_run, sha256

type Place = tuple[str | int, ...]
BAD: list[Any] = [None, [], [1], {}, "", "x", -1, 0, 2, 1.5, True, False, 10**400, "\ud800"]
SPEC = passing_run(2).spec
PLACES = [location for location, _ in walk(SPEC) if location]


def judged(tmp_path: Path, place: Place, value: Any, *, rehash: bool = True) -> tuple[Verdict, set[str], list[str]]:
    """Verdict, codes and tasks of a run with another value in its spec, and with `rehash` the matching hash."""
    case = passing_run(2)
    case.spec = json.loads(canonical(SPEC))
    at: Any = case.spec
    for part in place[:-1]:
        at = at[part]
    at[place[-1]] = value
    confirmed = sha256(canonical(SPEC))
    case.rehash = False
    case.run["spec_sha256"] = sha256(json.dumps(case.spec, sort_keys=True, separators=(",", ":")).encode())
    if not rehash:
        case.run["spec_sha256"] = confirmed
    facts = read_run(case.write(tmp_path / "run"))
    found = judge(facts, cleanup_clean=True)
    documents = [trial_document(trial, result) for trial, result in zip(facts.trials, found.trials, strict=True)]
    provenance = provenance_document(facts, observed_worker(facts))
    json.dumps(suite_document(facts, found.suite, documents, cleanup={}, provenance_sha256="0" * 64))
    json.dumps(provenance)
    return found.suite.verdict, {trial.code for trial in found.trials}, [trial.task for trial in facts.trials]


@pytest.mark.parametrize("rehash", [True, False])
@pytest.mark.parametrize("value", [None, [], "x", 7], ids=repr)
def test_a_scoring_that_is_none_is_a_spec_that_cannot_be_used(tmp_path: Path, value: Any, rehash: bool) -> None:
    """Attack 3a"""
    verdict, codes, tasks = judged(tmp_path, ("scoring",), value, rehash=rehash)
    expected = "integrity.spec_unreadable" if rehash else "integrity.spec_mismatch"
    assert (verdict, codes, tasks) == (Verdict.ERROR, {expected}, ["unknown", "unknown"])


@pytest.mark.parametrize("value", [None, "1.0", [], [1.0], -1, -0.01, 1.01, 2, False, True], ids=repr)
def test_a_floor_that_is_no_share_is_a_spec_that_cannot_be_used(tmp_path: Path, value: Any) -> None:
    """Attack 3b, and 1e and 1f for what is no share"""
    verdict, codes, _ = judged(tmp_path, ("scoring", "pass_rate_floor"), value)
    assert (verdict, codes) == (Verdict.ERROR, {"integrity.spec_unreadable"})


@pytest.mark.parametrize("role", ["agent", "verifier", "gateway"])
def test_a_limit_without_end_is_a_spec_that_cannot_be_used(tmp_path: Path, role: str) -> None:
    """Attack 3c"""
    verdict, codes, _ = judged(tmp_path, ("limits", role, "cpus"), 10**400)
    assert (verdict, codes) == (Verdict.ERROR, {"integrity.spec_unreadable"})


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("tasks", 1, "ordinal"), 1),
        (("tasks", 1, "ordinal"), 3),
        (("tasks", 0, "ordinal"), 0),
        (("tasks", 1, "name"), "task-1"),
    ],
)
def test_tasks_that_are_not_numbered_or_named_each_once_are_no_spec(tmp_path: Path, place: Place, value: Any) -> None:
    """Attack 1g"""
    verdict, codes, _ = judged(tmp_path, place, value)
    assert (verdict, codes) == (Verdict.ERROR, {"integrity.spec_unreadable"})


@pytest.mark.parametrize("place", PLACES, ids=path_of)
def test_no_value_in_any_place_of_a_spec_stops_the_judgement_or_makes_a_failed_trial(
    tmp_path: Path, place: Place
) -> None:
    for number, value in enumerate(BAD):
        try:
            json.dumps(value).encode()
            canonical(value)
        except (ValueError, UnicodeEncodeError):
            continue
        (tmp_path / str(number)).mkdir()
        _, codes, tasks = judged(tmp_path / str(number), place, value)
        assert codes and len(tasks) == 2 and not any(code.startswith(f"{Bucket.FAILED}") for code in codes)


def test_the_folders_of_trials_are_named_without_a_spec(tmp_path: Path) -> None:
    root = passing_run(3).write(tmp_path / "run")
    (root / "spec.json").unlink()
    facts = read_run(root)
    assert [(trial.trial, trial.task) for trial in facts.trials] == [(1, "unknown"), (2, "unknown"), (3, "unknown")]
    assert {trial.code for trial in judge(facts, cleanup_clean=True).trials} == {"integrity.spec_unreadable"}
