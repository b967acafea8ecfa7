"""A job folder as one description: its trials by candidate and dataset, and what is to say about it.

A trial is a folder exactly one level below the job whose own result or config names it, and the job's id. What lies
deeper was written by an agent or a verifier, and is never taken for a result.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchsite.lib.folder import FileState, Folder, printable
from benchsite.lib.foreign_files import is_foreign
from benchsite.lib.problems import CodedError
from evidence.imports.description import Candidate, ExperimentReport, FileEntry, JobReport, Note, TrialReport
from evidence.imports.documents import MAX_FILE_BYTES, JsonFile, mapping, matches, read_json, sequence, text
from evidence.imports.outcomes import ReportedOutcome
from evidence.imports.trial import LONGEST, ReadTrial, Rule, agent_of, read_trial
from evidence.reading.clocks import moment

MAX_TRIALS = 10_000
MAX_JOB_BYTES = 2 * 1024 * 1024 * 1024
LONGEST_ID = 64
_VERSIONS = {"result.json": (1,), "config.json": (1,), "lock.json": (1, 2, 3)}
_JOB_FILES = ("result.json", "config.json", "lock.json", "job.log")
_NAMED = 5

type Progress = Callable[[int, int], None]


class JobRefused(CodedError):
    """A folder that is no job, or one beyond the bounds."""


def is_job_folder(path: Path) -> bool:
    """Whether this looks like a job that a plain `harbor run` wrote: cheap, and without reading a trial's result."""
    folder = Folder(path)
    result = read_json(folder, "result.json").content
    if "n_total_trials" in result and "stats" in result:
        return True
    lock = read_json(folder, "lock.json", limit=MAX_FILE_BYTES).content
    if isinstance(lock.get("trials"), list) and "harbor" in lock:
        return True
    names = folder.folders("", limit=50)
    return any(read_json(folder, f"{name}/config.json").content.get("trial_name") == name for name in names)


def read_job(path: Path, rule: Rule | None = None, *, progress: Progress | None = None) -> JobReport:
    """Everything that the folder tells. Raises JobRefused; whatever lies in it, nothing else is raised."""
    rule, folder = rule or Rule(), Folder(path)
    if not os.path.isdir(path):  # noqa: PTH112 - false for a name too long and for a folder above that is closed
        raise JobRefused("import.no_folder", f"There is no folder {printable(str(path))} that can be opened.")
    names = folder.folders("", limit=2 * MAX_TRIALS + 1)
    if len(names) > MAX_TRIALS:
        raise JobRefused(
            "import.too_many_trials", f"The job has more than {MAX_TRIALS:,} trials. Import it in several parts."
        )
    warnings: list[Note] = []
    documents = {name: _job_file(folder, name, warnings) for name in _VERSIONS}
    found, files_of_job = _trials(folder, names, rule, warnings, progress), _job_files(folder)
    result, lock = documents["result.json"], documents["lock.json"]
    job_id = _job_id(result, found, warnings)
    mine = [trial for trial in found if not trial.job_id or matches(trial.job_id, job_id)]
    _note_strangers(found, job_id, warnings)
    if not job_id or not (mine or result.content):
        raise JobRefused(
            "import.no_job",
            f"{printable(str(path))} is no job folder of Harbor: no result.json, lock or trial in it tells of a job.",
        )
    stats = mapping(result.content.get("stats"))
    unfinished = bool(result.content) and result.content.get("finished_at") is None
    experiments = _experiments(mine, lock.content, result.content, warnings)
    if unfinished:
        warnings.append(Note("job_unfinished", "The job was not ended: Harbor still ran, was stopped or was killed."))
    _note_trials(experiments, stats, warnings)
    return JobReport(
        name=printable(path.resolve().name)[:LONGEST] or "job",
        job_id=job_id,
        harbor_version=text(mapping(lock.content.get("harbor")).get("version"))[:LONGEST_ID],
        experiments=experiments,
        warnings=tuple(warnings),
        files=files_of_job,
        retries=_count(stats.get("n_retries")),
        unfinished=unfinished,
        times={
            key: value
            for key in ("started_at", "updated_at", "finished_at")
            if moment(value := text(result.content.get(key))) is not None
        },
    )


def _job_file(folder: Folder, name: str, warnings: list[Note]) -> JsonFile:
    """One of the job's own documents. Without it the job is read from its trials, and that is said."""
    limit = MAX_FILE_BYTES if name == "lock.json" else 16 * 1024 * 1024
    document = read_json(folder, name, limit=limit, versions=_VERSIONS[name], unread=("stats", "evals"))
    if document.trouble and (name == "result.json" or not document.missing):
        reason = document.reason if document.missing else f"it was not taken: {document.reason}"
        sentence = f"The job's own {name}: {reason}; what it would tell is read from the trials, or not reported."
        warnings.append(Note("job_file_not_taken", sentence, name))
    return document


