"""Believable experiments for pages: a suite with two revisions, candidates with several attempts, warnings."""

import hashlib
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.utils import timezone

from evidence.models import (
    Case,
    Experiment,
    ExperimentFile,
    ExperimentTrial,
    JobImport,
    RevisionCase,
    Score,
    Suite,
    SuiteRevision,
)
from tests.experiments.rows import finalize

CASES = (
    "csv-merge-keep-order", "dedupe-log-lines", "extract-archive-safely", "file-tree", "json-patch-nested",
    "ledger-totals", "rename-with-collisions", "rotate-logs-by-size-and-age",
)  # fmt: skip
# One letter an attempt: passed, failed, errored, not reported; a word a case.
_PLANS = {
    "alpha": ("PPP", "PPF", "PPP", "PFP", "FFF", "PPP", "EPE", "FFF"),
    "beta": ("PPP", "PPP", "PPF", "FFP", "FPF", "PPP", "PPP", "ENN"),
    "once": ("P", "F", "P", "P", "F", "P", "E", "F"),
}
_OUTCOMES = {"P": "reported_passed", "F": "reported_failed", "E": "errored", "N": "not_reported"}


def checksum(case: str, edition: int = 1) -> str:
    return hashlib.sha256(f"{case} {edition}".encode()).hexdigest()


def made_suite() -> Suite:
    """Eight cases; the second revision changed one and added one."""
    suite = Suite.objects.create(suite_id="harbor-suite-0f3a9c21b7d45e66", name="shell-basics")
    cases = [
        Case.objects.create(suite=suite, case_id=f"harbor-task-{checksum(name)[:16]}", source="shell-basics", name=name)
        for name in CASES
    ]
    for number, of in ((1, cases[:-1]), (2, cases)):
        revision = SuiteRevision.objects.create(
            suite=suite, number=number, mode="subset", case_count=len(of), created_by_name="operator-1",
            checkpoint_id=f"harbor-checkpoint-{checksum(str(number))[:16]}",
        )  # fmt: skip
        for case in of:
            edition = 2 if number == 2 and case.name == "file-tree" else 1
            RevisionCase.objects.create(revision=revision, case=case, checksum=checksum(case.name, edition))
    return suite


def made_experiment(suite: Suite, plan: str, *, user: User | None = None, **fields: Any) -> Experiment:
    """A finalized import of a plan; `fields` overwrite the experiment's."""
    said = _PLANS[plan]
    by = user.username if user else "operator-1"
    job = JobImport.objects.create(
        job_id="7c1e2a9c-0d4b-4b63-9d0e-1f0a3b5c7d9e", job_name=f"2026-11-30__{plan}", harbor_version="0.26.0",
        created_by=user, created_by_name=by,
        warnings=[["job_unfinished", "", "The job was not ended: Harbor was stopped."]],
    )  # fmt: skip
    values: dict[str, Any] = {
        "experiment_id": f"nightly-{plan}-5b1f0e9d", "name": f"nightly {plan}", "source": "imported",
        "trust": "reported", "suite": suite, "revision": suite.revisions.first(), "dataset": "shell-basics",
        "agent_name": "mini-swe-agent", "agent_version": "2.4.6", "model_provider": "openai",
        "model_name": f"coder-{plan}", "checkpoint_id": "harbor-checkpoint-4bf0a1f7f4d1c022", "job_import": job,
        "job_id": job.job_id, "harbor_version": "0.26.0", "requested": sum(map(len, said)) + (plan == "beta"),
        "created_by_name": by, "overrides": {"timeout_multiplier": 1.0},
    }  # fmt: skip
    one = Experiment.objects.create(**{**values, **fields})
    for index, (case, letters) in enumerate(zip(suite.cases.order_by("name"), said, strict=True)):
        for attempt, letter in enumerate(letters, start=1):
            _trial(one, case, attempt, letter, index)
    ExperimentFile.objects.create(experiment=one, path="config.json", state="missing", note="not in the folder")
    ExperimentFile.objects.create(
        experiment=one, path="result.json", state="ok", size=4812, sha256=checksum("result"), stored="x/result"
    )
    graded = all(letter in "PF" for word in said for letter in word)
    finalize(one, "completed" if graded else "failed")
    one.refresh_from_db()
    return one


def _trial(one: Experiment, case: Case, attempt: int, letter: str, index: int) -> ExperimentTrial:
    start = timezone.now() - timedelta(hours=9, minutes=index)
    errored = letter == "E"
    trial = ExperimentTrial.objects.create(
        experiment=one, source=one.source, trust=one.trust, trial_name=f"{case.name[:20]}__{letter}{index}{attempt}",
        case=case, checksum=checksum(case.name), attempt=attempt, reported_outcome=_OUTCOMES[letter],
        error_type="RuntimeError" if errored else "",
        error="RuntimeError: the agent's shell closed its pipe before it answered" if errored else "",
        agent_error="AgentTimeoutError" if letter == "F" and index == 4 else "",
        started_at=start, finished_at=start + timedelta(seconds=40 + 13 * index),
        duration_ms=None if letter == "N" else 40_000 + 13_000 * index + 900 * attempt,
        input_tokens=None if letter == "N" else 21_000 + 700 * index, cache_tokens=None,
        output_tokens=None if letter == "N" else 1_900 + 40 * attempt,
        cost_usd=None if letter == "N" else 0.0123 + index / 500, usage_source="result", agent_version="2.4.6",
        badges=["harbor_counted_otherwise"] if errored else [],
    )  # fmt: skip
    if letter in "PFE":
        main = Score(trial=trial, name="reward", number=float(letter == "P"), evaluator="harbor.reward", main=True)
        main.evaluator_version, main.passed = trial.checksum, None if errored else letter == "P"
        main.save()
        Score.objects.create(trial=trial, name="style", number=0.75, evaluator="harbor.style")
    return trial


def keep(trial: ExperimentTrial, path: str, data: bytes) -> ExperimentFile:
    """A file that was handed in with a trial, with its bytes in the storage."""
    sha256 = hashlib.sha256(data).hexdigest()
    stored = default_storage.save(f"experiments/{trial.experiment.key}/{sha256}", ContentFile(data))
    return ExperimentFile.objects.create(
        experiment=trial.experiment, trial=trial, path=path, state="ok", size=len(data), sha256=sha256, stored=stored
    )


def made(user: User | None = None) -> dict[str, Experiment]:
    """Two candidates with three attempts a case, one with a single attempt, an open one without a trial."""
    suite = made_suite()
    found = {plan: made_experiment(suite, plan, user=user) for plan in _PLANS}
    found["open"] = Experiment.objects.create(
        experiment_id="live-1", name="live run of tonight", source="live", trust="reported", suite=suite,
        agent_name="terminus", checkpoint_id="harbor-live-1", requested=24, created_by_name="ci",
    )  # fmt: skip
    return found
