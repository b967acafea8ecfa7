"""Any valid profile with any constellation of results has a verdict that the database stores."""

from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from typing import Any

import pytest

from benchsite.lib.canonical import canonical_bytes
from evidence.suite.verdict import SuiteVerdict, suite_verdict
from evidence.trial.classify import Classification
from runs.documents.profile.loading import load_profile, require_runnable
from runs.engine.ending.conclusion import _state
from runs.engine.ending.judge import Judged
from runs.models import LEGAL_ENDINGS, Cleanup, Run, RunState
from runs.outcomes.buckets import Bucket, Verdict
from runs.outcomes.codes import CODES
from runs.services import lifecycle
from runs.services.transitions import Failure, TrialEnd
from tests.documents import samples
from tests.runs.rows import Process, run_row

FLOORS = [0.0, -0.0, 5e-324, 0.3, 1 / 3, 0.5, 2 / 3, 0.9999999999999999, 1.0, 1, 0]
# One of each bucket, and of errors one that is ours and one that is not.
RESULTS = [
    "passed.reward_1",
    "failed.reward_0",
    "worker_runtime.interrupted",
    "grading.reward_missing",
    "cancelled.requested",
]
OURS = Failure(stage="cleanup", failure_class="worker_runtime", code="worker_runtime.files", detail="")
ENDPOINTS = Failure(stage="probe", failure_class="routing", code="endpoint.unreachable", detail="")


def classified(name: str) -> Classification:
    code = CODES[name]
    return Classification(code.bucket, code.klass, code.name, code.title, code.sentence, code.remedy, row=1)


def floor_of(floor: float) -> float:
    """As a valid profile's spec has it."""
    change = samples.put("suites", "environment", "scoring", "pass_rate_floor", value=floor)
    profile = load_profile(canonical_bytes(samples.changed(samples.profile_v2(), change, rehash=True)))
    return require_runnable(profile).suites.environment.scoring.pass_rate_floor


def endings() -> Iterator[tuple[SuiteVerdict, tuple[Classification, ...], Cleanup, RunState]]:
    floors = sorted({floor_of(floor) for floor in FLOORS})
    results = [case for count in (1, 2, 3) for case in combinations_with_replacement(map(classified, RESULTS), count)]
    for case, floor, cleanup, failure, held, interrupted in product(
        results, floors, [Cleanup.CLEAN, Cleanup.FAILED], [None, OURS, ENDPOINTS], [True, False], [True, False]
    ):
        # As `RunFacts.broke` has it: what the endpoint did is no failure of our own side.
        verdict = suite_verdict(
            case,
            floor=floor,
            cleanup_clean=cleanup is Cleanup.CLEAN,
            run_failed=interrupted or failure is OURS,
            integrity_held=held,
        )
        judged = Judged(verdict.verdict, failure, interrupted, ())
        yield verdict, case, cleanup, _state(judged, interrupted=interrupted)


def test_every_verdict_is_legal_with_the_state_in_which_its_run_ends() -> None:
    for verdict, case, cleanup, state in endings():
        assert verdict.verdict in LEGAL_ENDINGS[state]
        if verdict.verdict is Verdict.PASSED:
            assert verdict.counts.passed and verdict.counts.evaluated == len(case) and cleanup is Cleanup.CLEAN


@pytest.mark.django_db
def test_every_kind_of_ending_is_stored_by_the_database() -> None:
    """The floor decides nothing that is stored but the verdict, so each other difference is saved once."""
    saved: set[Any] = set()
    for verdict, case, cleanup, state in endings():
        kind = (verdict.verdict, tuple(result.bucket for result in case), cleanup, state)
        if kind not in saved:
            saved.add(kind)
            _store(verdict, case, cleanup, state)
    assert {kind[0] for kind in saved} == set(Verdict)


def _store(verdict: SuiteVerdict, case: tuple[Classification, ...], cleanup: Cleanup, state: RunState) -> None:
    run = run_row(tasks=tuple(f"task-{number}" for number in range(1, len(case) + 1)))
    assert lifecycle.claim(run.pk, worker="local", identity=Process(), host="host-local")
    if any(result.bucket is Bucket.CANCELLED for result in case):
        lifecycle.request_cancel(run.pk, user=None)
    for ordinal, result in enumerate(case, 1):
        end = TrialEnd(
            bucket=result.bucket,
            failure_class=result.klass.value,
            failure_code=result.failure_code,
            reward=result.reward,
        )
        lifecycle.record_trial(run.pk, ordinal, end)
    assert lifecycle.finish(run.pk, state=state, verdict=verdict.verdict, cleanup=cleanup)
    stored = Run.objects.get(pk=run.pk)
    assert (stored.state, stored.verdict, stored.count_requested) == (state, verdict.verdict, len(case))
