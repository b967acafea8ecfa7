"""Database triggers that hold what experiments promise: a finalized one is for ever, and a number keeps its trust.

See ``runs.models.triggers`` for why they are installed after every ``migrate``. Whether a row's experiment is
finalized stands in another table. SQLite asks that in the trigger's condition; PostgreSQL has a function for it, which
also waits for whoever finalizes at the same moment.
"""

from typing import Any

from django.db import connections

from runs.models.triggers import Guard, install_guards

_EXPERIMENT, _TRIAL, _SCORE, _FILE = (
    "evidence_experiment", "evidence_experimenttrial", "evidence_score", "evidence_experimentfile",
)  # fmt: skip
_IDENTITY = (
    "key", "experiment_id", "source", "trust", "suite_id", "dataset", "agent_name", "model_provider", "model_name",
)  # fmt: skip
_RESULT = (
    "name", "revision_id", "checkpoint_id", "agent_version", "harbor_version", "job_import_id", "job_id", "main_reward",
    "pass_threshold", "requested", "retries", "overrides", "details", "state", "result", "error", "created_at",
    "created_by_name", "finalized_at",
)  # fmt: skip
_TRIAL_IDENTITY = ("experiment_id", "source", "trust", "trial_name", "case_id")
_TRIAL_REST = (
    "checksum", "attempt", "error_type", "error", "agent_error", "started_at", "finished_at", "duration_ms",
    "input_tokens", "cache_tokens", "output_tokens", "cost_usd", "usage_source", "regraded", "agent_version",
    "conversation_id", "badges", "details", "created_at", "reported_outcome", "observed_outcome",
)  # fmt: skip
_IMPORT = ("job_id", "job_name", "harbor_version", "created_at", "created_by_name", "warnings")
_REVISION = ("suite_id", "number", "checkpoint_id", "mode", "case_count", "created_at", "created_by_name")

# PostgreSQL compares the type json with nothing; jsonb, which Django uses, it does.
GUARDS = (
    Guard("experiment_identity", _EXPERIMENT, _IDENTITY),
    Guard("experiment_end", _EXPERIMENT, _RESULT, "OLD.state = 'finalized'"),
    Guard("experiment_trial_identity", _TRIAL, _TRIAL_IDENTITY),
    Guard("experiment_trial_reported", _TRIAL, ("reported_outcome",), "OLD.reported_outcome IS NOT NULL"),
    Guard("experiment_trial_observed", _TRIAL, ("observed_outcome",), "OLD.observed_outcome IS NOT NULL"),
    Guard("score", _SCORE, ("trial_id", "name", "number", "evaluator", "evaluator_version", "main", "passed")),
    Guard("experiment_file", _FILE, ("key", "experiment_id", "trial_id", "path", "size", "sha256", "created_at")),
    Guard("job_import", "evidence_jobimport", _IMPORT),
    Guard("suite_id", "evidence_suite", ("suite_id",)),
    Guard("case", "evidence_case", ("suite_id", "case_id", "source", "name")),
    Guard("suite_revision", "evidence_suiterevision", _REVISION),
    Guard("revision_case", "evidence_revisioncase", ("revision_id", "case_id", "checksum", "content_sha256")),
)
UNDELETABLE = {
    _EXPERIMENT: "OLD.state = 'finalized'",
    "evidence_jobimport": "1 = 1",
    "evidence_suiterevision": "1 = 1",
    "evidence_revisioncase": "1 = 1",
}

# What may not happen to a row: the events, and SQL that is true of a row for which they are refused. `{row}` is NEW,
# or OLD for what is removed.
_STATE = "(SELECT state FROM evidence_experiment WHERE id = {row}.experiment_id) = 'finalized'"
_STATE_OF_SCORE = (
    "(SELECT e.state FROM evidence_experiment e JOIN evidence_experimenttrial t ON t.experiment_id = e.id"
    " WHERE t.id = {row}.trial_id) = 'finalized'"
)
_OTHER_TRUST = "(SELECT source FROM evidence_experiment WHERE id = {row}.experiment_id) <> {row}.source"
_FULL = (
    "(SELECT count(*) FROM evidence_revisioncase WHERE revision_id = {row}.revision_id)"
    " >= (SELECT case_count FROM evidence_suiterevision WHERE id = {row}.revision_id)"
)
_LOCK = "PERFORM 1 FROM evidence_experiment WHERE id = NEW.experiment_id FOR SHARE;"
_LOCK_OF_SCORE = (
    "PERFORM 1 FROM evidence_experiment WHERE id ="
    " (SELECT experiment_id FROM evidence_experimenttrial WHERE id = NEW.trial_id) FOR SHARE;"
)
_LOCK_OF_REVISION = "PERFORM 1 FROM evidence_suiterevision WHERE id = NEW.revision_id FOR UPDATE;"
# name, table, event, condition, what PostgreSQL locks before it looks
_REFUSALS = (
    ("experiment_trial_added", _TRIAL, "INSERT", f"{_STATE} OR {_OTHER_TRUST}", _LOCK),
    ("experiment_trial_changed", _TRIAL, f"UPDATE OF {', '.join(_TRIAL_REST)}", _STATE, _LOCK),
    ("experiment_file_added", _FILE, "INSERT", _STATE, _LOCK),
    ("score_added", _SCORE, "INSERT", _STATE_OF_SCORE, _LOCK_OF_SCORE),
    ("revision_case_added", "evidence_revisioncase", "INSERT", _FULL, _LOCK_OF_REVISION),
)
_REMOVALS = (
    ("experiment_trial_removed", _TRIAL, _STATE),
    ("experiment_file_removed", _FILE, _STATE),
    ("score_removed", _SCORE, _STATE_OF_SCORE),
)

_FUNCTION = """
CREATE OR REPLACE FUNCTION benchsite_{name}() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN
  {lock}
  IF {condition} THEN
    RAISE EXCEPTION 'guard %: this never changes', TG_NAME USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN {row};
END $body$
"""
_TRIGGER = "CREATE TRIGGER guard_{name} BEFORE {event} ON {table} FOR EACH ROW EXECUTE FUNCTION benchsite_{name}()"


def install(*, using: str = "default", **_: Any) -> None:
    """Make all triggers anew in the database ``using``; tables that do not exist yet are skipped."""
    install_guards(GUARDS, UNDELETABLE, using=using)
    connection = connections[using]
    if _EXPERIMENT not in connection.introspection.table_names():
        return  # an older migration state
    statements = _sqlite() if connection.vendor == "sqlite" else _postgresql()
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _sqlite() -> list[str]:
    statements = []
    for name, table, event, condition, _ in _REFUSALS:
        statements.append(f"DROP TRIGGER IF EXISTS guard_{name}")
        statements.append(
            f"CREATE TRIGGER guard_{name} BEFORE {event} ON {table} WHEN {condition.format(row='NEW')}"
            f" BEGIN SELECT RAISE(ABORT, 'guard {name}: this never changes'); END"
        )
    return statements


def _postgresql() -> list[str]:
    statements: list[str] = []
    removals = tuple((name, table, "DELETE", condition, "") for name, table, condition in _REMOVALS)
    for name, table, event, condition, lock in (*_REFUSALS, *removals):
        row = "OLD" if event == "DELETE" else "NEW"
        statements += (
            _FUNCTION.format(name=name, lock=lock, condition=condition.format(row=row), row=row),
            f"DROP TRIGGER IF EXISTS guard_{name} ON {table}",
            _TRIGGER.format(name=name, event=event, table=table),
        )
    return statements
