"""The limits that this worker enforces, proved by an owned probe container that tries to break each.

An engine may accept a limit and ignore it, so options and warnings prove nothing: only what stopped the probe counts.
"""

import json
import platform
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import docker

from benchsite.lib.canonical import Json, canonical_sha256
from runs.containers import (
    ContainerRequest,
    EngineError,
    connect,
    create_owned,
    engine_call,
    remove_owned,
    start_owned,
)
from runs.engine.host.folder import free_bytes
from runs.engine.preflight.sandbox_proof import prove_sandbox
from runs.ownership import Journal, Role

SCHEMA = "benchsite.capabilities/v1"
MIB = 1024 * 1024
PROBE_MEMORY = 96 * MIB
PROBE_STORAGE = 8 * MIB
PROBE_PIDS = 40
PROBE_NOFILE = 64
PROBE_CPUS = 0.5
PROBE_BOUND_S = 60
# A quota of half a CPU is handed out in slices of 100 ms, so a short burn may get one slice more.
CPU_TOLERANCE = 0.35
# CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID: bits 0, 1, 3, 5, 6, 7 of the capability set.
GIVEN_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
GIVEN_CAPABILITY_BITS = 0xEB
SIGKILL = 9
PROGRAM = Path(__file__).with_name("limits_probe.py")


@dataclass(frozen=True, slots=True)
class LimitProof:
    """One limit on this worker: whether the probe ran into it, by which mechanism, and what was seen."""

    name: str
    enforced: bool
    mechanism: str
    detail: str


def engine_facts(api: docker.APIClient) -> dict[str, Any]:
    """The engine and the machine under it, without anything that changes from minute to minute."""
    with engine_call("info"):
        info, version = api.info(), api.version()
    return {
        "version": version["Version"],
        "api": version["ApiVersion"],
        "cgroup_version": str(info.get("CgroupVersion", "1")),
        "cgroup_driver": info.get("CgroupDriver"),
        "storage_driver": info.get("Driver"),
        "kernel": info.get("KernelVersion"),
        "system": info.get("OperatingSystem"),
        "architecture": info.get("Architecture"),
        "cpus": info.get("NCPU"),
        "memory_bytes": info.get("MemTotal"),
    }


def prove_limits(api: docker.APIClient, journal: Journal, image_id: str) -> list[LimitProof]:
    """Run the probe in an owned container of ``journal`` and judge what it saw. Raises EngineError, JournalError."""
    facts = {line["name"]: line for line in _probe_lines(api, journal, image_id)}
    mode = engine_facts(api)["cgroup_version"]
    return list(_judge(facts, f"cgroup v{mode}"))


@contextmanager
def _probe_container(api: docker.APIClient, journal: Journal, image_id: str) -> Iterator[str]:
    owned = create_owned(api, journal, {}, _probe_request(image_id))
    try:
        start_owned(api, journal, owned)
        yield owned.id
    finally:
        remove_owned(api, journal, owned.intent.nonce)


def _probe_request(image_id: str) -> ContainerRequest:
    return ContainerRequest(
        role=Role.PROBE,
        image_id=image_id,
        command=("python3", "-I", "-S", "-c", PROGRAM.read_text(encoding="utf-8")),
        cpus=PROBE_CPUS,
        memory_bytes=PROBE_MEMORY,
        pids=PROBE_PIDS,
        nofile=PROBE_NOFILE,
        tmpfs={"/scratch": PROBE_STORAGE},
        env={"LIMITS": json.dumps({"memory": PROBE_MEMORY, "storage": PROBE_STORAGE})},
        capabilities=GIVEN_CAPABILITIES,
    )


def _probe_lines(api: docker.APIClient, journal: Journal, image_id: str) -> list[dict[str, Any]]:
    with _probe_container(api, journal, image_id) as container_id, engine_call("wait for the limits probe"):
        api.wait(container_id, timeout=PROBE_BOUND_S)
        output = api.logs(container_id, stdout=True, stderr=False)
    lines = []
    for line in output.decode("utf-8", "replace").splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return [line for line in lines if isinstance(line, dict) and isinstance(line.get("name"), str)]


