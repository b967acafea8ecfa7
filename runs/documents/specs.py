"""Resolves the spec of a run from profile, bundle, endpoint and worker: one function for browser, commands and MCP."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from benchsite.lib.canonical import Json, JsonObject, walk
from benchsite.lib.problems import Problem, path_of, raise_if, refuse
from runs.documents import spec_inputs
from runs.documents.bundle.manifest import ROLES, LoadedBundle
from runs.documents.ceilings import Phases
from runs.documents.endpoint_urls import host_of
from runs.documents.endpoints import credential_problems
from runs.documents.profile.loading import LoadedProfile, require_runnable
from runs.documents.profile.v2 import MIN_TRIAL_SECONDS, Environment
from runs.documents.run_spec import EVIDENCE_VERSION, SCHEMA, Spec, parse_spec
from runs.documents.spec_inputs import EndpointVersion, HarnessIdentity, ImageIdentity, WorkerIdentity

_OF_RECORD = {"name", "base_url", "model", "route", "credential", "scripted"}
MOST_TASKS = 64  # that are looked at one by one, so that a refusal stays short


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What a run asks to be narrower than its profile; None means as the profile says."""

    tasks: Sequence[str] | None = None
    max_trial_seconds: int | None = None
    max_steps: int | None = None


@dataclass(frozen=True, slots=True)
class SpecDifference:
    """One place where two specs differ; `old` and `new` are JSON texts, empty where the place is missing."""

    path: str
    old: str
    new: str


def resolve_spec(
    *,
    profile: LoadedProfile,
    bundle: LoadedBundle,
    harness: HarnessIdentity,
    images: Mapping[str, ImageIdentity],
    worker: WorkerIdentity,
    endpoint: EndpointVersion,
    tasks: Sequence[str] | None = None,
    max_trial_seconds: int | None = None,
    max_steps: int | None = None,
) -> Spec:
    """The spec of a run, or DocumentError with every reason why there is none.

    `tasks`, `max_trial_seconds` (seconds of a whole trial) and `max_steps` may only narrow the profile. The
    order of tasks is always the profile's. Equal input gives equal bytes, whoever asks.
    """
    typed = require_runnable(profile)
    suite = typed.suites.environment
    narrowing = Narrowing(tasks, max_trial_seconds, max_steps)
    raise_if(
        [
            *spec_inputs.bundle_problems(typed, bundle),
            *spec_inputs.harness_problems(bundle, harness),
            *spec_inputs.adapter_problems(typed, harness),
            *spec_inputs.image_problems(bundle, images),
            *spec_inputs.worker_problems(worker),
            *spec_inputs.endpoint_problems(endpoint, suite.sampling),
            *_narrowing_problems(suite, narrowing),
        ]
    )
    selected = [case for case in suite.cases if tasks is None or case in tasks]
    manifest, record = bundle.manifest, endpoint.record
    document: JsonObject = {
        "schema": SCHEMA,
        "suite": "environment",
        "profile": {
            "name": profile.name,
            "content_sha256": profile.content_sha256,
            "file_sha256": profile.file_sha256,
            "cases": list(suite.cases),
        },
        "bundle": {"name": manifest.name, "revision": manifest.revision, "manifest_sha256": bundle.manifest_sha256},
        "harness": asdict(harness),
        "images": {role: images[role].image_id for role in ROLES},
        "worker": asdict(worker),
        "endpoint": {
            **record.model_dump(mode="json", include=_OF_RECORD),
            "version": endpoint.version,
            "host": host_of(record.base_url),
            "controls": [*sorted(record.controls)],
            "served_models": [*sorted(record.served_models)],
            "private_addresses": record.private_addresses,
            "ca_file": record.ca_file,
            "headers": {**record.headers},
            **{
                name: None if (part := getattr(record, name)) is None else part.model_dump(mode="json")
                for name in ("prices", "limits", "budgets")
            },
        },
        "tasks": [_task(bundle, name, ordinal) for ordinal, name in enumerate(selected, start=1)],
        "controls": _controls(suite, endpoint, narrowing),
        "limits": _limits(suite, bundle, narrowing, len(selected)),
        "scoring": suite.scoring.model_dump(mode="json"),
        "requirements": suite.requirements.model_dump(mode="json"),
        "evidence_version": EVIDENCE_VERSION,
    }
    raise_if(credential_problems(document))
    return parse_spec(document)


