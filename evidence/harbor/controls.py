"""The controls that Harbor must have taken over, by their paths in its documents, and the code of each difference.

Whatever else differs is `harness.config_differs`: Harbor did not take over what it does not know.
"""

from collections.abc import Iterable, Mapping

from evidence.reading.proofs import Proof

_INSTALL_ONLY = "invalid_evaluation.install_only"
_NO_VERIFICATION = "invalid_evaluation.verification_disabled"
_SHARED = "invalid_evaluation.shared_verifier"
_AGENT = "invalid_evaluation.other_agent"
_CONTROLS = "invalid_evaluation.other_controls"


def _agent(at: str) -> dict[str, str]:
    settings = (
        "model_name", "kwargs.max_tokens", "kwargs.config.agent.step_limit", "kwargs.reasoning_effort",
        "load_trajectory", "mcp_servers", "skills", "override_timeout_sec", "override_setup_timeout_sec",
    )  # fmt: skip
    identity = dict.fromkeys((f"{at}.name", f"{at}.import_path", f"{at}.kwargs.version"), _AGENT)
    return identity | {f"{at}.{setting}": _CONTROLS for setting in settings}


_ENVIRONMENT = {f"environment.{name}": _CONTROLS for name in ("import_path", "extra_docker_compose", "mounts")}
# In the order of their weight: the first that differs gives the code. A trial's config, as in its result:
TRIAL_CONFIG: dict[str, str] = {
    "install_only": _INSTALL_ONLY,
    "source_trial": _CONTROLS,
    "user_agent": _CONTROLS,
    "timeout_multiplier": _CONTROLS,
    "agent_timeout_multiplier": _CONTROLS,
    "verifier_timeout_multiplier": _CONTROLS,
    "agent_setup_timeout_multiplier": _CONTROLS,
    "environment_build_timeout_multiplier": _CONTROLS,
    "verifier.disable": _NO_VERIFICATION,
    "verifier.import_path": _CONTROLS,
    "verifier.override_timeout_sec": _CONTROLS,
    **_agent("agent"),
    **_ENVIRONMENT,
}
TRIAL_LOCK: dict[str, str] = {**TRIAL_CONFIG, "verifier.environment_mode": _SHARED}
JOB_LOCK: dict[str, str] = dict.fromkeys(
    ("harbor.version", "n_concurrent_trials", "retry.max_retries", "trials"), _CONTROLS
)
JOB_CONFIG: dict[str, str] = {
    "install_only": _INSTALL_ONLY,
    "verifier.disable": _NO_VERIFICATION,
    **dict.fromkeys(("n_attempts", "n_concurrent_trials", "retry.max_retries", "agents"), _CONTROLS),
    **_agent("agents[0]"),
    **_ENVIRONMENT,
}


def control_checks(
    where: str, differing: Iterable[str], controls: Mapping[str, str]
) -> tuple[list[Proof], tuple[str, ...]]:
    """A check for each control of the document `where`, and the `differing` paths that are no control's."""
    others = dict.fromkeys(differing)
    paths = tuple(others)
    checks = []
    for control, code in controls.items():
        found = [path for path in paths if _is_of(path, control)]
        checks.append(Proof(f"{where}.{control}", code, not found, ", ".join(found)[:200]))
        for path in found:
            others.pop(path, None)
    return checks, tuple(others)


def _is_of(path: str, control: str) -> bool:
    """The control's own place, one in it, or one that it is missing with."""
    return path == control or path.startswith(f"{control}.") or control.startswith((f"{path}.", f"{path}["))
