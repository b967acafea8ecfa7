"""What a run amounts to: every trial classified, and the verdict over them. Whoever judges a run comes here."""

from dataclasses import dataclass

from evidence.suite.run_facts import RunFacts
from evidence.suite.verdict import SuiteVerdict, suite_verdict
from evidence.trial.classify import Classification, classify_trial

# Of a spec that cannot be read: nothing less than every trial is enough.
STRICTEST_FLOOR = 1.0


@dataclass(frozen=True, slots=True)
class RunJudgement:
    """The classifications in the order of the run's trials, and the verdict over them."""

    trials: tuple[Classification, ...]
    suite: SuiteVerdict


def judge(facts: RunFacts, *, cleanup_clean: bool, quarantined: bool = False) -> RunJudgement:
    """``quarantined`` says that a known secret was still found in the evidence: then nothing of it counts."""
    trials = tuple(classify_trial(trial) for trial in facts.trials)
    suite = suite_verdict(
        trials,
        floor=facts.spec.scoring.pass_rate_floor if facts.spec else STRICTEST_FLOOR,
        cleanup_clean=cleanup_clean,
        run_failed=facts.broke,
        integrity_held=all(check.ok for check in facts.checks) and not quarantined,
    )
    return RunJudgement(trials, suite)