def spec_difference(old: JsonObject, new: JsonObject) -> list[SpecDifference]:
    """Every place where two spec documents differ, in the order of paths; empty for equal documents."""
    before, after = dict(_leaves(old)), dict(_leaves(new))
    return [
        SpecDifference(path, before.get(path, ""), after.get(path, ""))
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
    ]


def phase_seconds(trial_s: int, phases: Phases) -> dict[str, int]:
    """Seconds for each phase, so that their sum never exceeds the trial's; two containers start in a trial.

    A start, set-up and grading get at most a sixth of the trial each, and never more than their ceiling; the
    agent gets what is left, up to its own.
    """
    share = max(1, trial_s // 6)
    times = {
        "environment_start_s": min(phases.environment_start_s, share),
        "agent_setup_s": min(phases.agent_setup_s, share),
        "verifier_s": min(phases.verifier_s, share),
    }
    taken = sum(times.values()) + times["environment_start_s"]
    return times | {"agent_s": min(phases.agent_s, trial_s - taken)}


def _narrowing_problems(suite: Environment, narrowing: Narrowing) -> Iterator[Problem]:
    yield from _number_problems(
        "max_trial_seconds", narrowing.max_trial_seconds, MIN_TRIAL_SECONDS, suite.max_trial_seconds
    )
    yield from _number_problems("max_steps", narrowing.max_steps, 1, suite.max_steps)
    if narrowing.tasks is not None and not narrowing.tasks:
        yield Problem("tasks", "spec.no_tasks", "at least one task must be chosen")
    if len(narrowing.tasks or ()) > MOST_TASKS:
        yield Problem("tasks", "spec.too_many_tasks", f"more than {MOST_TASKS} tasks are named, which no profile has")
        return
    seen: set[str] = set()
    for index, name in enumerate(narrowing.tasks or ()):
        if name not in suite.cases:
            yield Problem(f"tasks[{index}]", "spec.task_not_in_profile", "the profile has no task of this name")
        elif name in seen:
            yield Problem(f"tasks[{index}]", "spec.task_repeated", "the task is chosen twice")
        seen.add(name)


def _number_problems(field: str, value: int | None, least: int, most: int) -> Iterator[Problem]:
    if value is None:
        return
    if type(value) is not int:
        yield Problem(field, "spec.wrong_type", "it is not an integer")
    elif value > most:
        yield Problem(
            field, "spec.wider_than_profile", f"{value:,} is above {most:,}; a run may only narrow its profile"
        )
    elif value < least:
        yield Problem(field, "spec.below_minimum", f"{value:,} is below {least:,}")


def _limits(suite: Environment, bundle: LoadedBundle, narrowing: Narrowing, count: int) -> JsonObject:
    ceilings = bundle.manifest.ceilings
    trial_s = suite.max_trial_seconds if narrowing.max_trial_seconds is None else narrowing.max_trial_seconds
    longest = trial_s * count + ceilings.overhead_s
    if longest > suite.timeout_s:
        sentence = (
            f"{count} trials of {trial_s:,} s and {ceilings.overhead_s:,} s around them take {longest:,} s; "
            f"the profile allows {suite.timeout_s:,} s. Choose fewer tasks or a shorter trial"
        )
        raise refuse("spec.time_does_not_fit", sentence, "max_trial_seconds")
    roles = {role: getattr(ceilings, role).model_dump(mode="json") for role in ROLES}
    return {"run_s": longest, "trial_s": trial_s, **phase_seconds(trial_s, ceilings.phases), **roles}


def _task(bundle: LoadedBundle, name: str, ordinal: int) -> JsonObject:
    task = bundle.task(name)
    return {"ordinal": ordinal, "name": name, "checksum": task.checksum, "files_sha256": task.files_sha256}


def _controls(suite: Environment, endpoint: EndpointVersion, narrowing: Narrowing) -> JsonObject:
    """Every control of Harbor and the agent, set explicitly: no retries, no second attempt, no hidden default."""
    return {
        "max_steps": suite.max_steps if narrowing.max_steps is None else narrowing.max_steps,
        "max_completion_tokens": suite.max_completion_tokens,
        "max_concurrent_trials": suite.max_concurrent_trials,
        "max_attempts": suite.max_attempts,
        "retries": 0,
        "model_attempts": 1,
        "request_timeout_s": endpoint.record.request_timeout_s,
        "drop_params": False,
        "verification": True,
        "install_only": False,
        "sampling": suite.sampling.model_dump(mode="json"),
    }


def _leaves(document: Json) -> Iterator[tuple[str, str]]:
    for location, value in walk(document):
        if not isinstance(value, (dict, list)) or not value:
            yield path_of(location), json.dumps(value)
