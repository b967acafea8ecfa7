"""The configurations that Harbor and the attendant were given, `config.json` and `environment.json`, against the spec.

What Harbor made of its configuration is compared in `evidence.harbor`; this closes the chain. It is written apart
from the engine that writes those files (`runs.engine.trials.harbor_config`), so that a mistake there is a difference
here; a test holds both against each other.
"""

import re
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import Any

from benchsite.lib.folder import FileState, Folder
from benchsite.lib.strict_json import JsonProblem, load_object
from evidence.harbor.applied import API_KEY, given_differences
from evidence.reading.proofs import Proof, at, equal, mapping, short
from evidence.trial.container_checks import internal_network
from runs.documents.run_spec import RunSpec
from runs.ownership.document import JournalDocument

PROVIDER = "runs.harness.environment:OwnedEnvironment"
PLAN_SCHEMA = "benchsite.environment-plan/v2"
# Without what may be done with each container, which was the same for all.
OLDER_PLAN_SCHEMA = "benchsite.environment-plan/v1"
CONDUCT = {
    "agent": {
        "session": "__env", "exclusive": True, "uploads": {"environment": "/app"},
        "downloads": ["/logs/agent", "/logs/artifacts"], "artifacts": True,
    },
    "verifier": {
        "session": "__verifier__trial", "exclusive": False, "uploads": {"tests": "/tests", "artifacts_in": None},
        "downloads": ["/logs/verifier"], "artifacts": False,
    },
}  # fmt: skip
GATEWAY_HOST = "model-gateway"
PLACEHOLDER = re.compile(r"benchsite-placeholder-[0-9a-f]{32}")
GATEWAY_URL = re.compile(rf"http://{GATEWAY_HOST}:\d{{1,5}}/v1")
# The agent waits longer for an answer than the gateway, so that the gateway sees a slow endpoint first.
AGENT_WAITS_LONGER_S = 10
# And longer still where the gateway lets a request wait for its turn.
TURN_S = 65
MAX_BYTES = 256 * 1024
BOUNDS = {"exec_output_bytes": 256 * 1024, "transfer_bytes": 64 * 1024 * 1024, "transfer_files": 2048}
_CODE = "invalid_evaluation.told_differently"


def configuration_checks(
    folder: Folder, base: str, spec: RunSpec, run_id: str | None, journal: JournalDocument | None, task: str
) -> list[Proof]:
    """`base` is the trial's folder, `trials/<ordinal>`; `task` the name of its task."""
    config, plan = _document(folder, f"{base}/config.json"), _document(folder, f"{base}/environment.json")
    root = _root(config, run_id, base)
    agent_env = mapping(at(config, "agents", 0, "env"))
    placeholder, url = agent_env.get(API_KEY), agent_env.get("OPENAI_BASE_URL")
    differences = given_differences(_config(spec, root or "", base, task, agent_env), config)
    differing = ", ".join(found.path for found in differences)
    return [
        Proof("config.place", _CODE, root is not None, "another folder than the run's"),
        Proof("config.placeholder", _CODE, _matches(PLACEHOLDER, placeholder), "no placeholder"),
        Proof("config.gateway", _CODE, _matches(GATEWAY_URL, url), "another address than the gateway's"),
        Proof("config.content", _CODE, not differing, short(differing, 200)),
        *_plan_checks(plan, spec, journal, {"run_id": run_id, "journal_directory": root, "task": task}, base),
        equal("plan.placeholder", _CODE, placeholder, plan.get("placeholder")),
    ]


def _document(folder: Folder, path: str) -> dict[str, Any]:
    read = folder.read(path, limit=MAX_BYTES)
    try:
        return load_object(read.data) if read.state is FileState.OK else {}
    except JsonProblem:
        return {}


def _root(config: dict[str, Any], run_id: str | None, base: str) -> str | None:
    """The run's folder on the host that carried it out, as far as the config names it as such."""
    jobs, end = config.get("jobs_dir"), f"/{run_id}/{base}"
    if run_id is None or not isinstance(jobs, str) or not jobs.endswith(end):
        return None
    return jobs.removesuffix(f"/{base}")


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _config(spec: RunSpec, root: str, base: str, task: str, agent_env: dict[str, Any]) -> dict[str, Any]:
    """Harbor's JobConfig of the trial; what is not named here is left at Harbor's default."""
    controls, limits, multiplier = spec.controls, spec.limits, 1.0
    return {
        "job_name": "job",
        "jobs_dir": f"{root}/{base}",
        "n_attempts": controls.max_attempts,
        "n_concurrent_trials": controls.max_concurrent_trials,
        "install_only": controls.install_only,
        "quiet": True,
        "retry": {"max_retries": controls.retries},
        "timeout_multiplier": multiplier,
        **{
            f"{phase}_timeout_multiplier": multiplier
            for phase in ("agent", "verifier", "agent_setup", "environment_build")
        },
        "environment": {"import_path": PROVIDER, "kwargs": {"plan": f"{root}/{base}/environment.json"}},
        "verifier": {
            "override_timeout_sec": limits.verifier_s,
            "max_timeout_sec": limits.verifier_s,
            "disable": not controls.verification,
        },
        "agents": [_agent(spec, agent_env)],
        "tasks": [{"path": f"{root}/tasks/{task}"}],
    }


