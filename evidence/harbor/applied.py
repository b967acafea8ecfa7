"""The differences between Harbor's configs and locks and the configuration that it was given, by their places.

Harbor ignores keys that it does not know, and leaves out of `config.json` whatever equals a default; so this
knows the defaults. Established against Harbor 0.22.0.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evidence.reading.proofs import sequence

API_KEY = "OPENAI_API_KEY"

# Harbor prints this much of a sensitive value into its own files.
MASK_HEAD, MASK_TAIL = 4, 3
# Longer than every place that we know; one of keys of any length is cut, or each below it would repeat them.
MAX_PLACE = 300


@dataclass(frozen=True, slots=True)
class ConfigDifference:
    """One place where a document of Harbor holds something else than the configuration that it was given.

    `document` is "config", "lock", "trial_config" or "asked", `path` the place in it; the values are private JSON
    texts or "missing".
    """

    document: str
    path: str
    asked: str
    found: str


# Harbor's defaults, which it leaves out of config.json. What is not here has no default that matters.
_AGENT_DEFAULTS: dict[str, Any] = {
    "import_path": None, "n_concurrent": None, "concurrency_group": None, "skills": [],
    "max_timeout_sec": None,
    "override_timeout_sec": None, "override_setup_timeout_sec": None, "resume_trajectory": False,
    "load_trajectory": None, "extra_allowed_hosts": [], "include_logs": [], "exclude_logs": [], "kwargs": {},
    "env": {}, "mcp_servers": [],
}  # fmt: skip
_ENVIRONMENT_DEFAULTS: dict[str, Any] = {
    "type": None, "force_build": False, "delete": True, "cpu_enforcement_policy": "auto",
    "memory_enforcement_policy": "auto", "override_cpus": None, "override_memory_mb": None,
    "override_storage_mb": None, "override_gpus": None, "override_tpu": None, "mounts": None,
    "extra_docker_compose": [], "env": {}, "kwargs": {}, "extra_allowed_hosts": [],
}  # fmt: skip
_VERIFIER_DEFAULTS: dict[str, Any] = {
    "override_timeout_sec": None, "max_timeout_sec": None, "include_logs": [], "exclude_logs": [], "env": {},
    "import_path": None, "kwargs": {}, "disable": False,
}  # fmt: skip
_RETRY_DEFAULTS: dict[str, Any] = {
    "max_retries": 0, "include_exceptions": None, "wait_multiplier": 1.0, "min_wait_sec": 1.0,
    "max_wait_sec": 60.0,
}  # fmt: skip
# A lock always says how often a trial may be tried again.
_LOCKED_RETRY_DEFAULTS = {name: value for name, value in _RETRY_DEFAULTS.items() if name != "max_retries"}
_TASK_DEFAULTS: dict[str, Any] = {
    "git_url": None, "git_commit_id": None, "name": None, "ref": None, "overwrite": False,
    "download_dir": None, "source": None,
}  # fmt: skip
_MULTIPLIERS: dict[str, Any] = {
    "timeout_multiplier": 1.0, "agent_timeout_multiplier": None, "verifier_timeout_multiplier": None,
    "agent_setup_timeout_multiplier": None, "environment_build_timeout_multiplier": None,
}  # fmt: skip
_JOB_DEFAULTS: dict[str, Any] = {
    **_MULTIPLIERS, "jobs_dir": "jobs", "n_attempts": 1, "install_only": False, "debug": False,
    "n_concurrent_trials": 4, "quiet": False, "retry": {}, "environment": {}, "verifier": {}, "metrics": [],
    "agents": [], "user_agent": None, "datasets": [], "tasks": [], "artifacts": [],
    "extra_instruction_paths": [], "extra_instructions": [], "source_jobs": [],
}  # fmt: skip

# What a trial's config has of its job's as it is, and what it leaves out when it is nothing.
_TRIAL_SHARED = (
    "install_only", "environment", "verifier", "artifacts", "extra_instruction_paths", "extra_instructions",
)  # fmt: skip
_TRIAL_DEFAULTS: dict[str, Any] = {
    **_MULTIPLIERS, "install_only": False, "artifacts": [], "extra_instruction_paths": [], "extra_instructions": [],
    "user_agent": None, "source_trial": None,
}  # fmt: skip


def config_differences(asked: Mapping[str, Any], found: object) -> list[ConfigDifference]:
    """Where the job's `config.json` (`found`, parsed) is not what Harbor was given (`asked`)."""
    return list(_differences("config", "", _masked(_completed(asked)), _completed(found)))


def given_differences(expected: Mapping[str, Any], asked: object) -> list[ConfigDifference]:
    """Where the configuration that Harbor was given (`asked`, parsed) is not the expected one; both may leave out
    defaults."""
    return list(_differences("asked", "", _completed(expected), _completed(asked)))


def trial_config_differences(asked: Mapping[str, Any], found: object) -> list[ConfigDifference]:
    """Where one trial's `config.json`, or the config in its result, is not what Harbor was given.

    The names of trial and job are Harbor's own; they are compared with each other elsewhere.
    """
    expected, config = _masked(_completed(asked)), _with(_TRIAL_DEFAULTS, found)
    want: dict[str, Any] = {
        "task": expected["tasks"][0],
        "trials_dir": f"{expected['jobs_dir']}/{expected['job_name']}",
        "agent": expected["agents"][0],
        **{name: expected[name] for name in (*_TRIAL_SHARED, *_MULTIPLIERS)},
        "user_agent": None,
        "source_trial": None,
    }
    have: dict[str, Any] = {
        **{name: value for name, value in config.items() if name not in ("trial_name", "job_id")},
        "task": _with(_TASK_DEFAULTS, config.get("task")),
        "agent": _with(_AGENT_DEFAULTS, config.get("agent")),
        "environment": _with(_ENVIRONMENT_DEFAULTS, config.get("environment")),
        "verifier": _with(_VERIFIER_DEFAULTS, config.get("verifier")),
    }
    return list(_differences("trial_config", "", want, have))


