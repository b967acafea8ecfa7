"""Counts always add up; the suite passes only when everything was graded, passed, held and was cleaned up."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsite.lib.canonical import canonical_bytes
from evidence.suite.document import PROMOTION, suite_document
from evidence.suite.provenance import observed_worker, provenance_document
from evidence.suite.run_facts import read_run
from evidence.suite.verdict import OUR_SIDE, suite_verdict
from evidence.trial.classify import Classification, classify_trial
from evidence.trial.document import trial_document
from evidence.trial.facts import TrialFacts
from runs.outcomes.buckets import Bucket, Verdict
from runs.outcomes.codes import CODES, FailureClass
from tests.evidence.folders import AGENT_IMAGE, passing_run, worker_record
from tests.evidence.variants import cancel, cancelled_in_agent, interrupted_in_agent, reward


def result(code: str) -> Classification:
    found = CODES[code]
    return replace(
        classify_trial(TrialFacts(1, "task", started=False)),
        bucket=found.bucket,
        klass=found.klass,
        code=code,
    )


PASS, FAIL = result("passed.reward_1"), result("failed.reward_0")
GRADING, DEADLINE = result("grading.reward_domain"), result("incomplete.agent_deadline")
LOST, CANCELLED = result("worker_runtime.interrupted"), result("cancelled.requested")


@pytest.mark.parametrize(
    ("results", "expected", "rate"),
    [
        pytest.param(
            [PASS, PASS, PASS],
            Verdict.PASSED,
            "Passed: 3 of 3 · Graded: 3 of 3",
            id="all",
        ),
        pytest.param(
            [PASS, FAIL, PASS],
            Verdict.FAILED,
            "Passed: 2 of 3 · Graded: 3 of 3",
            id="one failed",
        ),
        pytest.param(
            [PASS, DEADLINE, CANCELLED],
            Verdict.CANCELLED,
            "Passed: 1 of 1 · Graded: 1 of 3",
            id="cancelled before the last",
        ),
        pytest.param(
            [PASS, FAIL, GRADING],
            Verdict.INCOMPLETE,
            "Passed: 1 of 2 · Graded: 2 of 3",
            id="one grade that is none",
        ),
        pytest.param(
            [GRADING] * 10,
            Verdict.INCOMPLETE,
            "Passed: 0 of 0 · Graded: 0 of 10",
            id="no grade at all",
        ),
        pytest.param(
            [PASS, LOST, LOST],
            Verdict.ERROR,
            "Passed: 1 of 1 · Graded: 1 of 3",
            id="worker lost after the first",
        ),
        pytest.param(
            [result("worker_runtime.start_failed")] * 50,
            Verdict.ERROR,
            "Passed: 0 of 0 · Graded: 0 of 50",
            id="nothing started",
        ),
        pytest.param([], Verdict.ERROR, "Passed: 0 of 0 · Graded: 0 of 0", id="nothing requested"),
    ],
)
def test_a_suite_amounts_to_one_verdict(results: list[Classification], expected: Verdict, rate: str) -> None:
    suite = suite_verdict(results, floor=1.0, cleanup_clean=True)
    assert (suite.verdict, suite.counts.sentence) == (expected, rate)
    counts = suite.counts
    assert counts.pass_rate == (counts.passed / counts.evaluated if counts.evaluated else None)
    assert (suite.floor_met is None) == (suite.counts.evaluated < suite.counts.requested or not results)


@pytest.mark.parametrize("change", [{"cleanup_clean": False}, {"run_failed": True}, {"integrity_held": False}])
def test_a_suite_of_passes_is_an_error_when_the_run_did_not_end_well(change: dict[str, bool]) -> None:
    """What an aggregate says never makes a pass."""
    suite = suite_verdict([PASS], floor=1.0, **{"cleanup_clean": True, **change})
    assert suite.verdict is Verdict.ERROR


def test_a_missed_floor_stays_a_fail_when_the_cleanup_failed() -> None:
    assert suite_verdict([FAIL], floor=1.0, cleanup_clean=False).verdict is Verdict.FAILED


@pytest.mark.parametrize(("passed", "floor", "expected"), [(1, 0.5, Verdict.PASSED), (0, 0.5, Verdict.FAILED)])
def test_the_floor_is_reached_exactly(passed: int, floor: float, expected: Verdict) -> None:
    results = [PASS] * passed + [FAIL] * (2 - passed)
    assert suite_verdict(results, floor=floor, cleanup_clean=True).verdict is expected


@given(
    st.lists(st.sampled_from(sorted(CODES)), max_size=6),
    st.floats(0, 1),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_counts_add_up_and_a_pass_needs_everything(
    codes: list[str], floor: float, clean: bool, failed: bool, held: bool
) -> None:
    results = [result(code) for code in codes]
    suite = suite_verdict(results, floor=floor, cleanup_clean=clean, run_failed=failed, integrity_held=held)
    counts = suite.counts
    assert counts.evaluated == counts.passed + counts.failed
    assert counts.requested == counts.evaluated + counts.error + counts.cancelled == len(codes)
    if suite.verdict is Verdict.PASSED:
        assert clean and held and not failed and counts.requested > 0
        assert counts.evaluated == counts.requested and counts.passed / counts.requested >= floor
    if suite.verdict is Verdict.CANCELLED:
        assert counts.cancelled > 0


def test_only_classes_of_our_own_side_make_an_error() -> None:
    for code in CODES.values():
        if code.bucket is Bucket.ERROR:
            verdict = suite_verdict([PASS, result(code.name)], floor=1.0, cleanup_clean=True).verdict
            assert verdict is (Verdict.ERROR if code.klass in OUR_SIDE else Verdict.INCOMPLETE)
    assert FailureClass.GRADING not in OUR_SIDE


@pytest.mark.parametrize(
    ("failure", "interrupted", "broke"),
    [
        (None, False, False),
        ({"class": "worker_runtime"}, False, True),
        ({"class": "integrity"}, False, True),
        (None, True, True),
        ({"class": "authentication"}, False, False),
        ({"class": "routing"}, False, False),
        ({"class": "serving_runtime"}, False, False),
        ({"class": "routing"}, True, True),
    ],
)
def test_an_endpoint_that_is_not_ready_leaves_a_run_incomplete_and_our_own_failures_are_errors(
    tmp_path: Path, failure: dict[str, Any] | None, interrupted: bool, broke: bool
) -> None:
    case = passing_run()
    whole = failure and {"stage": "probe", "code": "x", "detail": "", **failure}
    case.run.update(failure=whole, interrupted=interrupted)
    assert read_run(case.write(tmp_path / "run")).broke is broke


def _documents(where: Path, *changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    case = passing_run()
    for change in changes:
        change(case)
    run = read_run(case.write(where / "run"))
    results = [classify_trial(trial) for trial in run.trials]
    verdict = suite_verdict(results, floor=1.0, cleanup_clean=True, run_failed=run.interrupted)
    trials = [trial_document(trial, each) for trial, each in zip(run.trials, results, strict=True)]
    document = suite_document(
        run,
        verdict,
        trials,
        cleanup={"state": "clean", "found": 6, "removed": 6, "left": 0},
        provenance_sha256="0" * 64,
    )
    return document, provenance_document(run, observed_worker(run))


def test_the_suite_document_holds_every_field_and_no_null_identity(tmp_path: Path) -> None:
    document, provenance = _documents(tmp_path)
    assert document["schema"] == "anvil-serving.environment-suite-run/v1"
    assert document["verdict"]["value"] == "passed"
    assert document["promotion"] == {"authorized": False, "sentence": PROMOTION}
    assert {
        "model",
        "served_model",
        "runtime",
        "image",
        "hardware",
        "topology",
        "harnesses",
        "dataset",
    } <= set(document["identities"])
    assert document["identities"]["hardware"] == document["identities"]["served_model"] == "unavailable"
    assert b"null" not in canonical_bytes(document["identities"])
    assert b"null" not in canonical_bytes(provenance["declared"]) + canonical_bytes(provenance["observed"]["kernel"])
    assert provenance["observed"]["runtime"] == "unavailable"
    assert provenance["observed"]["ledger"]["trials"]["1"]["completions"] == 3
    assert len(document["trials"]) == 3


def test_provenance_names_product_engine_and_images_as_the_worker_recorded_them_with_the_run(tmp_path: Path) -> None:
    _, provenance = _documents(tmp_path, lambda case: case.run.update(worker=worker_record("0.9.1")))
    observed = provenance["observed"]
    assert observed["product"] == {"name": "benchsite", "version": "0.9.1"}
    assert observed["engine"]["version"] == "29.6.1" and observed["kernel"] == "6.1.0"
    assert observed["images"]["agent"] == AGENT_IMAGE
    assert observed["image_recipes"] == dict.fromkeys(("agent", "verifier", "gateway"), "8" * 64)
    assert (observed["interpreter"], observed["adapter_sha256"]) == ("3.12.1", "6" * 64)


@pytest.mark.parametrize("worker", [None, [], "x", {"report": 1, "version": None}, {"report": {"assets": []}}])
def test_what_a_worker_did_not_record_is_unavailable(worker: object, tmp_path: Path) -> None:
    _, provenance = _documents(tmp_path, lambda case: case.run.update(worker=worker))
    names = ("product", "engine", "kernel", "hardware", "limits", "images", "image_recipes", "harness_lock_sha256")
    assert {name: provenance["observed"][name] for name in names} == dict.fromkeys(names, "unavailable")


def test_provenance_lists_the_checks_of_the_run_and_of_every_trial(tmp_path: Path) -> None:
    """A check that fails in the third trial alone stands there, as that trial's."""

    def change(case: Any) -> None:
        case.trials[2].event("opened", role="agent")["image_id"] = "sha256:" + "0" * 64

    _, provenance = _documents(tmp_path, change)
    checks = provenance["observed"]["checks"]
    assert [check["trial"] for check in checks] == sorted(check["trial"] for check in checks)
    assert {check["trial"] for check in checks} == {0, 1, 2, 3}
    assert [(check["trial"], check["name"]) for check in checks if not check["held"]] == [(3, "agent.image")]
    assert len({(check["trial"], check["name"]) for check in checks}) == len(checks)
    assert not [check for check in checks if "/" in check["name"]]


