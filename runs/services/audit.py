"""Adds entries to the audit log; none is ever changed or deleted."""

from typing import Any
from uuid import UUID

from runs.models import AuditEntry, AuditKind
from runs.services.access import AnyUser

SYSTEM = "system"


def record(
    kind: AuditKind,
    *,
    user: AnyUser | None,
    run_id: UUID | None = None,
    subject: str = "",
    detail: dict[str, Any] | None = None,
) -> AuditEntry:
    """Add one entry; ``user`` is copied (``None``: the system itself). Call it in the act's transaction.

    ``detail`` is shown to administrators and holds JSON values only: hashes, names, reasons; never secrets.
    """
    return AuditEntry.objects.create(
        kind=kind,
        actor_id=None if user is None else user.pk,
        actor_name=name_of(user),
        run_id=run_id,
        subject=subject[:255],
        detail=detail or {},
    )


def name_of(user: AnyUser | None) -> str:
    """The name that is copied into rows: the user name, or ``system``."""
    return SYSTEM if user is None else user.get_username()[:150]