def _trials(
    folder: Folder, names: tuple[str, ...], rule: Rule, warnings: list[Note], progress: Progress | None
) -> list[ReadTrial]:
    found: list[ReadTrial] = []
    size = 0
    for number, name in enumerate(names, start=1):
        trial = None if is_foreign(name) or len(printable(name)) > LONGEST else read_trial(folder, name, rule)
        if trial is None:
            if not is_foreign(name):
                where = printable(name)
                warnings.append(Note("not_a_trial", "No trial of this job: nothing in it names it as one.", where))
        else:
            size += sum(entry.size for entry in trial.report.files)
            found.append(trial)
        if size > MAX_JOB_BYTES:
            raise JobRefused("import.too_large", f"The job holds more than {MAX_JOB_BYTES:,} bytes.")
        if progress is not None:
            progress(number, len(names))
    return found


def _job_files(folder: Folder) -> tuple[FileEntry, ...]:
    entries = []
    for name in _JOB_FILES:
        state, size, _ = folder.sha256(name, limit=0)
        if state is not FileState.MISSING:
            kept = size <= MAX_FILE_BYTES and state in (FileState.TOO_LARGE, FileState.EMPTY)
            fine = FileState.OK if size else FileState.EMPTY
            entries.append(FileEntry(name, fine if kept else state, size))
    return tuple(entries)


def _job_id(result: JsonFile, found: list[ReadTrial], warnings: list[Note]) -> str:
    """The job's id: of its result, else the one that most of its trials name."""
    told = text(result.content.get("id"))
    if _is_id(told):
        return told
    named = Counter(trial.job_id for trial in found if _is_id(trial.job_id))
    return min(named, key=lambda name: (-named[name], name)) if named else ""


def _is_id(value: str) -> bool:
    return 0 < len(value) <= LONGEST_ID and value.isascii() and value.isprintable() and not set(value) & set(" /\\[")


def _note_strangers(found: list[ReadTrial], job_id: str, warnings: list[Note]) -> None:
    for trial in found:
        if trial.job_id and not matches(trial.job_id, job_id):
            sentence = "A trial of another job: it is not taken."
            warnings.append(Note("other_job", sentence, trial.report.folder))


def _experiments(
    trials: list[ReadTrial], lock: dict[str, Any], result: dict[str, Any], warnings: list[Note]
) -> tuple[ExperimentReport, ...]:
    """The trials by candidate and dataset. One whose result cannot be read goes where its config says."""
    by_agent = {trial.agent: trial.candidate for trial in trials if trial.candidate is not None}
    by_task = {trial.task: trial.report.case for trial in trials if trial.candidate is not None}
    grouped: dict[tuple[Candidate, str], list[ReadTrial]] = {}
    lost: list[ReadTrial] = []
    for trial in trials:
        candidate = trial.candidate or by_agent.get(trial.agent) or _of_config(trial.agent)
        if candidate is None:
            lost.append(trial)
            continue
        case = by_task.get(trial.task, trial.report.case) if trial.candidate is None else trial.report.case
        placed = replace(trial, report=replace(trial.report, case=case))
        grouped.setdefault((candidate, trial.report.source), []).append(placed)
    if lost and len(grouped) == 1:  # where else?
        next(iter(grouped.values())).extend(lost)
        lost = []
    for trial in lost:
        sentence = f"It belongs to no experiment that can be told, so every one is failed: {trial.report.error}."
        warnings.append(Note("trial_unassigned", sentence, trial.report.folder))
    changed = _changed_tasks(trials, warnings)
    asked = _requested(lock, by_agent)
    total = _count(result.get("n_total_trials"))
    found = []
    for (candidate, source), members in sorted(grouped.items(), key=lambda item: _order(*item[0])):
        requested = max(asked.get((candidate, source), 0), len(members))
        if len(grouped) == 1:
            requested = max(requested, total or 0)
        reports = [_unless_changed(member.report, changed) for member in members]
        if len({member.arguments for member in members if member.candidate is not None}) > 1:
            reports = [replace(report, badges=tuple(sorted({*report.badges, "other_kwargs"}))) for report in reports]
            sentence = f"Agents of {candidate.title} ran with different arguments; they share one experiment."
            warnings.append(Note("other_kwargs", sentence))
        found.append(
            ExperimentReport(
                candidate=candidate,
                source=source,
                trials=_numbered(reports),
                requested=requested,
                complete=not lost and requested == len(members) and all(report.outcome.graded for report in reports),
                agent_version=_only({report.agent_version for report in reports} - {""}),
                overrides=_common_overrides(reports),
            )
        )
    return tuple(found)


