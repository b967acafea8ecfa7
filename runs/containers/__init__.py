"""Containers and networks of ours: requested, created with a journaled intent, and removed by exact id.

Needs `docker` and `runs.ownership` only, so that the worker and the isolated harness share it.
"""

from runs.containers.deadline import Deadline
from runs.containers.engine import CALL_TIMEOUT_S, Engine, EngineError, connect, engine_address, engine_call
from runs.containers.owned import (
    IntentArgs,
    OwnedContainer,
    OwnedNetwork,
    address_in,
    connect_owned,
    create_owned,
    create_owned_network,
    start_owned,
)
from runs.containers.removal import CleanupReport, ResourceOutcome, find_owned, reconcile, remove_owned, still_present
from runs.containers.request import ContainerRequest, RequestRefused, check_request, container_body

__all__ = [
    "CALL_TIMEOUT_S", "CleanupReport", "ContainerRequest", "Deadline", "Engine", "EngineError", "IntentArgs",
    "OwnedContainer", "OwnedNetwork", "RequestRefused", "ResourceOutcome", "address_in", "check_request",
    "connect", "connect_owned", "container_body", "create_owned", "create_owned_network", "engine_address",
    "engine_call",
    "find_owned", "reconcile", "remove_owned", "start_owned", "still_present",
]  # fmt: skip
