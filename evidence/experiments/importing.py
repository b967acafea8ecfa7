"""Imports a finished job: each candidate on each dataset as one experiment, whole or not at all."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone

from benchsite.lib.folder import Folder
from benchsite.lib.strict_json import Json
from evidence.experiments.files import place, stored_files
from evidence.experiments.suites import CaseContent, cases_of, publish_checkpoint, suite_named
from evidence.imports.description import ExperimentReport, JobReport, Note, TrialReport
from evidence.imports.identity import case_id, checkpoint_id, experiment_id, is_ambiguous, suite_id
from evidence.imports.job import JobRefused, read_job
from evidence.imports.outcomes import ReportedOutcome, Source, Trust
from evidence.imports.trial import Rule
from evidence.models import (
    Experiment,
    ExperimentFile,
    ExperimentResult,
    ExperimentState,
    ExperimentTrial,
    JobImport,
    Score,
    Suite,
    SuiteRevision,
)
from runs.models import AuditKind
from runs.services import access, audit
from runs.services.refusals import BadInput

MODES = ("subset", "replace")
LONGEST_ID = 200  # a dash and 16 digits come after it
NAMED_ERRORS = 5
_BATCH = 500

type Progress = Callable[[str], None]


class AllFinalized(BadInput):
    """Every experiment of the job is there already, and finalized for ever."""

    code = "import.all_finalized"
    sentence = (
        "Everything in this job was imported already, and a finalized experiment never changes. "
        "To import it once more beside the first, give it another id with --experiment-id."
    )


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How a job is imported; see docs/experiments.md. `publish_suite` is `subset`, `replace` or None."""

    experiment_id: str = ""
    name: str = ""
    suite_id: str = ""
    publish_suite: str | None = None
    main_reward: str = "reward"
    pass_threshold: float = 1.0
    artifacts: bool = True
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """One experiment of a job, with its ids; `experiment` is its row once it was imported."""

    experiment_id: str
    suite_id: str
    name: str
    report: ExperimentReport
    experiment: Experiment | None = None

    @property
    def title(self) -> str:
        """For people: the candidate and its dataset."""
        return f"{self.report.candidate.title} on {self.report.source or 'single tasks'}"


@dataclass(slots=True)
class JobImported:
    """What became of a job. `failed` has the sentence of each candidate that could not be imported."""

    report: JobReport
    options: ImportOptions
    imported: list[Planned] = field(default_factory=list)
    skipped: list[Planned] = field(default_factory=list)
    failed: list[tuple[Planned, str]] = field(default_factory=list)
    revisions: list[SuiteRevision] = field(default_factory=list)
    warnings: list[Note] = field(default_factory=list)


def import_job(
    path: Path, options: ImportOptions | None = None, *, user: User, progress: Progress | None = None
) -> JobImported:
    """Read a job folder and import what is not there yet.

    Raises BadInput for a folder or an option that cannot be used, AllFinalized when there is nothing left to import.
    A candidate that fails is listed and leaves nothing behind; the same call again imports only what is missing.
    """
    options = options or ImportOptions()
    say = progress or (lambda _: None)
    access.require(user, access.START)
    _check(options)
    say(f"reading {path.name}")
    try:
        rule = Rule(options.main_reward, options.pass_threshold)
        report = read_job(path, rule, progress=lambda done, of: say(f"reading {path.name}: {done} of {of} folders"))
    except JobRefused as refused:
        raise BadInput(refused.sentence, code=refused.code) from refused
    planned = _planned(report, options)
    _check_suites(planned, options)
    known = Experiment.objects.filter(experiment_id__in=[each.experiment_id for each in planned])
    states = dict(known.values_list("experiment_id", "state"))
    result = JobImported(report, options, warnings=list(report.warnings))
    for each in planned:
        if each.experiment_id in states:
            result.skipped.append(each)
            result.warnings.append(_skipped(each, states[each.experiment_id]))
    if planned and len(result.skipped) == len(planned):
        raise AllFinalized
    wanted = [each for each in planned if each.experiment_id not in states]
    if options.dry_run:
        result.imported = wanted
        return result
    _carry_out(result, wanted, path, user, say)
    return result


