"""The keys that a `task.toml` may have. An allow-list: Harbor ignores unknown keys, so a slip would change a rule.

A misspelt `environment_mode`, for one, would mean a verifier inside the agent's own container. What a bundle must
never ask for is refused by name, the rest as unknown.
"""

import tomllib
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from benchsite.lib.canonical import Json, as_object, walk
from benchsite.lib.closed import Closed, Text, validate
from benchsite.lib.problems import Problem, path_of

AGENT_IMAGE = "benchsite-agent"
VERIFIER_IMAGE = "benchsite-verifier"
AGENT_WORKDIR = "/app"
GATEWAY_HOST = "model-gateway"
MAX_BYTES = 64 * 1024

Seconds = Annotated[float, Field(ge=1, le=600, allow_inf_nan=False)]

_LIMITS = ("task.limit_in_task", "limits stand in the bundle's ceilings, not in a task")
_HOST = ("task.host_setting", "a task asks for no setting of the host")
_NETWORK = ("task.network", f"an agent reaches {GATEWAY_HOST} and a verifier nothing")
_USER = ("task.simulated_user", "simulated users are not run here")
_CONFIG = ("task.extra_config", "extra configuration and instructions are not taken")
_COMPOSE = ("task.compose", "a task's containers are never made by Compose")
_FORBIDDEN: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("cpus", "memory", "memory_mb", "storage", "storage_mb"), _LIMITS),
    **dict.fromkeys(("gpus", "gpu_types", "tpu"), ("task.gpu", "no accelerator is given to a task")),
    **dict.fromkeys(("mcp_servers", "mcp_server"), ("task.mcp_servers", "MCP servers are not run for a task")),
    **dict.fromkeys(("skills", "skills_dir"), ("task.skills", "skills are not given to an agent")),
    **dict.fromkeys(
        ("steps", "multi_step_reward_strategy", "min_reward"), ("task.multi_step", "a task has exactly one step")
    ),
    "healthcheck": ("task.healthcheck", "health checks are not run"),
    "collect": ("task.collect_hook", "collect hooks are not run"),
    "solution": ("task.solution", "a solution is no part of a task"),
    "env": ("task.environment_variables", "a task sets no environment variables"),
    **dict.fromkeys(("privileged", "cap_add", "capabilities", "security_opt"), ("task.privileged", "no privileges")),
    **dict.fromkeys(("volumes", "mounts", "binds", "devices", "pid", "ipc", "network", "user", "os"), _HOST),
    **dict.fromkeys(("allow_internet", "dns", "extra_hosts", "ports"), _NETWORK),
    **dict.fromkeys(("compose", "docker_compose", "extra_docker_compose", "service", "services"), _COMPOSE),
    **dict.fromkeys(("dockerfile", "build", "context"), ("task.dockerfile", "no image is built for a task")),
    **dict.fromkeys(("user_agent", "user_persona", "bridge_prompt", "bridge_inputs", "persona"), _USER),
    **dict.fromkeys(("plugin", "plugins"), ("task.plugin", "plugins are not loaded")),
    **dict.fromkeys(("import_path", "kwargs"), ("task.import_path", "no code is named by a task")),
    **dict.fromkeys(("config", "extra_config", "extra_instructions", "extra_instruction_paths"), _CONFIG),
    **dict.fromkeys(("trajectory", "prior_trajectory"), ("task.preset_trajectory", "an agent starts afresh")),
    **dict.fromkeys(("model", "model_name", "oracle"), ("task.agent", "a task chooses neither agent nor model")),
    "task": ("task.renamed", "a task is called as its folder; the table would give it another name"),
    "source": ("task.renamed", "a task's source is its bundle"),
}  # fmt: skip
_BY_PATH: dict[str, tuple[str, str]] = {
    "verifier.environment_mode": ("task.shared_verifier", 'the verifier must have environment_mode = "separate"'),
    "verifier.environment": ("task.shared_verifier", "the verifier needs its own [verifier.environment]"),
    "agent.name": ("task.agent", "a task chooses no agent"),
    "environment.network_mode": _NETWORK,
    "environment.allowed_hosts": _NETWORK,
    "environment.allowed_hosts[0]": _NETWORK,
    "verifier.environment.network_mode": _NETWORK,
    "verifier.environment.allowed_hosts": _NETWORK,
    "agent.network_mode": _NETWORK,
    "agent.allowed_hosts": _NETWORK,
    "verifier.network_mode": _NETWORK,
    "verifier.allowed_hosts": _NETWORK,
    "environment.docker_image": ("task.image_reference", f"the image is not the symbolic name {AGENT_IMAGE}"),
    "verifier.environment.docker_image": (
        "task.image_reference",
        f"the image is not the symbolic name {VERIFIER_IMAGE}",
    ),
}


