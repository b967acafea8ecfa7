"""The one classifier of trials: an ordered table of rows (docs/evidence.md), of which the first that matches decides.

Pure and total: every TrialFacts gets exactly one bucket, class, code and sentence, and the row that decided is named.
Caches, pages, commands and exports use this function and no other.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from evidence.reading.proofs import Proof
from evidence.reading.rewards import RewardState
from evidence.trial.agent_output import REASONS
from evidence.trial.facts import Timing, TrialFacts
from runs.outcomes.buckets import EVALUATED, Bucket
from runs.outcomes.codes import CODES, SENTENCE_FIELDS, STEP_OF_ROW, FailureClass, Step


@dataclass(frozen=True, slots=True)
class Classification:
    """The judgement on one trial. `row` is the row of the table that decided, 1 to 12; `detail` is private."""

    bucket: Bucket
    klass: FailureClass
    code: str
    title: str
    sentence: str
    remedy: str
    row: int
    badges: tuple[str, ...] = ()
    detail: str = ""

    @property
    def evaluated(self) -> bool:
        return self.bucket in EVALUATED

    @property
    def step(self) -> Step:
        """The step that decided."""
        return STEP_OF_ROW[self.row]

    @property
    def reward(self) -> int | None:
        """The reward that counts: the verifier's, or 0 by rule where it was given nothing to grade; else None."""
        return {Bucket.PASSED: 1, Bucket.FAILED: 0}.get(self.bucket)

    @property
    def failure_code(self) -> str:
        """The code where the reward alone does not say why; else empty."""
        return "" if self.code in ("passed.reward_1", "failed.reward_0") else self.code


@dataclass(frozen=True, slots=True)
class Finding:
    """A row that matched: its code, the numbers for its sentence, and a private detail."""

    code: str
    values: tuple[tuple[str, object], ...] = ()
    detail: str = ""


# The endpoint's failures are judged in row 7, also when it failed before any trial.
_OF_THE_ENDPOINT = (FailureClass.AUTHENTICATION, FailureClass.ROUTING, FailureClass.SERVING_RUNTIME)

type Row = Callable[[TrialFacts], Finding | None]


def classify_trial(facts: TrialFacts) -> Classification:
    """The one bucket, class and code of a trial."""
    for number, row in ROWS:
        finding = row(facts)
        if finding is not None:
            return _classification(number, finding, facts)
    return _classification(12, _graded(facts), facts)


def _integrity(facts: TrialFacts) -> Finding | None:
    return _first_failed(facts.checks, FailureClass.INTEGRITY)


def _invalid_controls(facts: TrialFacts) -> Finding | None:
    return _first_failed(facts.checks, FailureClass.INVALID_EVALUATION)


def _cancelled(facts: TrialFacts) -> Finding | None:
    return Finding("cancelled.requested") if facts.cancel is Timing.BEFORE_GRADE else None


def _lost(facts: TrialFacts) -> Finding | None:
    if facts.interrupted:
        return Finding("worker_runtime.interrupted")
    if facts.process_lost:
        return Finding("worker_runtime.process_lost")
    unexplained = not facts.started and not facts.own_failures and not _limits(facts)
    return Finding("worker_runtime.not_started") if unexplained else None


def _own_failure(facts: TrialFacts) -> Finding | None:
    if facts.endpoint.incompatible:
        return Finding("harness.gateway_incompatible")
    for failure in (*facts.own_failures, *((facts.harness_failure,) if facts.harness_failure else ())):
        if CODES[failure.code].klass not in _OF_THE_ENDPOINT:
            return Finding(failure.code, (("exit_code", failure.exit_code),), failure.detail)
    return None


def _limits(facts: TrialFacts) -> Finding | None:
    """A budget before a deadline: who is refused every request can only wait for its time to end."""
    if facts.budget is not None:
        return Finding(facts.budget.code, (("why", facts.budget.why),))
    deadline = facts.deadline
    if deadline is None or deadline.timing is not Timing.BEFORE_GRADE:
        return None
    return Finding(f"incomplete.{deadline.phase}_deadline", (("limit_s", seconds(deadline.limit_s)),))


def _endpoint(facts: TrialFacts) -> Finding | None:
    for own in facts.own_failures:
        if CODES[own.code].klass in _OF_THE_ENDPOINT:
            return Finding(own.code, detail=own.detail)
    failure = facts.endpoint.last_failure
    if failure is None:
        return None
    nothing_valid = facts.endpoint.completions == 0
    died_of_it = facts.agent.ended_with_error and facts.endpoint.ended_on_failure
    values = (("status", failure.status), ("why", failure.why or None))
    return Finding(failure.code, values) if nothing_valid or died_of_it else None


