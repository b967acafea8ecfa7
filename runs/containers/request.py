"""The request for a container of ours, its checks, and the one hardened body that the engine gets."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from benchsite.lib.problems import CodedError
from runs.ownership import FULL_ID, Intent, Role

ALLOWED_CAPABILITIES = frozenset({"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID", "KILL"})
IMAGE_ID = re.compile(r"sha256:[0-9a-f]{64}")
SHM_BYTES = 1024 * 1024
LOG_BYTES = 1024 * 1024
DNS_SERVER = "127.0.0.1"
DNS_OPTIONS = ("timeout:1", "attempts:1")


class RequestRefused(CodedError):
    """A container or network that this product does not make."""

    def __init__(self, detail: str) -> None:
        sentence = "The container that was asked for does not keep the rules of this product."
        super().__init__("container_request", sentence, detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest:
    """One container. Everything that is not here is fixed by `container_body`.

    `image_id` is the full `sha256:` id. `cpus` counts CPUs, sizes are bytes, `tmpfs` maps an absolute path to
    its size. `network` is a full network id or None for no network at all; `address` a fixed IPv4 address in
    a network with its own subnet; `hosts` name → address lines for /etc/hosts. `log_bytes` bounds the
    engine's log in one file: at that size the engine drops the oldest lines, so a program whose log is a
    record (the gateway) must itself stop before it.
    """

    role: Role
    image_id: str
    command: tuple[str, ...]
    cpus: float
    memory_bytes: int
    pids: int
    nofile: int
    tmpfs: Mapping[str, int] = field(default_factory=dict)
    network: str | None = None
    address: str | None = None
    aliases: tuple[str, ...] = ()
    hosts: Mapping[str, str] = field(default_factory=dict)
    dns: tuple[str, ...] = (DNS_SERVER,)
    env: Mapping[str, str] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    user: str = "0:0"
    workdir: str = ""
    stdin_open: bool = False
    log_bytes: int = LOG_BYTES


def check_request(request: ContainerRequest) -> None:
    """Raises RequestRefused for whatever would soften the container or leave a bound open."""
    problems = [text for bad, text in _rules(request) if bad]
    if problems:
        raise RequestRefused("; ".join(problems))


def _rules(request: ContainerRequest) -> list[tuple[bool, str]]:
    reserved = sum(request.tmpfs.values())
    return [
        (request.role is Role.NETWORK, "a network is no container"),
        (not IMAGE_ID.fullmatch(request.image_id), "the image is not a full sha256 id"),
        (not request.command, "the command is empty"),
        (not (math.isfinite(request.cpus) and request.cpus > 0), "no bound on CPUs"),
        (request.memory_bytes <= reserved, "memory does not exceed the sum of tmpfs"),
        (request.pids < 1, "no bound on processes"),
        (request.nofile < 1, "no bound on open files"),
        (request.log_bytes < 1, "no bound on the log"),
        (not set(request.capabilities) <= ALLOWED_CAPABILITIES, "a capability that is never given"),
        (any(not _is_plain_path(path) for path in request.tmpfs), "a tmpfs path is not absolute and plain"),
        (any(size < 1 for size in request.tmpfs.values()), "a tmpfs has no size"),
        (request.network is not None and not FULL_ID.fullmatch(request.network), "the network is not a full id"),
        (request.network is not None and request.role is Role.VERIFIER, "a verifier has no network"),
        (request.network is None and bool(request.aliases or request.address), "an address without a network"),
    ]


def _is_plain_path(path: str) -> bool:
    return (
        PurePosixPath(path).is_absolute()
        and path != "/"
        and str(PurePosixPath(path)) == path
        and ".." not in PurePosixPath(path).parts
        and not set(path) & set(":,\0")
    )


def container_body(request: ContainerRequest, intent: Intent) -> dict[str, Any]:
    """The engine's create body: the only place where a container of ours gets its settings."""
    check_request(request)
    return {
        "Image": request.image_id,
        # The command stands as the entrypoint so that nothing of the image's own is added to it.
        "Entrypoint": list(request.command),
        "Cmd": [],
        "Env": [f"{name}={value}" for name, value in sorted(request.env.items())],
        "Labels": intent.labels,
        "User": request.user,
        "WorkingDir": request.workdir,
        "Tty": False,
        "OpenStdin": request.stdin_open,
        "StdinOnce": request.stdin_open,
        "AttachStdin": request.stdin_open,
        "AttachStdout": False,
        "AttachStderr": False,
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGTERM",
        "StopTimeout": 1,
        "HostConfig": _host_config(request),
        "NetworkingConfig": _networking(request),
    }


def _host_config(request: ContainerRequest) -> dict[str, Any]:
    return {
        "CapDrop": ["ALL"],
        "CapAdd": sorted(request.capabilities),
        "SecurityOpt": ["no-new-privileges:true"],
        "Privileged": False,
        "ReadonlyRootfs": True,
        "Init": False,
        "AutoRemove": False,
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "NanoCpus": int(request.cpus * 1_000_000_000),
        "Memory": request.memory_bytes,
        "MemorySwap": request.memory_bytes,
        "PidsLimit": request.pids,
        "Ulimits": [
            {"Name": "nofile", "Soft": request.nofile, "Hard": request.nofile},
            {"Name": "core", "Soft": 0, "Hard": 0},
        ],
        "ShmSize": SHM_BYTES,
        "Tmpfs": {path: _tmpfs_options(path, size) for path, size in sorted(request.tmpfs.items())},
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "LogConfig": {
            "Type": "json-file",
            "Config": {"max-size": str(request.log_bytes), "max-file": "1", "compress": "false"},
        },
        "NetworkMode": request.network or "none",
        "Dns": list(request.dns),
        "DnsOptions": list(DNS_OPTIONS),
        "DnsSearch": ["."],
        "ExtraHosts": [f"{name}:{address}" for name, address in sorted(request.hosts.items())],
        # The gateway stands in two networks, and nothing but its program may carry anything between them.
        "Sysctls": {"net.ipv4.ip_forward": "0"} if request.role is Role.GATEWAY else {},
    }


def _tmpfs_options(path: str, size: int) -> str:
    mode = "1777" if PurePosixPath(path).name == "tmp" else "0755"
    return f"rw,exec,nosuid,nodev,size={size},mode={mode}"


def _networking(request: ContainerRequest) -> dict[str, Any]:
    if request.network is None:
        return {}
    leg: dict[str, Any] = {"Aliases": list(request.aliases)}
    if request.address is not None:
        leg["IPAMConfig"] = {"IPv4Address": request.address}
    return {"EndpointsConfig": {request.network: leg}}
