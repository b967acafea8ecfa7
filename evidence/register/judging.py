"""The judge of a run that ended: keeps its evidence, classifies its trials, and records what they amount to."""

import logging
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evidence.models import StatementReason
from evidence.reading.clocks import Interval
from evidence.register.ingest import ingest, register_files
from evidence.register.keys import CannotSign, signing_key
from evidence.register.publishing import publish, quarantined
from evidence.register.signing import JOURNAL_PATH, sign_again, sign_run
from evidence.register.store import HashDiffers
from evidence.suite.judgement import judge
from evidence.suite.run_facts import Expected, RunFacts, read_run
from evidence.trial.classify import Classification
from evidence.trial.facts import TrialFacts
from runs.checks.check import Check
from runs.engine.ending.judge import Judged
from runs.models import Cleanup, Run
from runs.outcomes.codes import CODES
from runs.services import lifecycle
from runs.services.transitions import Failure, TrialEnd

log = logging.getLogger(__name__)

_PHASES = {"setup_s": ("environment", "setup"), "agent_s": ("agent",), "verifier_s": ("verifier",)}


class RegisterJudge:
    """What `runs.engine.ending.judge.Judge` asks for; the setting ``RUN_JUDGE`` names it."""

    def keep(self, run: Run, folder: Path, *, secrets: Iterable[str]) -> None:
        """Register everything in the run's folder, scrubbed of ``secrets``. Raises OSError; repeatable."""
        ingest(run, folder, secrets=secrets)

    def judge(self, run: Run, folder: Path, *, cleanup: Cleanup, secrets: Iterable[str]) -> Judged:
        """Write each trial's result into its row, and publish the suite's; returns what the run's row is to say."""
        facts = read_run(folder, Expected(run.key, run.spec_sha256))
        hidden, secrets = quarantined(run), list(secrets)
        judgement = judge(facts, cleanup_clean=cleanup is Cleanup.CLEAN, quarantined=hidden)
        for trial, result in zip(facts.trials, judgement.trials, strict=True):
            if facts.spec is not None:
                lifecycle.record_trial(run.key, trial.trial, trial_end(trial, result))
        if facts.spec is None:
            # The folder's trials may be fewer or others than the run's; of none anything is believed.
            code = CODES["integrity.spec_unreadable"]
            lifecycle.close_trials(run.key, bucket=code.bucket, failure_class=code.klass.value, failure_code=code.name)
        run.cleanup = cleanup  # so that the documents say it; the row gets it with the verdict
        register_files(run, folder, [JOURNAL_PATH], secrets=secrets)  # the cleanup wrote into it
        publish(run, facts, judgement, secrets=secrets)
        try:
            said = run.verdict or judgement.suite.verdict.value  # the one that was written once
            sign_run(run, folder, facts, judgement, verdict=said, quarantined=hidden, secrets=secrets)
        except HashDiffers:  # of what was stored a moment ago: the run has to end, and is not signed
            log.exception("run %s: what was stored of it is not what was registered", run.key)
        return Judged(
            verdict=judgement.suite.verdict,
            failure=_failure(facts),
            interrupted=facts.interrupted,
            codes=tuple(result.code for result in judgement.trials),
        )

    def cleaned(self, run: Run, folder: Path) -> None:
        """A cleanup that went on after the end wrote into the journal: what is stored now is stated anew."""
        sign_again(run, folder, StatementReason.CLEANUP)

    def checks(self) -> list[Check]:
        """A run without a signature is as good as one with it; only its origin can then not be proved."""
        try:
            signing_key("worker")
        except CannotSign as error:
            what, _, remedy = error.sentence.partition(". ")
            return [Check("signing key", False, error.code, f"Runs will not be signed: {what}.", remedy, "note")]
        return [Check("signing key", True, "signing.key_ready", "Runs are signed when they end.", level="note")]


def _failure(facts: RunFacts) -> Failure | None:
    if not facts.failure:
        return None
    document = facts.failure
    return Failure(
        stage=str(document.get("stage", "")),
        failure_class=str(document.get("class", "")),
        code=str(document.get("code", "")),
        detail=str(document.get("detail", "")),
    )


def trial_end(facts: TrialFacts, judgement: Classification) -> TrialEnd:
    """What the classifier made of one trial; what was not recorded stays None."""
    timings: dict[str, Any] = {"clock": facts.total.clock}
    for key, phases in _PHASES.items():
        seconds = [facts.phases.get(phase, Interval()).seconds for phase in phases]
        known = [value for value in seconds if value is not None]
        if len(known) == len(seconds):
            timings[key] = round(sum(known), 3)
    if facts.total.seconds is not None:
        timings["total_s"] = round(facts.total.seconds, 3)
    return TrialEnd(
        bucket=judgement.bucket,
        failure_class=judgement.klass.value,
        failure_code=judgement.failure_code,
        reward=judgement.reward if judgement.evaluated else facts.reward.state.value_or_none,
        trial_uuid=_uuid(facts.trial_uuid),
        started_at=_time(facts.total.started_at),
        ended_at=_time(facts.total.ended_at) if not facts.total.inverted else None,
        timings=timings,
        steps=facts.endpoint.completions or None,
        prompt_tokens=facts.endpoint.prompt_tokens,
        completion_tokens=facts.endpoint.completion_tokens,
        cost_units=None if facts.cost is None else facts.cost.units,
        cost_currency="" if facts.cost is None else facts.cost.currency,
        cost_basis="" if facts.cost is None else facts.cost.basis,
        badges=list(judgement.badges),
    )


def _uuid(text: str | None) -> uuid.UUID | None:
    try:
        return None if text is None else uuid.UUID(text)
    except ValueError:
        return None


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