def _resources(facts: TrialFacts) -> Finding | None:
    if not facts.agent.ended_with_error or facts.output.refused:
        return None
    if facts.resources.out_of_memory:
        return Finding("resource_exhaustion.memory")
    if facts.resources.pids_limit_hits > 0:
        return Finding("resource_exhaustion.pids")
    return Finding("resource_exhaustion.disk") if facts.resources.tmpfs_full else None


def _unproved(facts: TrialFacts) -> Finding | None:
    if not facts.agent.ended:
        return Finding("invalid_evaluation.no_agent_end")
    if facts.endpoint.completions == 0:
        return Finding("invalid_evaluation.no_completion")
    for proof in facts.proofs:
        if not proof.ok:
            return _of_check(proof)
    return None


def _refused_output(facts: TrialFacts) -> Finding | None:
    code = facts.output.refused
    return Finding("failed.output_refused", (("why", REASONS[code]),), code) if code in REASONS else None


def _ungraded(facts: TrialFacts) -> Finding | None:
    verifier = facts.verifier
    if verifier.bad_transfers:
        return Finding("worker_runtime.verifier_transfer", detail=", ".join(verifier.bad_transfers))
    if not verifier.ended:
        return Finding("grading.verifier_not_run")
    if verifier.exit_code != 0:
        return Finding("grading.verifier_exit", (("exit_code", verifier.exit_code),))
    state = facts.reward.state
    if state in (RewardState.ONE, RewardState.ZERO) or state.is_contradiction:
        return None
    return Finding(f"grading.{state.value}", detail=facts.reward.detail)


def _contradicted(facts: TrialFacts) -> Finding | None:
    state = facts.reward.state
    return Finding(f"integrity.{state.value}", detail=facts.reward.detail) if state.is_contradiction else None


def _graded(facts: TrialFacts) -> Finding:
    return Finding("passed.reward_1" if facts.reward.state is RewardState.ONE else "failed.reward_0")


ROWS: tuple[tuple[int, Row], ...] = (
    (1, _integrity),
    (2, _invalid_controls),
    (3, _cancelled),
    (4, _lost),
    (5, _own_failure),
    (6, _limits),
    (7, _endpoint),
    (8, _resources),
    (9, _unproved),
    (10, _refused_output),
    (10, _ungraded),
    (11, _contradicted),
)


def _first_failed(checks: Iterable[Proof], klass: FailureClass) -> Finding | None:
    for check in checks:
        if not check.ok and CODES[check.code].klass is klass:
            return _of_check(check)
    return None


def _of_check(check: Proof) -> Finding:
    """A code whose sentence names what was seen gets it from its check, in words of our own."""
    return Finding(check.code, (("why", check.why or check.detail),), f"{check.name}: {check.detail}")


def _classification(row: int, finding: Finding, facts: TrialFacts) -> Classification:
    code = CODES[finding.code]
    known = {name: value for name, value in finding.values if value is not None}
    values = {**dict.fromkeys(SENTENCE_FIELDS, "not recorded"), **known}
    return Classification(
        bucket=code.bucket,
        klass=code.klass,
        code=code.name,
        title=code.title,
        sentence=code.sentence.format(**values),
        remedy=code.remedy,
        row=row,
        badges=_badges(facts, evaluated=code.bucket in EVALUATED),
        detail=finding.detail,
    )


def seconds(value: float | None) -> str:
    return "an unrecorded number of seconds" if value is None else f"{value:g} s"


def _badges(facts: TrialFacts, *, evaluated: bool) -> tuple[str, ...]:
    """Notes beside the result, in a fixed order; they never choose a bucket."""
    has_reward = facts.reward.state.value_or_none is not None
    late = facts.deadline is not None and facts.deadline.timing is Timing.BEFORE_GRADE
    found = {
        "graded_after_limit": has_reward and late,
        "reward_not_counted": has_reward and not evaluated and not late,
        "output_passed_over": bool(facts.output.passed_over),
        "step_limit_reached": facts.agent.step_limit_reached,
        "agent_timed_out": facts.agent.timed_out,
        "agent_exited_nonzero": facts.agent.ended_with_error,
        "oom_kills": facts.resources.out_of_memory,
        "pids_limit_hit": facts.resources.pids_limit_hits > 0,
        "tmpfs_full": facts.resources.tmpfs_full,
        "counters_unavailable": facts.agent.ended and not facts.resources.available,
        "answer_cut": facts.endpoint.cut > 0,
        "model_refused": facts.endpoint.model_refusals > 0,
        "context_window_exceeded": facts.endpoint.context_overflows > 0,
        "gateway_refusals": facts.endpoint.refusals > 0,
        "session_mismatch": facts.endpoint.session_mismatches > 0,
        "harbor_exception": facts.harbor_exception is not None,
        "late_cancel": facts.cancel is Timing.AFTER_GRADE,
        "late_deadline": facts.deadline is not None and facts.deadline.timing is Timing.AFTER_GRADE,
    }
    return (*(name for name, present in found.items() if present), *facts.notes)