def test_a_kept_file_that_differs_is_no_name_of_its_own_in_the_provenance(tmp_path: Path) -> None:
    def change(case: Any) -> None:
        kept = case.trials[1].kept
        kept[next(name for name in kept if name.startswith("agent/"))] = b"another"

    _, provenance = _documents(tmp_path, change)
    failed = [(c["trial"], c["name"]) for c in provenance["observed"]["checks"] if not c["held"]]
    assert failed == [(2, "kept.files")]


def test_an_interrupted_run_keeps_its_first_trial(tmp_path: Path) -> None:
    """1 evaluated, 2 error worker_runtime.interrupted; the run's verdict is error."""

    def change(case: Any) -> None:
        case.trials.append(case.trials.pop(0))
        interrupted_in_agent(case)
        case.trials.insert(0, case.trials.pop())
        case.never_started(3)

    document, _ = _documents(tmp_path, change)
    assert [(trial["bucket"], trial["failure"] and trial["failure"]["code"]) for trial in document["trials"]] == [
        ("passed", None),
        ("error", "worker_runtime.interrupted"),
        ("error", "worker_runtime.interrupted"),
    ]
    assert document["verdict"]["value"] == "error"


def test_a_cancelled_run_counts_what_was_graded_before(tmp_path: Path) -> None:
    def change(case: Any) -> None:
        case.trials.insert(0, case.trials.pop(1))
        cancelled_in_agent(case)
        case.trials.insert(0, case.trials.pop(1))
        case.never_started(3)
        cancel(110)(case)

    document, _ = _documents(tmp_path, change)
    assert [trial["bucket"] for trial in document["trials"]] == ["passed", "cancelled", "cancelled"]
    assert document["verdict"]["value"] == "cancelled"
    assert document["counts"] == {
        "requested": 3,
        "evaluated": 1,
        "passed": 1,
        "failed": 0,
        "error": 0,
        "cancelled": 2,
    }


