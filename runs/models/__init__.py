"""The rows that benchsite keeps about runs. One module per concern; import the names from here."""

from runs.models.audit import AuditEntry, AuditKind
from runs.models.documents import BundleStatus, Endpoint, EndpointStop, Profile, TaskBundle
from runs.models.endpoint_tests import ConnectionOutcome, ConnectionState, EndpointTest
from runs.models.previews import Preview
from runs.models.resources import GONE, LogLine, OwnedResource, StageMark
from runs.models.runs import Run
from runs.models.states import (
    ACTIVE_STATES,
    LEGAL_ENDINGS,
    OVER,
    STATE_OF_STAGE,
    TERMINAL_STATES,
    Cleanup,
    RunState,
    Stage,
)
from runs.models.tokens import ApiToken
from runs.models.trials import Trial
from runs.models.usage import EndpointUsage
from runs.models.workers import HarnessLock, ImageLock, Worker

__all__ = [
    "ACTIVE_STATES",
    "GONE",
    "LEGAL_ENDINGS",
    "OVER",
    "STATE_OF_STAGE",
    "TERMINAL_STATES",
    "ApiToken",
    "AuditEntry",
    "AuditKind",
    "BundleStatus",
    "Cleanup",
    "ConnectionOutcome",
    "ConnectionState",
    "Endpoint",
    "EndpointStop",
    "EndpointTest",
    "EndpointUsage",
    "HarnessLock",
    "ImageLock",
    "LogLine",
    "OwnedResource",
    "Preview",
    "Profile",
    "Run",
    "RunState",
    "Stage",
    "StageMark",
    "TaskBundle",
    "Trial",
    "Worker",
]
