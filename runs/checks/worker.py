"""Checks of a worker's capability report: one judgement, for previews and for its own preflight. Pure.

The web never asks an engine: a preview judges the last report, and the worker judges a new one when it claims the run.
"""

from collections.abc import Iterator
from typing import Any, Protocol

from runs.checks.check import Check, Level

# What a bundle's ceilings and the design's isolation demand; a worker that cannot enforce one of them blocks.
REQUIRED_LIMITS = (
    "cpu", "memory", "pids", "nofile", "storage", "read_only_root", "capabilities", "no_new_privileges",
    "seccomp", "no_network",
)  # fmt: skip
OPTIONAL_LIMITS = ("core",)

MIB = 1024 * 1024
# What no start of the engine mends, by the code of the report's own problem.
_ENGINE_CODES = {"engine_not_local": "engine.not_local", "engine_context": "engine.context_unreadable"}


class _Role(Protocol):
    @property
    def cpus(self) -> float: ...
    @property
    def memory_bytes(self) -> int: ...


class RoleCeilings(Protocol):
    """What each container of a trial may use: a bundle's ceilings, or a spec's limits."""

    @property
    def agent(self) -> _Role: ...
    @property
    def verifier(self) -> _Role: ...
    @property
    def gateway(self) -> _Role: ...


_UNPROVED = {"enforced": False, "mechanism": "not proved", "detail": "no probe ran"}


def report_checks(report: dict[str, Any]) -> Iterator[Check]:
    """Every check that a report (`benchsite.capabilities/v1`) allows: engine, platform, each limit's mechanism."""
    yield _engine(report)
    passed = str(report.get("platform", "")).startswith("Linux")
    detail = f"{report.get('platform')}, Python {report.get('python')}."
    code, remedy = ("worker.linux", "") if passed else ("worker.platform", "Runs need a Linux worker.")
    yield Check("platform", passed, code, detail, remedy)
    if report.get("engine"):
        proved = {limit["name"]: limit for limit in report.get("limits", [])}
        for name in (*REQUIRED_LIMITS, *OPTIONAL_LIMITS):
            yield _limit(name, proved.get(name, _UNPROVED))
        yield from _sandbox(report)


def ceiling_checks(report: dict[str, Any], limits: RoleCeilings) -> Iterator[Check]:
    """Whether the worker has what the containers of one trial may use. The gateway stands beside the agent
    or the verifier, never beside both. What a report does not say is not judged.
    """
    engine = report.get("engine") or {}
    needed = needed_memory_bytes(limits)
    cpus = needed_cpus(limits)
    if isinstance(engine.get("cpus"), int):
        yield _ceiling("cpus", engine["cpus"] >= cpus, f"{engine['cpus']} CPUs; a container may use {cpus:g}.")
    if isinstance(engine.get("memory_bytes"), int):
        seen = f"{engine['memory_bytes'] // MIB:,} MiB of memory; a trial's containers may use {needed // MIB:,} MiB."
        yield _ceiling("memory", engine["memory_bytes"] >= needed, seen)


def needed_memory_bytes(limits: RoleCeilings) -> int:
    """What the containers that stand beside each other may use at most."""
    return max(limits.agent.memory_bytes, limits.verifier.memory_bytes) + limits.gateway.memory_bytes


def needed_cpus(limits: RoleCeilings) -> float:
    """The most CPUs that one container may use."""
    return max(limits.agent.cpus, limits.verifier.cpus, limits.gateway.cpus)


def disk_check(free_bytes: int, needed_bytes: int) -> Check:
    """Whether the worker has the free disk that the profile requires and a run's evidence takes."""
    enough = free_bytes >= needed_bytes
    return Check(
        "disk",
        enough,
        "disk.enough" if enough else "worker.disk_full",
        f"{free_bytes // MIB:,} MiB free, {needed_bytes // MIB:,} MiB needed.",
        "" if enough else "Free space where BENCHSITE_DATA lies.",
    )


def _ceiling(what: str, passed: bool, seen: str) -> Check:
    code, remedy = ("worker.large_enough", "") if passed else (f"worker.too_little_{what}", "Use a larger worker.")
    return Check(f"worker {what}", passed, code, seen, remedy)


def _engine(report: dict[str, Any]) -> Check:
    engine, problem = report.get("engine") or {}, report.get("engine_problem") or {}
    if engine:
        seen = f"Docker Engine {engine.get('version')}, cgroup v{engine.get('cgroup_version')}."
        return Check("engine", True, "engine.reachable", seen)
    sentence = str(problem.get("sentence", "The Docker Engine did not answer."))
    remedy = "Start the engine on that host, then run manage.py worker --report there."
    code = _ENGINE_CODES.get(str(problem.get("code")), "engine.unreachable")
    return Check("engine", False, code, sentence, remedy if code == "engine.unreachable" else "")


def _limit(name: str, proof: dict[str, Any]) -> Check:
    level: Level = "accept" if name in OPTIONAL_LIMITS else "block"
    if proof["enforced"]:
        return Check(f"limit {name}", True, "limit.enforced", f"{proof['mechanism']}.", level=level)
    seen = f" The probe saw: {proof['detail']}." if proof["detail"] else ""
    detail = f"Not enforced by {proof['mechanism']}.{seen}"
    remedy = "Use a worker whose engine and kernel enforce it."
    return Check(f"limit {name}", False, f"limit.{name}_not_enforced", detail, remedy, level)


def _sandbox(report: dict[str, Any]) -> Iterator[Check]:
    """Harbor's own process runs where it reaches nothing; without that nothing starts."""
    found = report.get("sandbox") or {}
    if found.get("made") is not True:
        detail = str(found.get("detail") or "The worker has not said whether it can make one.")
        remedy = "Mend it on that host, then run manage.py worker --report there."
        yield Check("sandbox", False, str(found.get("code") or "sandbox.not_proved"), detail, remedy)
        return
    yield Check("sandbox", True, "sandbox.made", "Harbor runs in a sandbox that reaches nothing of the host.")
    own = found.get("own_uid") is True
    yield Check(
        "limit harness_uid",
        own,
        "sandbox.own_uid" if own else "sandbox.shares_uid",
        f"Harbor's own process runs as {'a user of its own' if own else 'the user of the worker'}.",
        "" if own else "Run the worker as root, so that it can give the sandbox a user of its own.",
        "accept",
    )
