"""A small program in an owned container on the run's network, which tries something from where an agent will be."""

import json
from pathlib import Path
from typing import Any

import docker

from runs.containers import ContainerRequest, create_owned, engine_call, remove_owned, start_owned
from runs.engine.network.gateway import ALIAS, RunGateway
from runs.ownership import Journal, Role

_MEMORY = 64 * 1024 * 1024


def said_by_probe(
    api: docker.APIClient,
    journal: Journal,
    gateway: RunGateway,
    image_id: str,
    program: Path,
    plan: dict[str, Any],
    *,
    bound_s: int,
    nofile: int = 64,
) -> dict[str, Any] | None:
    """The JSON object that `program` printed about its PLAN; None when it printed none. The container is gone then.

    The program has Python 3.11's standard library only, and is never given a credential. Raises EngineError and
    JournalError.
    """
    request = ContainerRequest(
        role=Role.PROBE,
        image_id=image_id,
        command=("python3", "-I", "-S", "-c", program.read_text(encoding="utf-8")),
        cpus=1.0,
        memory_bytes=_MEMORY,
        pids=16,
        nofile=nofile,
        network=gateway.networks.internal.id,
        hosts={ALIAS: gateway.address},  # as every agent has it
        env={"PLAN": json.dumps(plan)},
    )
    owned = create_owned(api, journal, {}, request)
    try:
        start_owned(api, journal, owned)
        with engine_call(f"wait for {program.stem}"):
            api.wait(owned.id, timeout=bound_s)
            output = api.logs(owned.id, stdout=True, stderr=False)
    finally:
        remove_owned(api, journal, owned.intent.nonce)
    try:
        said = json.loads(output)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None
