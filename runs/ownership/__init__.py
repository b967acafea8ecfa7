"""The journal of what a run owns (containers, networks, processes), and its fence.

Standard library only: the worker and the isolated harness use the same code on the same files.
"""

from runs.ownership.document import (
    FULL_ID,
    LABEL_NONCE,
    LABEL_OWNER,
    LABEL_ROLE,
    LABEL_RUN,
    LABELS,
    MAX_BYTES,
    MAX_CONTAINERS,
    MAX_NETWORKS,
    MAX_PROCESSES,
    SCHEMA,
    Fence,
    Fenced,
    Intent,
    JournalBusy,
    JournalCorrupt,
    JournalDocument,
    JournalError,
    JournalExists,
    JournalFull,
    Kind,
    Outcome,
    OwnedProcess,
    ProcessIdentity,
    Resource,
    ResourceStage,
    Role,
    utc_now,
)
from runs.ownership.journal import JOURNAL_NAME, LOCK_NAME, Journal, Slot
from runs.ownership.processes import boot_id, group_members, identity_is_alive, process_identity

__all__ = [
    "FULL_ID", "JOURNAL_NAME", "LABELS", "LABEL_NONCE", "LABEL_OWNER", "LABEL_ROLE", "LABEL_RUN", "LOCK_NAME",
    "MAX_BYTES", "MAX_CONTAINERS", "MAX_NETWORKS", "MAX_PROCESSES", "SCHEMA", "Fence", "Fenced", "Intent", "Journal",
    "JournalBusy", "JournalCorrupt", "JournalDocument", "JournalError", "JournalExists", "JournalFull",
    "Kind", "Outcome", "OwnedProcess", "ProcessIdentity", "Resource", "ResourceStage", "Role", "Slot", "boot_id",
    "group_members", "identity_is_alive", "process_identity", "utc_now",
]  # fmt: skip
