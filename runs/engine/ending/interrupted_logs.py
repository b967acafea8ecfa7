"""The log folders of trial containers that still run after their Harbor was killed, kept before removal.

An interrupted trial is never evaluated, so these are for people: one tar file of each log folder in the trial's
``salvaged/``, exactly as the container gave it, bounded and unopened.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import docker

from runs.containers import Deadline, EngineError, engine_call
from runs.engine.host.folder import RunFolder
from runs.ownership import Journal, ResourceStage, Role

BOUND_BYTES = 64 * 1024 * 1024
LOGS = {Role.AGENT: "/logs/agent", Role.VERIFIER: "/logs/verifier"}
# Our holder is the first process, so this ends everything else: what is copied afterwards stays as it is.
KILL_OTHERS = ["/bin/kill", "-9", "--", "-1"]
COPY_S = 20.0
_STDOUT = 1


def keep_interrupted_logs(api: docker.APIClient, journal: Journal, folder: RunFolder, deadline: Deadline) -> list[Path]:
    """Keep the logs of every started trial container; returns the files. One that the engine refuses is passed over."""
    kept = []
    for resource in journal.read().resources:
        role, trial, container_id = resource.intent.role, resource.intent.trial, resource.resource_id
        if role not in LOGS or resource.stage is not ResourceStage.STARTED or not trial or container_id is None:
            continue
        target = folder.trial(trial) / "salvaged" / f"{role.value}-logs.tar"
        try:
            with engine_call("inspect container", deadline):
                running = api.inspect_container(container_id)["State"]["Status"] == "running"
            if running:
                with engine_call("end processes", deadline):
                    for _ in _output_of(api, container_id, KILL_OTHERS):
                        pass
                target.parent.mkdir(mode=0o700, exist_ok=True)
                with engine_call("copy logs", deadline, COPY_S):
                    _copy_out(api, container_id, LOGS[role], target)
                kept.append(target)
        except EngineError:
            continue
    return kept


def _copy_out(api: docker.APIClient, container_id: str, path: str, target: Path) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        left = BOUND_BYTES
        for output in _output_of(api, container_id, ["/bin/tar", "-C", path, "-cf", "-", "."]):
            file.write(output[:left])
            left -= len(output)
            if left <= 0:
                break


def _output_of(api: docker.APIClient, container_id: str, command: list[str]) -> Iterator[bytes]:
    """A command's standard output, read here: the client's own reading waits without any bound."""
    exec_id = api.exec_create(container_id, command, stdout=True, stderr=False)["Id"]
    stream: Any = api.exec_start(exec_id, socket=True)
    try:
        reader: IO[bytes] = stream._response.raw._fp.fp  # which may have read on, past the answer's head
        while len(header := reader.read(8)) == 8:
            size = int.from_bytes(header[4:], "big")
            while size and (part := reader.read(min(size, 65536))):
                size -= len(part)
                if header[0] == _STDOUT:
                    yield part
    finally:
        stream._response.close()
        stream.close()