def _judge(facts: dict[str, dict[str, Any]], cgroup: str) -> Iterator[LimitProof]:
    for name, mechanism, holds in _RULES:
        seen = facts.get(name)
        if seen is None:
            yield LimitProof(name, False, mechanism.format(cgroup=cgroup), "the probe ended before it could try")
        else:
            detail = ", ".join(f"{key} {value}" for key, value in sorted(seen.items()) if key != "name")
            yield LimitProof(name, _safely(holds, seen), mechanism.format(cgroup=cgroup), detail)


def _safely(holds: Callable[[dict[str, Any]], bool], seen: dict[str, Any]) -> bool:
    try:
        return holds(seen)
    except (TypeError, ValueError, KeyError):
        return False


_RULES: list[tuple[str, str, Callable[[dict[str, Any]], bool]]] = [
    # On a busy host two processes may get less than the quota without any, so the kernel's own number counts too.
    (
        "cpu",
        "{cgroup} CPU quota",
        lambda seen: seen["value"] <= PROBE_CPUS + CPU_TOLERANCE and seen["quota"] <= PROBE_CPUS,
    ),
    ("memory", "{cgroup} memory limit without extra swap", lambda seen: seen["value"] == SIGKILL),
    ("pids", "{cgroup} pids limit", lambda seen: seen["value"] < PROBE_PIDS and seen["stopped"] == "EAGAIN"),
    ("nofile", "RLIMIT_NOFILE", lambda seen: seen["value"] < PROBE_NOFILE and seen["stopped"] == "EMFILE"),
    ("storage", "sized tmpfs", lambda seen: seen["value"] <= PROBE_STORAGE and seen["stopped"] == "ENOSPC"),
    ("read_only_root", "read-only root file system", lambda seen: seen["value"] == "EROFS"),
    ("capabilities", "capability bounding set", lambda seen: int(seen["value"], 16) == GIVEN_CAPABILITY_BITS),
    ("no_new_privileges", "no_new_privs", lambda seen: seen["value"] == "1"),
    ("seccomp", "engine's default seccomp filter", lambda seen: seen["value"] == "2"),
    ("core", "RLIMIT_CORE 0", lambda seen: seen["value"] == 0),
    ("no_network", "empty network namespace", lambda seen: seen["value"] == ["lo"]),
]


def capability_digest(report: dict[str, Any]) -> str:
    """The SHA-256 that a spec is bound to: of the report without what a probe measures anew each time."""
    limits: list[Json] = [{**limit, "detail": ""} for limit in report["limits"]]
    lasting = {name: value for name, value in report.items() if name != "disk_free_bytes"}
    return canonical_sha256({**lasting, "limits": limits})


def capability_report(
    *,
    worker: str,
    journal: Journal,
    image_id: str | None,
    assets: dict[str, Any],
    harness: Path | None,
    uids: range,
    api: docker.APIClient | None = None,
) -> dict[str, Any]:
    """What the worker's row shows and a spec is bound to. ``assets`` are the digests of the prepared
    assets, ``harness`` the folder of the prepared environment, ``uids`` those of its sandboxes.

    An engine that does not answer gives a report that says so; it enforces nothing then.
    """
    sandbox = prove_sandbox(harness, uids)
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "worker": worker,
        "host": socket.gethostname(),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "network_namespace": sandbox["made"],
        "disk_free_bytes": free_bytes(journal.directory),
        "sandbox": sandbox,
        "assets": assets,
        "engine": None,
        "engine_problem": None,
        "limits": [],
    }
    try:
        engine = api or connect(PROBE_BOUND_S)
        report["engine"] = engine_facts(engine)
        if image_id is not None:
            report["limits"] = [asdict(proof) for proof in prove_limits(engine, journal, image_id)]
    except EngineError as error:
        report["engine_problem"] = {"code": error.code, "sentence": error.sentence}
    return report
