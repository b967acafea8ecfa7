"""The ceilings of a bundle: what a trial may use at most. Part of the bundle's manifest and of every spec."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from benchsite.lib.canonical import Json, JsonObject, as_object
from benchsite.lib.closed import Closed, form
from benchsite.lib.problems import Problem

MIB = 1024 * 1024
# What a container needs beside its writable paths, which count as memory.
WORKING_SET_BYTES = {"agent": 384 * MIB, "verifier": 64 * MIB, "gateway": 64 * MIB}

# The attendant's own bounds, the same for every bundle: of one command's recorded output, and of one transfer.
EXEC_OUTPUT_BYTES = 256 * 1024
TRANSFER_BYTES = 64 * MIB
TRANSFER_FILES = 2_048

Bytes = Annotated[int, Field(ge=MIB, le=64 * 1024 * MIB)]
Path = Annotated[str, form(r"^(/[a-z0-9][a-z0-9._-]*)+$", "an absolute path, such as /app/output", max_length=200)]
Seconds = Annotated[int, Field(ge=1, le=600)]


class RoleLimits(Closed):
    """Of one container. `tmpfs`: size in bytes of each writable path; nothing else can be written."""

    cpus: Annotated[float, Field(ge=0.1, le=16, allow_inf_nan=False)]
    memory_bytes: Bytes
    pids: Annotated[int, Field(ge=8, le=4_096)]
    nofile: Annotated[int, Field(ge=64, le=65_536)]
    tmpfs: Annotated[dict[Path, Bytes], Field(max_length=16)]


class Phases(Closed):
    """Longest time of each phase of a trial, in seconds."""

    environment_start_s: Seconds
    agent_setup_s: Seconds
    agent_s: Seconds
    verifier_s: Seconds


class Ceilings(Closed):
    """`overhead_s` is kept free in a run's time for gateway, probe, ingest and removal."""

    agent: RoleLimits
    verifier: RoleLimits
    gateway: RoleLimits
    phases: Phases
    overhead_s: Annotated[int, Field(ge=30, le=600)]
    download_bytes: Annotated[int, Field(ge=0, le=0)]


def memory_problems(ceilings: Json, path: str) -> Iterator[Problem]:
    """A problem for each role whose memory does not hold its writable paths and a working set (design 3.7)."""
    for role, working_set in WORKING_SET_BYTES.items():
        limits = as_object(as_object(ceilings).get(role))
        memory, writable = limits.get("memory_bytes"), writable_bytes(limits)
        if type(memory) is int and memory < writable + working_set:
            sentence = f"{memory:,} bytes do not hold {writable:,} of writable paths and {working_set:,} to work in"
            yield Problem(f"{path}.{role}.memory_bytes", "bad_bundle.memory_too_small", sentence)


def writable_bytes(limits: JsonObject) -> int:
    """Sum of a role's writable paths."""
    return sum(size for size in as_object(limits.get("tmpfs")).values() if type(size) is int)