def _agent(spec: RunSpec, env: dict[str, Any]) -> dict[str, Any]:
    controls, limits = spec.controls, spec.limits
    model_kwargs = {
        "max_retries": controls.retries,
        "timeout": controls.request_timeout_s + AGENT_WAITS_LONGER_S + (TURN_S if spec.endpoint.limits else 0),
        "drop_params": controls.drop_params,
        **controls.sampling.fixed,
    }
    return {
        "name": spec.harness.agent,
        "model_name": f"openai/{spec.endpoint.model}",
        "n_concurrent": 1,
        "override_timeout_sec": limits.agent_s,
        "override_setup_timeout_sec": limits.agent_setup_s,
        "max_timeout_sec": limits.agent_s,
        "kwargs": {
            "version": spec.harness.agent_version,
            "max_tokens": controls.max_completion_tokens,
            "config": {
                "agent": {"step_limit": controls.max_steps},
                "model": {"cost_tracking": "ignore_errors", "model_kwargs": model_kwargs},
            },
        },
        "env": {name: env.get(name) for name in (API_KEY, "OPENAI_BASE_URL")},
    }


def _plan_checks(
    plan: dict[str, Any],
    spec: RunSpec,
    journal: JournalDocument | None,
    expected: dict[str, object],
    base: str,
) -> list[Proof]:
    """The attendant's plan: whose run and task, and what each container is made of."""
    number = PurePosixPath(base).name
    wanted = {"trial": int(number) if number.isdecimal() else None, **expected}
    if plan.get("schema") != OLDER_PLAN_SCHEMA or spec.evidence_version > 1:
        limits = spec.limits
        deadlines = {"setup": limits.agent_setup_s, "agent": limits.agent_s, "verifier": limits.verifier_s}
        wanted |= {"schema": PLAN_SCHEMA, "conduct": CONDUCT, "deadlines": deadlines}
    agent = mapping(at(plan, "roles", "agent"))
    network = internal_network(journal)
    return [
        *(equal(f"plan.{name}", _CODE, value, plan.get(name)) for name, value in wanted.items()),
        equal("plan.roles", _CODE, ["agent", "verifier"], sorted(mapping(plan.get("roles")))),
        equal("plan.keys", _CODE, sorted({"schema", "roles", "bounds", "placeholder", *wanted}), sorted(plan)),
        equal("plan.bounds", _CODE, BOUNDS, plan.get("bounds")),
        *(_role_check(role, mapping(at(plan, "roles", role)), spec) for role in ("agent", "verifier")),
        Proof("plan.gateway_ip", _CODE, _is_address(agent.get("gateway_ip")), "no address"),
        Proof("plan.network_name", _CODE, _is_network_name(agent.get("network_name"), journal), "another network"),
        equal("plan.gateway_host", _CODE, GATEWAY_HOST, agent.get("gateway_host")),
        Proof("plan.network", _CODE, journal is None or agent.get("network_id") == network, "another network"),
    ]


def _is_address(value: object) -> bool:
    try:
        return isinstance(value, str) and IPv4Address(value).is_private
    except ValueError:
        return False


def _is_network_name(value: object, journal: JournalDocument | None) -> bool:
    """Networks are named by the nonce of their entry in the journal."""
    network = internal_network(journal)
    nonces = [each.nonce for each in journal.resources if each.resource_id == network] if journal else []
    return not nonces or value == f"benchsite-{nonces[0]}"


def _role_check(role: str, plan: dict[str, Any], spec: RunSpec) -> Proof:
    expected = {"image_id": spec.images.of(role), **spec.limits.of(role).model_dump(), "env": {}}
    # Only the agent has a network, and a gateway on it.
    ignored = {"network_id", "network_name", "gateway_host", "gateway_ip"} if role == "agent" else set()
    found = {name: value for name, value in plan.items() if name not in ignored}
    differing = sorted(name for name in {*expected, *found} if expected.get(name) != found.get(name))
    return Proof(f"plan.{role}", _CODE, not differing, short(", ".join(differing), 200))