def publish_harbor_job(
    path: str | Path,
    *,
    user: User,
    experiment_id: str = "",
    name: str = "",
    suite_id: str = "",
    publish_suite: str | None = None,
    main_reward: str = "reward",
    pass_threshold: float = 1.0,
    artifacts: bool = True,
) -> dict[str, Json]:
    """Import a finished job from Python. Raises what `import_job` raises.

    `runs`: one for each experiment that was imported, with `experiment_id`, `url` (its path on the site),
    `trial_count` and `score_count`; `skipped` and `failed` name the other candidates.
    """
    options = ImportOptions(
        experiment_id, name, suite_id, publish_suite, main_reward, pass_threshold, artifacts=artifacts
    )
    result = import_job(Path(path), options, user=user)
    return {
        "runs": [
            {
                "experiment_id": each.experiment_id,
                "url": reverse("experiment", args=[each.experiment.key]) if each.experiment else "",
                "trial_count": len(each.report.trials),
                "score_count": sum(len(trial.rewards) for trial in each.report.trials),
            }
            for each in result.imported
        ],
        "skipped": [each.title for each in result.skipped],
        "failed": [f"{each.title}: {sentence}" for each, sentence in result.failed],
    }


def _check(options: ImportOptions) -> None:
    for flag, value, most in (
        ("--experiment-id", options.experiment_id, LONGEST_ID),
        ("--name", options.name, 200),
        ("--suite-id", options.suite_id, 255),
        ("--main-reward", options.main_reward, 255),
    ):
        if len(value) > most or not value.isprintable() or value != value.strip():
            sentence = f"{flag}: give at most {most} printable characters, without blanks around them."
            raise BadInput(sentence, code="import.bad_option")
    if not options.main_reward:
        raise BadInput("--main-reward: name the reward that decides, such as reward.", code="import.bad_option")
    if not math.isfinite(options.pass_threshold):
        raise BadInput("--pass-threshold: give a finite number, such as 1.0.", code="import.bad_option")
    if options.publish_suite not in (None, *MODES):
        raise BadInput("--publish-suite: give subset or replace.", code="import.bad_option")


def _planned(report: JobReport, options: ImportOptions) -> list[Planned]:
    base = options.experiment_id or report.job_id
    found = []
    for part in report.experiments:
        who = part.candidate
        identity = experiment_id(base, who.agent_name, who.model_provider, who.model_name, part.source)
        title = f"{options.name or report.name} [{who.title}]"
        found.append(Planned(identity, options.suite_id or suite_id(part.source), title[:255], part))
    return found


def _check_suites(planned: list[Planned], options: ImportOptions) -> None:
    sources = {each.report.source for each in planned}
    if options.suite_id and len(sources) > 1:
        sentence = f"--suite-id names one suite, and the job has {len(sources)} datasets; leave it out."
        raise BadInput(sentence, code="import.several_datasets")
    ambiguous = sorted(source for source in sources if is_ambiguous(source))
    if options.publish_suite and ambiguous and not options.suite_id:
        sentence = (
            f"--publish-suite: Harbor calls this dataset {ambiguous[0]!r}, as it does everybody's whose tasks lie in "
            "such a folder. Name the suite with --suite-id."
        )
        raise BadInput(sentence, code="import.ambiguous_suite")


def _skipped(planned: Planned, state: str) -> Note:
    sentence = (
        "It was imported already and is finalized; --experiment-id gives it another id."
        if state == ExperimentState.FINALIZED
        else "It is being published live and is still open; nothing is added to it."
    )
    return Note("skipped", f"{planned.title}: {sentence}", planned.experiment_id)