def _order(candidate: Candidate, source: str) -> tuple[str, ...]:
    return candidate.agent_name, candidate.model_provider, candidate.model_name, source


def _of_config(agent: tuple[str, str]) -> Candidate | None:
    """The candidate as Harbor makes it of a configuration: the provider stands before the model's first slash."""
    name, model = agent
    if not name or len(name) > LONGEST or len(model) > LONGEST:
        return None
    provider, slash, rest = model.partition("/")
    return Candidate(name, provider, rest) if slash else Candidate(name, "", model)


def _requested(lock: dict[str, Any], by_agent: Mapping[tuple[str, str], Candidate]) -> Counter[tuple[Candidate, str]]:
    """How many trials the job's lock asks of each experiment."""
    asked: Counter[tuple[Candidate, str]] = Counter()
    for entry in sequence(lock.get("trials")):
        agent = agent_of(mapping(entry))
        candidate = by_agent.get(agent) or _of_config(agent)
        if candidate is not None:
            asked[(candidate, text(mapping(mapping(entry).get("task")).get("source")))] += 1
    return asked


def _changed_tasks(trials: list[ReadTrial], warnings: list[Note]) -> dict[tuple[str, str], list[str]]:
    """Tasks, by source and name, that had several checksums within this job."""
    checksums: dict[tuple[str, str], set[str]] = {}
    for trial in trials:
        if trial.report.checksum:
            checksums.setdefault((trial.report.source, trial.report.case), set()).add(trial.report.checksum)
    changed = {task: sorted(found) for task, found in checksums.items() if len(found) > 1}
    for (_, case), found in sorted(changed.items()):
        sentence = f"The task changed within the job ({', '.join(found[:_NAMED])}): its trials are errored."
        warnings.append(Note("changed_task", sentence, case))
    return changed


def _unless_changed(report: TrialReport, changed: dict[tuple[str, str], list[str]]) -> TrialReport:
    checksums = changed.get((report.source, report.case))
    if checksums is None or report.outcome is ReportedOutcome.NOT_REPORTED:
        return report
    sentence = f"the task had different contents within this job: checksums {' and '.join(checksums[:_NAMED])}"
    return replace(
        report,
        outcome=ReportedOutcome.ERRORED,
        error_type="ChangedTask",
        error=sentence,
        agent_error="",
        rewards=tuple(replace(reward, main=False, passed=None) for reward in report.rewards),
        badges=tuple(sorted({*report.badges, "changed_task"})),
    )


def _numbered(reports: list[TrialReport]) -> tuple[TrialReport, ...]:
    """By case and trial name; the attempts of a case are numbered in that order."""
    attempts: Counter[str] = Counter()
    numbered = []
    for report in sorted(reports, key=lambda report: (report.case, report.folder)):
        attempts[report.case] += 1
        numbered.append(replace(report, attempt=attempts[report.case]))
    return tuple(numbered)


def _common_overrides(reports: list[TrialReport]) -> dict[str, Any]:
    """The overrides of all trials; where they are not the same in each, every one that occurs, as a list."""
    distinct = {json.dumps(report.overrides, sort_keys=True): report.overrides for report in reports}
    return next(iter(distinct.values())) if len(distinct) == 1 else {"differing": list(distinct.values())[:_NAMED]}


def _note_trials(experiments: tuple[ExperimentReport, ...], stats: dict[str, Any], warnings: list[Note]) -> None:
    trials = [trial for part in experiments for trial in part.trials]
    for trial in trials:
        if trial.outcome is ReportedOutcome.NOT_REPORTED:
            warnings.append(Note("not_reported", f"Not reported: {trial.error}.", trial.folder))
        for path in trial.planted:
            sentence = "A result.json that is none of the job's: it is not believed."
            warnings.append(Note("planted_result", sentence, f"{trial.folder}/{path}"))
    missing = sum(part.requested - len(part.trials) for part in experiments)
    if missing:
        warnings.append(Note("trials_missing", f"Trials that the job was to run, and that left no folder: {missing}."))
    retries = _count(stats.get("n_retries"))
    if retries:
        warnings.append(Note("retried", f"Harbor tried trials again {retries} times; only the last try is in the job."))


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**31 else None


def _only(values: set[str]) -> str:
    return next(iter(values)) if len(values) == 1 else ""
