"""What can be kept of a trial whose Harbor was killed? The log folders of its containers that still run.

An interrupted trial is never evaluated, so what is salvaged here is for people: it goes to the trial's
``salvaged/`` as one tar file of each log folder, exactly as the container gave it, bounded and unopened.
"""

import os
from pathlib import Path

import docker

from runs.containers import EngineError, engine_call
from runs.engine.host.folder import RunFolder
from runs.ownership import Journal, Resource, ResourceStage, Role

BOUND_BYTES = 64 * 1024 * 1024
LOGS = {Role.AGENT: "/logs/agent", Role.VERIFIER: "/logs/verifier"}
# Our holder is the first process, so this ends everything else: what is copied afterwards stays as it is.
KILL_OTHERS = ["/bin/kill", "-9", "--", "-1"]


def salvage(api: docker.APIClient, journal: Journal, folder: RunFolder) -> list[Path]:
    """Keep the logs of every started trial container; returns the files. An engine that refuses one is passed over."""
    kept = []
    for resource in journal.read().resources:
        if resource.intent.role in LOGS and resource.stage is ResourceStage.STARTED and resource.intent.trial:
            path = _salvage_one(api, resource, folder.trial(resource.intent.trial))
            kept += [path] if path is not None else []
    return kept


def _salvage_one(api: docker.APIClient, resource: Resource, trial: Path) -> Path | None:
    role, container_id = resource.intent.role, resource.resource_id
    if container_id is None:
        return None
    target = trial / "salvaged" / f"{role.value}-logs.tar"
    try:
        with engine_call("salvage logs"):
            if api.inspect_container(container_id)["State"]["Status"] != "running":
                return None
            api.exec_start(api.exec_create(container_id, KILL_OTHERS)["Id"])
            target.parent.mkdir(mode=0o700, exist_ok=True)
            _copy_out(api, container_id, LOGS[role], target)
    except EngineError:
        return None
    return target


def _copy_out(api: docker.APIClient, container_id: str, path: str, target: Path) -> None:
    command = ["/bin/tar", "-C", path, "-cf", "-", "."]
    exec_id = api.exec_create(container_id, command, stdout=True, stderr=False)["Id"]
    stream = api.exec_start(exec_id, stream=True, demux=True)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        left = BOUND_BYTES
        for output, _ in stream:
            chunk = (output or b"")[:left]
            file.write(chunk)
            left -= len(chunk)
            if left <= 0:
                break
