"""Database triggers that hold what the code promises: what can never change, even by raw SQL.

They are installed again after every ``migrate``: SQLite loses the triggers of a table that a migration
rebuilds. Deletion is guarded by triggers in PostgreSQL only, because SQLite's flush is ``DELETE FROM``, and
that is how test databases are emptied; the models refuse deletion in both.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connections

from runs.models.states import TERMINAL_STATES

_TERMINAL = ", ".join(f"'{state}'" for state in TERMINAL_STATES)
_BUNDLE_IDENTITY = (
    "name", "revision", "manifest", "manifest_sha256", "packaged", "certification", "certified_at",
    "created_at", "created_by_id", "created_by_name", "reviewed_at", "reviewed_by_id", "reviewed_by_name",
    "review_note",
)  # fmt: skip


@dataclass(frozen=True)
class Guard:
    """``columns`` of ``table`` stand still in every row for which ``when`` (SQL over OLD) holds."""

    name: str
    table: str
    columns: tuple[str, ...]
    when: str = "1 = 1"
    unless: str = "1 = 0"


_BUNDLE_FROZEN = "OLD.status IN ('reviewed', 'retired')"
_ENDPOINT_RECORD = (
    "name", "version", "record", "record_sha256", "base_url", "host", "model", "served_model", "route",
    "scripted",
)  # fmt: skip
_PREVIEW_SHOWN = ("spec", "spec_sha256", "user_id", "worker_id", "checks", "expires_at")
_TOKEN = (
    "key", "user_id", "name", "digest", "may_read", "may_publish", "may_run", "created_at", "created_by_name",
    "expires_at",
)  # fmt: skip
_AUDIT = ("at", "kind", "actor_id", "actor_name", "run_id", "subject", "detail")

GUARDS = (
    Guard("run_spec", "runs_run", ("spec", "spec_sha256", "worker_id", "created_at")),
    Guard("run_verdict", "runs_run", ("verdict",), "OLD.verdict IS NOT NULL"),
    Guard("run_end", "runs_run", ("state", "ended_at"), f"OLD.state IN ({_TERMINAL})"),
    Guard("trial_bucket", "runs_trial", ("bucket", "reward", "failure_code"), "OLD.bucket IS NOT NULL"),
    Guard("bundle_content", "runs_taskbundle", _BUNDLE_IDENTITY, _BUNDLE_FROZEN),
    Guard(
        "bundle_status",
        "runs_taskbundle",
        ("status",),
        _BUNDLE_FROZEN,
        unless="OLD.status = 'reviewed' AND NEW.status = 'retired'",
    ),
    Guard("profile_content", "runs_profile", ("name", "document", "source", "content_sha256", "file_sha256")),
    Guard("endpoint_record", "runs_endpoint", _ENDPOINT_RECORD),
    Guard("preview_shown", "runs_preview", _PREVIEW_SHOWN),
    Guard("preview_once", "runs_preview", ("consumed_by_id",), "OLD.consumed_by_id IS NOT NULL"),
    Guard("api_token", "runs_apitoken", _TOKEN),
    Guard("api_token_end", "runs_apitoken", ("revoked_at", "revoked_by_name"), "OLD.revoked_at IS NOT NULL"),
    Guard("audit_entry", "runs_auditentry", _AUDIT),
)

_REFUSE = """
CREATE OR REPLACE FUNCTION benchsite_refuse() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN
  RAISE EXCEPTION 'guard %: this never changes', TG_NAME USING ERRCODE = 'integrity_constraint_violation';
END $body$
"""

UNDELETABLE = {"runs_auditentry": "1 = 1", "runs_taskbundle": _BUNDLE_FROZEN}


def install(*, using: str = "default", **_: Any) -> None:
    """Make all triggers anew in the database ``using``; tables that do not exist yet are skipped."""
    install_guards(GUARDS, UNDELETABLE, using=using)


def remove(*, using: str = "default", **_: Any) -> None:
    """Drop every trigger of the product in SQLite, before a migration.

    It rebuilds a table under another name and renames it, which SQLite refuses while a trigger of any table names it.
    """
    connection = connections[using]
    if connection.vendor != "sqlite":
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' AND name GLOB 'guard_*'")
        for (name,) in cursor.fetchall():
            cursor.execute(f"DROP TRIGGER {connection.ops.quote_name(name)}")


def install_guards(guards: Iterable[Guard], undeletable: Mapping[str, str], *, using: str) -> None:
    """Make the triggers of some guards anew; ``undeletable`` has a condition over OLD for each table."""
    connection = connections[using]
    present = set(connection.introspection.table_names())
    if connection.vendor == "sqlite":
        statements = _sqlite(guard for guard in guards if guard.table in present)
    else:
        kept = {table: condition for table, condition in undeletable.items() if table in present}
        statements = _postgresql((guard for guard in guards if guard.table in present), kept)
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _sqlite(guards: Iterable[Guard]) -> list[str]:
    statements = []
    for guard in guards:
        changed = " OR ".join(f"NEW.{column} IS NOT OLD.{column}" for column in guard.columns)
        event = f"BEFORE UPDATE OF {', '.join(guard.columns)} ON {guard.table}"
        condition = f"WHEN ({guard.when}) AND NOT ({guard.unless}) AND ({changed})"
        refuse = f"BEGIN SELECT RAISE(ABORT, 'guard {guard.name}: this never changes'); END"
        statements.append(f"DROP TRIGGER IF EXISTS guard_{guard.name}")
        statements.append(f"CREATE TRIGGER guard_{guard.name} {event} {condition} {refuse}")
    return statements


def _postgresql(guards: Iterable[Guard], undeletable: Mapping[str, str]) -> list[str]:
    statements = [_REFUSE]
    for guard in guards:
        changed = " OR ".join(f"NEW.{column} IS DISTINCT FROM OLD.{column}" for column in guard.columns)
        event = f"BEFORE UPDATE OF {', '.join(guard.columns)}"
        condition = f"({guard.when}) AND NOT ({guard.unless}) AND ({changed})"
        statements += _trigger(f"guard_{guard.name}", guard.table, event, condition)
    for table, condition in undeletable.items():
        statements += _trigger(f"guard_{table}_kept", table, "BEFORE DELETE", condition)
    return statements


def _trigger(name: str, table: str, event: str, condition: str) -> list[str]:
    body = f"FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION benchsite_refuse()"
    return [f"DROP TRIGGER IF EXISTS {name} ON {table}", f"CREATE TRIGGER {name} {event} ON {table} {body}"]