def _carry_out(result: JobImported, wanted: list[Planned], path: Path, user: User, say: Progress) -> None:
    report, options = result.report, result.options
    handed_in = JobImport.objects.create(
        job_id=report.job_id,
        job_name=report.name,
        harbor_version=report.harbor_version,
        created_by=user,
        created_by_name=audit.name_of(user),
        warnings=[[note.code, note.where, note.sentence] for note in report.warnings[:1000]],
    )
    suites = {
        each.suite_id: suite_named(
            each.suite_id, name=options.suite_id or each.report.source or "single tasks", user_name=audit.name_of(user)
        )
        for each in wanted
    }
    revisions = _publish(result, suites, user) if options.publish_suite else {}
    folder = Folder(path)
    for number, each in enumerate(wanted, start=1):
        say(f"importing {number} of {len(wanted)}: {each.title}, {len(each.report.trials)} trials")
        try:
            row = _import_one(
                each, result, handed_in, suites[each.suite_id], revisions.get(each.suite_id), folder, user
            )
        except IntegrityError:
            if not Experiment.objects.filter(experiment_id=each.experiment_id).exists():
                raise
            result.skipped.append(each)  # somebody else imported the same at this moment
            result.warnings.append(_skipped(each, ExperimentState.FINALIZED))
        except (OSError, ValueError) as error:
            result.failed.append((each, f"{type(error).__name__}: {error}"[:500]))
        else:
            result.imported.append(replace(each, experiment=row))


def _publish(result: JobImported, suites: dict[str, Suite], user: User) -> dict[str, SuiteRevision]:
    """One checkpoint for each suite, of all that the job ran of it. A task that changed is no part of it."""
    contents: dict[str, dict[tuple[str, str], CaseContent]] = {}
    for part in _planned(result.report, result.options):
        for case, checksums in part.report.cases.items():
            if len(checksums) == 1:
                content = CaseContent(part.report.source, case, next(iter(checksums)))
                contents.setdefault(part.suite_id, {})[(content.source, case)] = content
    changed = {note.where for note in result.report.warnings if note.code == "changed_task"}
    found = {}
    for identity, suite in suites.items():
        cases = [each for each in contents.get(identity, {}).values() if each.name not in changed]
        mode = result.options.publish_suite or "subset"
        if cases:
            found[identity] = publish_checkpoint(suite, cases, mode=mode, user_name=audit.name_of(user))
            result.revisions.append(found[identity])
    return found


def _import_one(
    planned: Planned,
    result: JobImported,
    handed_in: JobImport,
    suite: Suite,
    revision: SuiteRevision | None,
    folder: Folder,
    user: User,
) -> Experiment:
    """Files first, then every row in one transaction: an experiment is there as a whole, and finalized, or not."""
    part, report, options = planned.report, result.report, result.options
    identity = planned.experiment_id
    files = {
        trial.folder: stored_files(
            folder, trial.folder, trial.files, experiment_id=identity, all_of_them=options.artifacts
        )
        for trial in part.trials
    }
    of_job = stored_files(folder, "", report.files, experiment_id=identity, all_of_them=options.artifacts)
    with transaction.atomic():
        cases = cases_of(suite, {(part.source, trial.case) for trial in part.trials})
        pairs = [(case_id(suite.suite_id, part.source, trial.case), trial.checksum) for trial in part.trials]
        experiment = Experiment.objects.create(
            experiment_id=identity,
            name=planned.name,
            source=Source.IMPORTED,
            trust=Trust.REPORTED,
            suite=suite,
            revision=revision,
            checkpoint_id=checkpoint_id(pair for pair in pairs if pair[1]),
            dataset=part.source,
            agent_name=part.candidate.agent_name,
            agent_version=part.agent_version,
            model_provider=part.candidate.model_provider,
            model_name=part.candidate.model_name,
            harbor_version=report.harbor_version,
            job_import=handed_in,
            job_id=report.job_id,
            main_reward=options.main_reward,
            pass_threshold=options.pass_threshold,
            requested=part.requested,
            retries=report.retries,
            overrides=part.overrides,
            details={"times_without_zone": report.times, "unfinished": report.unfinished},
            created_by=user,
            created_by_name=audit.name_of(user),
        )
        rows = [_trial(experiment, trial, cases[(part.source, trial.case)].pk) for trial in part.trials]
        ExperimentTrial.objects.bulk_create(rows, batch_size=_BATCH)
        Score.objects.bulk_create(
            [score for row, trial in zip(rows, part.trials, strict=True) for score in _scores(row, trial)],
            batch_size=_BATCH,
        )
        placed = [file for row in rows for file in place(files[row.trial_name], experiment, row)]
        ExperimentFile.objects.bulk_create([*placed, *place(of_job, experiment, None)], batch_size=_BATCH)
        Experiment.objects.filter(pk=experiment.pk, state=ExperimentState.OPEN).update(
            state=ExperimentState.FINALIZED,
            result=ExperimentResult.COMPLETED if part.complete else ExperimentResult.FAILED,
            error=_errors(part),
            finalized_at=timezone.now(),
        )
        audit.record(
            AuditKind.EXPERIMENT_IMPORT,
            user=user,
            subject=identity,
            detail={"job": report.job_id, "trials": len(rows), "suite": suite.suite_id},
        )
    experiment.refresh_from_db()
    return experiment


