"""Harbor's config and the attendant's plan of one trial, with every control set (design 3.6).

Pure but for `write_trial_files`. Established against Harbor 0.22.0; whether Harbor took it over is told by
`harbor_applied`.
"""

import secrets
from pathlib import Path
from typing import Any, Protocol

from runs.documents.ceilings import EXEC_OUTPUT_BYTES, TRANSFER_BYTES, TRANSFER_FILES
from runs.documents.run_spec import Controls, RunSpec, SpecLimits
from runs.engine.host.folder import write_document

PLAN_SCHEMA = "benchsite.environment-plan/v2"
PROVIDER = "runs.harness.environment:OwnedEnvironment"
GATEWAY_HOST = "model-gateway"
JOB_NAME = "job"
# What a reviewed trial's containers are used for, and nothing else.
CONDUCT: dict[str, dict[str, Any]] = {
    "agent": {
        "session": "__env", "exclusive": True, "uploads": {"environment": "/app"},
        "downloads": ["/logs/agent", "/logs/artifacts"], "artifacts": True,
    },
    "verifier": {
        "session": "__verifier__trial", "exclusive": False, "uploads": {"tests": "/tests", "artifacts_in": None},
        "downloads": ["/logs/verifier"], "artifacts": False,
    },
}  # fmt: skip
API_KEY = "OPENAI_API_KEY"
BASE_URL = "OPENAI_BASE_URL"
# The agent waits longer than the gateway, so that an endpoint that is too slow is seen by the gateway as such.
GATEWAY_ANSWERS_FIRST_S = 10
# And longer still where the gateway lets a request wait for its turn (`WAIT_SECONDS` of its program).
TURN_S = 65


class Network(Protocol):
    """The run's internal network."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...


class LimitsDoNotFit(ValueError):
    """The phases of a trial would take longer than the trial may: `code`, `sentence`, private `detail`."""

    def __init__(self, phases: float, trial: float) -> None:
        self.code = "harness.limits_do_not_fit"
        self.sentence = "The phases of a trial together take longer than the trial may. Correct the bundle's phases."
        self.detail = f"{phases} s of phases, {trial} s of trial"
        super().__init__(self.sentence)


def new_placeholder() -> str:
    """What stands for the trial's token in Harbor's config: unguessable, and found nowhere else."""
    return f"benchsite-placeholder-{secrets.token_hex(16)}"


def harbor_config(
    spec: RunSpec,
    *,
    trial_directory: Path,
    task_directory: Path,
    gateway_url: str,
    placeholder: str,
) -> dict[str, Any]:
    """Harbor's JobConfig of one trial, with every control set. Raises LimitsDoNotFit."""
    require_fitting(spec.limits)
    return {
        "job_name": JOB_NAME,
        "jobs_dir": str(trial_directory),
        **_controls(spec.controls),
        "environment": _environment(trial_directory),
        "verifier": {
            "override_timeout_sec": float(spec.limits.verifier_s),
            "max_timeout_sec": float(spec.limits.verifier_s),
            "disable": not spec.controls.verification,
        },
        "agents": [_agent(spec, gateway_url, placeholder)],
        "tasks": [{"path": str(task_directory), "overwrite": False}],
        "datasets": [],
        "metrics": [],
        "artifacts": [],
        "extra_instruction_paths": [],
        "extra_instructions": [],
        "source_jobs": [],
    }


def environment_plan(
    spec: RunSpec,
    *,
    ordinal: int,
    run_id: str,
    journal_directory: Path,
    network: Network | None,
    gateway_address: str | None,
    placeholder: str,
) -> dict[str, Any]:
    """The attendant's plan of one trial, `environment.json`."""
    agent = {
        **_role(spec, "agent"),
        "network_id": None if network is None else network.id,
        "network_name": None if network is None else network.name,
        "gateway_host": GATEWAY_HOST,
        "gateway_ip": gateway_address,
    }
    return {
        "schema": PLAN_SCHEMA,
        "run_id": run_id,
        "trial": ordinal,
        "task": spec.tasks[ordinal - 1].name,
        "journal_directory": str(journal_directory),
        "roles": {"agent": agent, "verifier": _role(spec, "verifier")},
        "conduct": CONDUCT,
        "deadlines": {
            "setup": spec.limits.agent_setup_s,
            "agent": spec.limits.agent_s,
            "verifier": spec.limits.verifier_s,
        },
        "bounds": {
            "exec_output_bytes": EXEC_OUTPUT_BYTES,
            "transfer_bytes": TRANSFER_BYTES,
            "transfer_files": TRANSFER_FILES,
        },
        "placeholder": placeholder,
    }


