"""The identity of one trial in all of Harbor's files: names, ids, digests, times and counts."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from evidence.reading.clocks import Interval, is_before, moment
from evidence.reading.proofs import Proof, at, equal, mapping, sequence
from runs.documents.run_spec import RunSpec, SpecTask

_IDENTITY = "integrity.trial_identity"
_FOREIGN = "integrity.foreign_trial"
_TIMES = "integrity.times_inverted"
_CONTROLS = "invalid_evaluation.other_controls"

PHASES = {
    "environment": "environment_setup",
    "setup": "agent_setup",
    "agent": "agent_execution",
    "verifier": "verifier",
}


def result_checks(result: dict[str, Any], task: SpecTask, spec: RunSpec) -> list[Proof]:
    """The trial's result names the task that was asked for, ran forwards, and was graded separately."""
    names = (_last(result.get("task_name")), _last(at(result, "task_id", "path")))
    intervals = {name: interval(result.get(key)) for name, key in PHASES.items()} | {"trial": interval(result)}
    mode = at(result, "verifier_environment_mode")
    return [
        Proof("result.id", _IDENTITY, uuid_of(result.get("id")) is not None, "Harbor's result has no id"),
        *(equal("result.task", _FOREIGN, task.name, name, "Harbor's result is of another task") for name in names),
        equal("result.task_checksum", "integrity.task_checksum", task.checksum, result.get("task_checksum")),
        *(
            Proof(f"result.times.{name}", _TIMES, not found.inverted and _are_times(found), "no times, or inverted")
            for name, found in intervals.items()
        ),
        Proof(
            "result.times.order",
            _TIMES,
            is_before(intervals["verifier"].started_at, intervals["agent"].ended_at) is not True,
            "graded before the agent ended",
        ),
        *_agent_checks(result, spec),
        equal("result.verifier_environment_mode", "invalid_evaluation.shared_verifier", "separate", mode),
    ]


def _agent_checks(result: dict[str, Any], spec: RunSpec) -> list[Proof]:
    """What Harbor says of the agent once it was set up echoes its configuration; believed only against it."""
    info = result.get("agent_info")
    if info is None and result.get("agent_execution") is None:
        return []
    other = "invalid_evaluation.other_agent"
    return [
        equal("result.agent_name", other, spec.harness.agent, at(info, "name")),
        equal("result.agent_version", other, spec.harness.agent_version, at(info, "version")),
        equal("result.model", _CONTROLS, spec.endpoint.model, at(info, "model_info", "name")),
    ]


def _are_times(found: Interval) -> bool:
    return all(time is None or moment(time) is not None for time in (found.started_at, found.ended_at))


def identity_checks(
    folder: str | None,
    task: SpecTask,
    *,
    result: dict[str, Any],
    config: dict[str, Any],
    locks: dict[str, dict[str, Any]],
    job: dict[str, Any],
) -> list[Proof]:
    """`folder` is the name of the trial's folder; the documents are empty when they cannot be read. `locks` holds
    the trial's lock, and the trials of the job's, by where they stand."""
    checks = []
    for where, lock in locks.items():
        # The hash that Harbor itself made of the task's files when it took them.
        digest, name = at(lock, "task", "digest"), at(lock, "task", "name")
        checks += [
            equal(f"{where}.task_digest", "integrity.task_checksum", f"sha256:{task.files_sha256}", digest),
            equal(f"{where}.task_name", _FOREIGN, task.name, name, "Harbor's lock is of another task"),
        ]
    for where, document in (("result", result), ("result.config", mapping(result.get("config"))), ("config", config)):
        if document:
            why = "Harbor's files name another trial than their folder"
            checks.append(equal(f"{where}.trial_name", _IDENTITY, folder, document.get("trial_name"), why))
    places = ((result, ("config", "job_id")), (config, ("job_id",)), (job, ("id",)))
    ids = {str(at(document, *place)) for document, place in places if document}
    checks.append(Proof("job.one_id", _IDENTITY, len(ids) <= 1, f"Harbor's files name {len(ids)} jobs"))
    return checks + (_job_checks(job, folder) if job else [])


def locked_trials(trial_lock: dict[str, Any], job_lock: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A job's lock with another number of trials than one has a check of its own."""
    trials = sequence(job_lock.get("trials"))
    places = {"lock": trial_lock, "job_lock.trials[0]": mapping(trials[0]) if len(trials) == 1 else {}}
    return {where: lock for where, lock in places.items() if lock}


def _job_checks(job: dict[str, Any], folder: str | None) -> list[Proof]:
    named = {name for name in _named(job) if name != folder}
    return [
        equal("job_result.n_total_trials", _CONTROLS, 1, job.get("n_total_trials")),
        equal("job_result.n_retries", _CONTROLS, 0, at(job, "stats", "n_retries")),
        Proof("job_result.trials", _FOREIGN, not named, f"other trials that Harbor's job names: {len(named)}"),
    ]


def _named(job: dict[str, Any]) -> Iterator[str]:
    """Every trial that the job's statistics name, by reward or by exception."""
    for statistics in mapping(at(job, "stats", "evals")).values():
        by_value = (*mapping(at(statistics, "reward_stats")).values(), at(statistics, "exception_stats"))
        for names in (each for values in by_value for each in mapping(values).values()):
            yield from map(str, sequence(names))


def interval(timing: Any) -> Interval:
    """A phase of Harbor's; what is there and is no text stands as one that is no time."""
    start, end = at(timing, "started_at"), at(timing, "finished_at")
    return Interval(*(time if time is None or isinstance(time, str) else "no text" for time in (start, end)))


def uuid_of(value: object) -> str | None:
    try:
        return str(UUID(value)) if isinstance(value, str) else None
    except ValueError:
        return None


def _last(value: object) -> str | None:
    return value.rstrip("/").rsplit("/", 1)[-1] if isinstance(value, str) else None