class Metadata(Closed):
    """For people."""

    title: Text
    category: Text


class Agent(Closed):
    """How long the agent may take."""

    timeout_sec: Seconds


class AgentEnvironment(Closed):
    """The agent's container: reaches the gateway only."""

    docker_image: Literal["benchsite-agent"]
    workdir: Literal["/app"]
    build_timeout_sec: Seconds
    network_mode: Literal["allowlist"]
    allowed_hosts: Annotated[list[Literal["model-gateway"]], Field(min_length=1, max_length=1)]


class VerifierEnvironment(Closed):
    """The verifier's own container: reaches nothing."""

    docker_image: Literal["benchsite-verifier"]
    workdir: Literal["/tests"]
    build_timeout_sec: Seconds
    network_mode: Literal["no-network"]


class Verifier(Closed):
    """How long the verifier may take, and where."""

    timeout_sec: Seconds
    environment_mode: Literal["separate"]
    environment: VerifierEnvironment


class TaskToml(Closed):
    """The whole file."""

    schema_version: Literal["1.4"]
    artifacts: Annotated[list[str], Field(min_length=1, max_length=4)]
    metadata: Metadata
    agent: Agent
    environment: AgentEnvironment
    verifier: Verifier


def parse(data: bytes) -> tuple[TaskToml | None, list[Problem]]:
    """The typed file, or None with every problem (paths are those inside the file)."""
    document, problems = _loaded(data)
    if document is None:
        return None, problems
    model, found = validate(TaskToml, document, prefix="task")
    by_name = list(_forbidden(document))
    named = {problem.path for problem in by_name}
    rest = [_named(problem) for problem in found if problem.path not in named]
    problems = [*by_name, *rest, *_templates(document), *_artifact_problems(as_object(document).get("artifacts"))]
    return (None if problems else model), problems


def _loaded(data: bytes) -> tuple[Json, list[Problem]]:
    if len(data) > MAX_BYTES:
        return None, [Problem("", "task.oversize", f"task.toml is larger than {MAX_BYTES:,} bytes")]
    try:
        return tomllib.loads(data.decode("utf-8")), []
    except UnicodeDecodeError:
        return None, [Problem("", "task.bad_toml", "task.toml is not UTF-8")]
    except (tomllib.TOMLDecodeError, RecursionError):
        return None, [Problem("", "task.bad_toml", "task.toml is not TOML, or a key stands in it twice")]


def _forbidden(document: Json) -> Iterator[Problem]:
    for location, _ in walk(document):
        key = location[-1] if location else None
        if isinstance(key, str) and key.lower() in _FORBIDDEN and location[0] != "metadata":
            yield Problem(path_of(location), *_FORBIDDEN[key.lower()])


def _named(problem: Problem) -> Problem:
    if problem.path in _BY_PATH and problem.code != "task.unknown_field":
        return Problem(problem.path, *_BY_PATH[problem.path])
    if problem.path in _BY_PATH and problem.path.endswith(("network_mode", "allowed_hosts", "name")):
        return Problem(problem.path, *_BY_PATH[problem.path])
    return problem


def _templates(document: Json) -> Iterator[Problem]:
    for location, value in walk(document):
        if isinstance(value, str) and "${" in value:
            yield Problem(path_of(location), "task.host_variable", "a variable of the host is never put into a task")


def _artifact_problems(artifacts: Json) -> Iterator[Problem]:
    sources: list[str] = []
    for index, source in enumerate(artifacts if isinstance(artifacts, list) else []):
        path = f"artifacts[{index}]"
        if isinstance(source, dict):
            yield Problem(path, "task.artifact_table", "an artifact is a plain path of the agent's container")
        elif isinstance(source, str):
            yield from _source_problems(source, path, sources)
            sources.append(source)


def _source_problems(source: str, path: str, earlier: list[str]) -> Iterator[Problem]:
    parts = source.split("/")
    if parts[:2] != ["", "app"] or len(parts) < 3 or not all(_is_plain(part) for part in parts[1:]):
        yield Problem(path, "task.artifact_source", f"the source is not a plain path below {AGENT_WORKDIR}")
    elif any(f"{source}/".startswith(f"{other}/") or f"{other}/".startswith(f"{source}/") for other in earlier):
        yield Problem(path, "task.artifact_overlap", "the source overlaps another one")


def _is_plain(part: str) -> bool:
    return part.isascii() and part.replace("-", "a").replace("_", "a").replace(".", "a").isalnum() and part[0] != "."