def lock_differences(asked: Mapping[str, Any], found: object, *, harbor_version: str) -> list[ConfigDifference]:
    """Where the job's `lock.json` (`found`, parsed) is not what Harbor was given (`asked`)."""
    lock = _mapping(found)
    trials = lock.get("trials")
    expected = _masked(_completed(asked))
    top = {
        "harbor.version": (harbor_version, _mapping(lock.get("harbor")).get("version")),
        "n_concurrent_trials": (expected["n_concurrent_trials"], lock.get("n_concurrent_trials")),
        "trials": (1, len(trials) if isinstance(trials, list) else None),
    }
    differences = [
        difference for path, (want, have) in top.items() for difference in _differences("lock", path, want, have)
    ]
    retry = _without_order(_with(_LOCKED_RETRY_DEFAULTS, lock.get("retry")))
    differences += _differences("lock", "retry", expected["retry"], retry)
    for trial in trials if isinstance(trials, list) else []:
        differences += trial_lock_differences(asked, trial)
    return differences


def trial_lock_differences(asked: Mapping[str, Any], found: object) -> list[ConfigDifference]:
    """Where one trial's `lock.json`, or its entry in the job's, is not what Harbor was given."""
    expected, lock = _masked(_completed(asked)), _mapping(found)
    want: dict[str, Any] = {
        "install_only": expected["install_only"],
        **{name: expected[name] for name in _MULTIPLIERS},
        "agent": expected["agents"][0],
        "environment": expected["environment"],
        "verifier": {**expected["verifier"], "environment_mode": "separate"},
        "task": {"type": "local", "path": expected["tasks"][0]["path"]},
        "user_agent": None,
        "source_trial": None,
        "extra_instructions": None,
        "skills": [],
    }
    task = _mapping(lock.get("task"))
    have: dict[str, Any] = {
        **{name: lock.get(name, None) for name in want},
        "agent": _with(_AGENT_DEFAULTS, lock.get("agent")),
        "environment": _with(_ENVIRONMENT_DEFAULTS, lock.get("environment")),
        "verifier": _with(_VERIFIER_DEFAULTS, lock.get("verifier")),
        "task": {name: task.get(name) for name in ("type", "path")},
        "skills": lock.get("skills") or [],
    }
    return list(_differences("lock", "trials[0]", want, have))


def mask(value: str) -> str:
    """What Harbor writes in place of a sensitive value."""
    return f"{value[:MASK_HEAD]}****{value[-MASK_TAIL:]}" if len(value) > 8 else "****"


def _completed(config: object) -> dict[str, Any]:
    """A JobConfig with Harbor's defaults filled in, so that what was left out is compared too."""
    job = _with(_JOB_DEFAULTS, config)
    job["retry"] = _without_order(_with(_RETRY_DEFAULTS, job["retry"]))
    job["environment"] = _with(_ENVIRONMENT_DEFAULTS, job["environment"])
    job["verifier"] = _with(_VERIFIER_DEFAULTS, job["verifier"])
    job["agents"] = [_with(_AGENT_DEFAULTS, agent) for agent in sequence(job["agents"])]
    job["tasks"] = [_with(_TASK_DEFAULTS, task) for task in sequence(job["tasks"])]
    return job


def _without_order(retry: dict[str, Any]) -> dict[str, Any]:
    # A set in Harbor: its order means nothing, and with no retries neither does what it holds.
    return {name: value for name, value in retry.items() if name != "exclude_exceptions"}


def _masked(config: dict[str, Any]) -> dict[str, Any]:
    agents = [
        {**agent, "env": {n: mask(v) if n == API_KEY else v for n, v in agent["env"].items()}}
        for agent in config["agents"]
    ]
    return {**config, "agents": agents}


def _with(defaults: Mapping[str, Any], found: object) -> dict[str, Any]:
    return {**defaults, **_mapping(found)}


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _differences(document: str, path: str, asked: object, found: object) -> Iterator[ConfigDifference]:
    if isinstance(asked, dict) and isinstance(found, dict):
        for name in sorted({*asked, *found}):
            place = (f"{path}.{name}" if path else name)[:MAX_PLACE]
            yield from _differences(document, place, asked.get(name, _MISSING), found.get(name, _MISSING))
    elif isinstance(asked, list) and isinstance(found, list) and len(asked) == len(found):
        for index, (want, have) in enumerate(zip(asked, found, strict=True)):
            yield from _differences(document, f"{path}[{index}]", want, have)
    elif not _same(asked, found, path):
        yield ConfigDifference(document, path, _text(asked), _text(found))


class _Missing:
    """Stands for a key that is not there."""


_MISSING = _Missing()


def _same(asked: object, found: object, path: str) -> bool:
    """Equal in type and value; of seconds and multipliers, which are floats to Harbor, 60 and 60.0 are one number."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (asked, found))
    return asked == found and (type(asked) is type(found) or (numbers and path.endswith(("_sec", "multiplier"))))


def _text(value: object) -> str:
    return "missing" if value is _MISSING else json.dumps(value, sort_keys=True)[:500]
