"""Do Harbor's documents show the confirmed task, agent and controls? One check for each place where it says so."""

from typing import Any
from uuid import UUID

from evidence.harbor.documents import Document
from evidence.reading.clocks import Interval
from evidence.reading.proofs import Proof, at, equal, mapping, one_of, same_number

PHASES = {
    "environment": "environment_setup",
    "setup": "agent_setup",
    "agent": "agent_execution",
    "verifier": "verifier",
}


def control_checks(
    result: Document,
    trial_lock: Document | None,
    job_lock: Document,
    job_config: Document,
    spec: dict[str, Any],
    task: dict[str, Any],
) -> list[Proof]:
    checks: list[Proof] = []
    if result.state == "ok":
        checks += _result_checks(result.content, task)
        checks += _config_checks("result.config", mapping(at(result.content, "config")), spec)
        checks.append(_mode_check("result.verifier_environment_mode", at(result.content, "verifier_environment_mode")))
    if trial_lock is not None and trial_lock.state == "ok":
        checks += _config_checks("lock", trial_lock.content, spec)
        checks.append(_mode_check("lock.verifier_mode", at(trial_lock.content, "verifier", "environment_mode")))
    if job_lock.state == "ok":
        checks += _job_lock_checks(job_lock.content, spec)
    if job_config.state == "ok":
        checks += _job_config_checks(job_config.content, spec)
    return checks


def _result_checks(result: dict[str, Any], task: dict[str, Any]) -> list[Proof]:
    names = (_last(result.get("task_name")), _last(at(result, "task_id", "path")))
    intervals = {name: interval(result.get(key)) for name, key in PHASES.items()} | {"trial": interval(result)}
    return [
        Proof("result.id", "integrity.trial_identity", uuid_of(result.get("id")) is not None, "no UUID"),
        *(equal("result.task", "integrity.foreign_trial", task.get("name"), name) for name in names),
        equal(
            "result.task_checksum",
            "integrity.task_checksum",
            task.get("checksum"),
            result.get("task_checksum"),
        ),
        *(
            Proof(f"result.times.{name}", "integrity.times_inverted", not found.inverted)
            for name, found in intervals.items()
        ),
    ]


# Harbor 0.22.0 leaves what equals its own default out of the configs that it writes (measured;
# compatibility.md).
# n_concurrent_trials has no entry: its default is 4, so a missing one is a difference.
HARBOR_DEFAULTS: dict[str, Any] = {"install_only": False, "disable": False, "n_attempts": 1, "max_retries": 0}


def _config_checks(where: str, config: dict[str, Any], spec: dict[str, Any]) -> list[Proof]:
    """Checks of one trial's config as Harbor resolved it: in its result and in its lock."""
    controls = "invalid_evaluation.other_controls"
    return [
        equal(
            f"{where}.install_only",
            "invalid_evaluation.install_only",
            False,
            config.get("install_only", HARBOR_DEFAULTS["install_only"]),
        ),
        equal(f"{where}.source_trial", controls, None, config.get("source_trial")),
        equal(f"{where}.user_agent", controls, None, config.get("user_agent")),
        *_multiplier_checks(where, config),
        *_verifier_checks(where, mapping(config.get("verifier")), spec),
        *_agent_checks(f"{where}.agent", mapping(config.get("agent")), spec),
        *_environment_checks(f"{where}.environment", mapping(config.get("environment"))),
    ]


def _multiplier_checks(where: str, config: dict[str, Any]) -> list[Proof]:
    code = "invalid_evaluation.other_controls"
    single = ("agent", "verifier", "agent_setup", "environment_build")
    return [
        same_number(f"{where}.timeout_multiplier", code, 1.0, config.get("timeout_multiplier", 1.0)),
        *(
            one_of(
                f"{where}.{name}_timeout_multiplier",
                code,
                (None, 1.0),
                config.get(f"{name}_timeout_multiplier"),
            )
            for name in single
        ),
    ]


def _verifier_checks(where: str, verifier: dict[str, Any], spec: dict[str, Any]) -> list[Proof]:
    limit = at(spec, "limits", "verifier_s")
    return [
        equal(
            f"{where}.verifier.disable",
            "invalid_evaluation.verification_disabled",
            False,
            verifier.get("disable", HARBOR_DEFAULTS["disable"]),
        ),
        equal(
            f"{where}.verifier.import_path",
            "invalid_evaluation.other_controls",
            None,
            verifier.get("import_path"),
        ),
        same_number(
            f"{where}.verifier.timeout",
            "invalid_evaluation.other_controls",
            limit,
            verifier.get("override_timeout_sec"),
        ),
    ]