def _trial(experiment: Experiment, trial: TrialReport, case: int) -> ExperimentTrial:
    usage = trial.usage
    details: dict[str, Any] = {"times": trial.times, "verifier_mode": trial.verifier_mode}
    if trial.steps:
        details["steps"] = list(trial.steps)
    if trial.planted:
        details["planted"] = list(trial.planted)
    if trial.repeated_usage is not None:
        repeated = trial.repeated_usage
        details["repeated_usage"] = [
            repeated.input_tokens, repeated.cache_tokens, repeated.output_tokens, repeated.cost_usd,
        ]  # fmt: skip
    return ExperimentTrial(
        experiment=experiment,
        source=experiment.source,
        trust=experiment.trust,
        trial_name=trial.folder,
        case_id=case,
        checksum=trial.checksum,
        attempt=trial.attempt,
        reported_outcome=trial.outcome.value,
        error_type=trial.error_type,
        error=trial.error,
        agent_error=trial.agent_error,
        started_at=trial.started_at,
        finished_at=trial.finished_at,
        duration_ms=trial.duration_ms,
        input_tokens=usage.input_tokens,
        cache_tokens=usage.cache_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.cost_usd,
        usage_source=usage.source,
        regraded=trial.regraded,
        agent_version=trial.agent_version,
        conversation_id=trial.conversation_id,
        badges=list(trial.badges),
        details=details,
    )


def _scores(row: ExperimentTrial, trial: TrialReport) -> list[Score]:
    return [
        Score(
            trial=row,
            name=reward.name,
            number=reward.number,
            evaluator=f"harbor.{reward.name}",
            evaluator_version=trial.checksum,
            main=reward.main,
            passed=reward.passed,
        )
        for reward in trial.rewards
    ]


def _errors(part: ExperimentReport) -> str:
    """Five trials that were not graded, with what happened to each, and how many more there are."""
    lost = [trial for trial in part.trials if not trial.outcome.graded]
    said = [f"{trial.case} attempt {trial.attempt}: {trial.error[:200]}" for trial in lost[:NAMED_ERRORS]]
    if len(lost) > NAMED_ERRORS:
        kinds = Counter(trial.outcome for trial in lost[NAMED_ERRORS:])
        words = [
            f"{kinds[outcome]} more {word}"
            for outcome, word in ((ReportedOutcome.ERRORED, "errored"), (ReportedOutcome.NOT_REPORTED, "not reported"))
            if kinds[outcome]
        ]
        said.append(" and ".join(words))
    missing = part.requested - len(part.trials)
    if missing:
        said.append(f"{missing} of {part.requested} trials left no folder")
    return "; ".join(said)