def write_trial_files(
    spec: RunSpec,
    *,
    ordinal: int,
    trial_directory: Path,
    task_directory: Path,
    network: Network,
    gateway_address: str,
    gateway_url: str,
) -> None:
    """Write a trial's `config.json` and `environment.json`. The trial lies in `<run>/trials/<n>`.

    Raises LimitsDoNotFit, FileExistsError when the job folder is there already, OSError.
    """
    if (trial_directory / JOB_NAME).exists():
        # Harbor would resume a job folder that exists.
        raise FileExistsError(trial_directory / JOB_NAME)
    run_directory = trial_directory.parent.parent
    placeholder = new_placeholder()
    write_document(
        trial_directory / "config.json",
        harbor_config(
            spec,
            trial_directory=trial_directory,
            task_directory=task_directory,
            gateway_url=gateway_url,
            placeholder=placeholder,
        ),
    )
    write_document(
        trial_directory / "environment.json",
        environment_plan(
            spec,
            ordinal=ordinal,
            run_id=run_directory.name,
            journal_directory=run_directory,
            network=network,
            gateway_address=gateway_address,
            placeholder=placeholder,
        ),
    )


def require_fitting(limits: SpecLimits) -> None:
    """Both containers' starts, the agent's set-up and run, and the verifier fit the trial's limit."""
    phases = 2 * limits.environment_start_s + limits.agent_setup_s + limits.agent_s + limits.verifier_s
    if phases > limits.trial_s:
        raise LimitsDoNotFit(phases, limits.trial_s)


def _controls(controls: Controls) -> dict[str, Any]:
    return {
        "n_attempts": controls.max_attempts,
        "n_concurrent_trials": controls.max_concurrent_trials,
        "install_only": controls.install_only,
        "timeout_multiplier": 1.0,
        "agent_timeout_multiplier": 1.0,
        "verifier_timeout_multiplier": 1.0,
        "agent_setup_timeout_multiplier": 1.0,
        "environment_build_timeout_multiplier": 1.0,
        "debug": False,
        "quiet": True,
        "retry": {"max_retries": controls.retries},
    }


def _environment(trial_directory: Path) -> dict[str, Any]:
    return {
        "import_path": PROVIDER,
        "force_build": False,
        "delete": True,
        "cpu_enforcement_policy": "auto",
        "memory_enforcement_policy": "auto",
        "extra_docker_compose": [],
        "extra_allowed_hosts": [],
        "env": {},
        "kwargs": {"plan": str(trial_directory / "environment.json")},
    }


def _agent(spec: RunSpec, gateway_url: str, placeholder: str) -> dict[str, Any]:
    limits, controls = spec.limits, spec.controls
    return {
        "name": spec.harness.agent,
        "model_name": f"openai/{spec.endpoint.model}",
        "n_concurrent": 1,
        "override_timeout_sec": float(limits.agent_s),
        "override_setup_timeout_sec": float(limits.agent_setup_s),
        "max_timeout_sec": float(limits.agent_s),
        "resume_trajectory": False,
        "skills": [],
        "extra_allowed_hosts": [],
        "mcp_servers": [],
        "kwargs": {
            "version": spec.harness.agent_version,
            "max_tokens": controls.max_completion_tokens,
            "config": _agent_settings(controls, waits=spec.endpoint.limits is not None),
        },
        "env": {API_KEY: placeholder, BASE_URL: gateway_url},
    }


def _agent_settings(controls: Controls, *, waits: bool) -> dict[str, Any]:
    """mini-swe-agent's own settings: no hidden repeats, no dropped parameters (design 3.8)."""
    return {
        "agent": {"step_limit": controls.max_steps},
        "model": {
            "cost_tracking": "ignore_errors",
            "model_kwargs": {
                "max_retries": controls.retries,
                "timeout": controls.request_timeout_s + GATEWAY_ANSWERS_FIRST_S + (TURN_S if waits else 0),
                "drop_params": controls.drop_params,
                **controls.sampling.fixed,
            },
        },
    }


def _role(spec: RunSpec, role: str) -> dict[str, Any]:
    return {"image_id": spec.images.of(role), **spec.limits.of(role).model_dump(), "env": {}}