def _agent_checks(where: str, agent: dict[str, Any], spec: dict[str, Any]) -> list[Proof]:
    controls = "invalid_evaluation.other_controls"
    other = "invalid_evaluation.other_agent"
    kwargs = mapping(agent.get("kwargs"))
    expected = mapping(at(spec, "controls"))
    return [
        equal(f"{where}.name", other, at(spec, "harness", "agent"), agent.get("name")),
        equal(f"{where}.import_path", other, None, agent.get("import_path")),
        equal(f"{where}.version", other, at(spec, "harness", "agent_version"), kwargs.get("version")),
        equal(f"{where}.model", controls, f"openai/{at(spec, 'endpoint', 'model')}", agent.get("model_name")),
        equal(f"{where}.max_tokens", controls, expected.get("max_completion_tokens"), kwargs.get("max_tokens")),
        equal(
            f"{where}.step_limit",
            controls,
            expected.get("max_steps"),
            at(kwargs, "config", "agent", "step_limit"),
        ),
        equal(f"{where}.reasoning_effort", controls, None, kwargs.get("reasoning_effort")),
        equal(f"{where}.load_trajectory", controls, None, agent.get("load_trajectory")),
        equal(f"{where}.mcp_servers", controls, [], agent.get("mcp_servers") or []),
        equal(f"{where}.skills", controls, [], agent.get("skills") or []),
        same_number(f"{where}.timeout", controls, at(spec, "limits", "agent_s"), agent.get("override_timeout_sec")),
        same_number(
            f"{where}.setup_timeout",
            controls,
            at(spec, "limits", "agent_setup_s"),
            agent.get("override_setup_timeout_sec"),
        ),
    ]


PROVIDER = "runs.harness.environment:OwnedEnvironment"


def _environment_checks(where: str, environment: dict[str, Any]) -> list[Proof]:
    code = "invalid_evaluation.other_controls"
    return [
        equal(f"{where}.import_path", code, PROVIDER, environment.get("import_path")),
        equal(f"{where}.extra_docker_compose", code, [], environment.get("extra_docker_compose") or []),
        equal(f"{where}.mounts", code, None, environment.get("mounts")),
    ]


def _job_lock_checks(lock: dict[str, Any], spec: dict[str, Any]) -> list[Proof]:
    code = "invalid_evaluation.other_controls"
    trials = lock.get("trials")
    return [
        equal("job_lock.harbor", code, at(spec, "harness", "harbor"), at(lock, "harbor", "version")),
        equal("job_lock.n_concurrent_trials", code, 1, lock.get("n_concurrent_trials")),
        equal("job_lock.max_retries", code, 0, at(lock, "retry", "max_retries")),
        equal("job_lock.trials", code, 1, len(trials) if isinstance(trials, list) else None),
    ]


def _job_config_checks(config: dict[str, Any], spec: dict[str, Any]) -> list[Proof]:
    code = "invalid_evaluation.other_controls"
    agents = config.get("agents")
    return [
        equal(
            "job_config.install_only",
            "invalid_evaluation.install_only",
            False,
            config.get("install_only", HARBOR_DEFAULTS["install_only"]),
        ),
        equal(
            "job_config.verifier.disable",
            "invalid_evaluation.verification_disabled",
            False,
            mapping(config.get("verifier")).get("disable", HARBOR_DEFAULTS["disable"]),
        ),
        equal("job_config.n_attempts", code, 1, config.get("n_attempts", HARBOR_DEFAULTS["n_attempts"])),
        equal("job_config.n_concurrent_trials", code, 1, config.get("n_concurrent_trials")),
        equal(
            "job_config.max_retries",
            code,
            0,
            mapping(config.get("retry")).get("max_retries", HARBOR_DEFAULTS["max_retries"]),
        ),
        equal("job_config.agents", code, 1, len(agents) if isinstance(agents, list) else None),
        *_agent_checks("job_config.agent", mapping(at(config, "agents", 0)), spec),
        *_environment_checks("job_config.environment", mapping(config.get("environment"))),
    ]


def _mode_check(name: str, mode: object) -> Proof:
    return equal(name, "invalid_evaluation.shared_verifier", "separate", mode)


def interval(timing: Any) -> Interval:
    start, end = at(timing, "started_at"), at(timing, "finished_at")
    return Interval(start if isinstance(start, str) else None, end if isinstance(end, str) else None)


def uuid_of(value: object) -> str | None:
    try:
        return str(UUID(value)) if isinstance(value, str) else None
    except ValueError:
        return None


def _last(value: object) -> str | None:
    return value.rstrip("/").rsplit("/", 1)[-1] if isinstance(value, str) else None