def test_no_exception_text_and_no_harness_aggregate_reaches_the_document(tmp_path: Path) -> None:
    """The harness's own figures and texts are never shown as results."""

    def change(case: Any) -> None:
        from tests.evidence.folders import exception

        case.trial.result["exception_info"] = exception("SentinelError")
        case.trial.result["verifier_result"] = {"rewards": {"reward": 0.5}}

    document, provenance = _documents(tmp_path, change)
    assert b"SENTINEL" not in canonical_bytes(document) + canonical_bytes(provenance)
    assert b"SentinelError" not in canonical_bytes(document) + canonical_bytes(provenance)
    assert document["trials"][0]["failure"]["code"] == "harness.exception"


def test_cost_zero_with_tokens_is_not_reported(tmp_path: Path) -> None:
    document, _ = _documents(tmp_path, reward(b'{"reward":0}'))
    usage = document["trials"][0]["usage"]
    assert usage["cost"] is None and usage["prompt_tokens"] == 300


def test_durations_need_like_clocks(tmp_path: Path) -> None:
    """Unknown zone marked, negative durations unknown."""

    def change(case: Any) -> None:
        case.trial.result["agent_execution"] = {
            "started_at": "2026-06-17T04:00:04",
            "finished_at": "2026-06-17T04:00:05Z",
        }
        case.trial.result["verifier"] = {
            "started_at": "2026-06-17T04:00:04",
            "finished_at": "2026-06-17T04:00:06",
        }

    document, _ = _documents(tmp_path, change)
    timings = document["trials"][0]["timings"]
    assert (timings["agent"]["seconds"], timings["agent"]["clock"]) == (None, "unknown zone")
    assert (timings["verifier"]["seconds"], timings["verifier"]["clock"]) == (2.0, "unknown zone")
    assert timings["trial"]["clock"] == "utc"
