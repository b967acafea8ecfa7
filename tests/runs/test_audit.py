"""The audit trail is only ever added to, and outlives the people in it."""

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import IntegrityError, connection, transaction

from runs.models import AuditEntry, AuditKind
from runs.models.audit import AppendOnly
from runs.services import audit
from tests.runs.rows import person, run_row

pytestmark = pytest.mark.django_db


def test_an_entry_survives_its_user():
    olga = person("olga")
    run = run_row()
    audit.record(AuditKind.DOWNLOAD, user=olga, run_id=run.pk, subject="result.json")
    pk = olga.pk
    olga.delete()
    entry = AuditEntry.objects.get()
    assert (entry.actor_id, entry.actor_name, entry.run_id) == (pk, "olga", run.pk)
    assert str(entry) == "olga: Downloaded evidence result.json"


def test_the_system_and_anonymous_people_have_names_too():
    assert audit.record(AuditKind.CANCEL, user=None).actor_name == "system"
    assert audit.record(AuditKind.CANCEL, user=AnonymousUser()).actor_id is None


def test_an_entry_is_never_saved_again_or_deleted():
    entry = audit.record(AuditKind.START, user=None)
    entry.actor_name = "eve"
    with pytest.raises(AppendOnly):
        entry.save()
    for delete in (entry.delete, AuditEntry.objects.all().delete):
        with pytest.raises(AppendOnly):
            delete()


@pytest.mark.parametrize("column", ["actor_name", "kind", "subject"])
def test_an_entry_is_never_updated_even_by_sql(column):
    audit.record(AuditKind.START, user=None)
    with pytest.raises(IntegrityError), transaction.atomic():
        AuditEntry.objects.update(**{column: "x"})
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE runs_auditentry SET {column} = 'x'")


@pytest.mark.skipif("connection.vendor == 'sqlite'", reason="deletion is guarded by a trigger in PostgreSQL only")
def test_an_entry_is_never_deleted_even_by_sql():
    audit.record(AuditKind.START, user=None)
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM runs_auditentry")
