"""Suites, their cases and their revisions."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Max

from evidence.imports.identity import case_id, checkpoint_id
from evidence.models import Case, RevisionCase, Suite, SuiteRevision

LONGEST_ID = 255


@dataclass(frozen=True, slots=True)
class CaseContent:
    """A case as somebody ran it: dataset, task name, Harbor's checksum of the task."""

    source: str
    name: str
    checksum: str


def suite_named(suite_id: str, *, name: str, user_name: str) -> Suite:
    """The suite with this id, made when there is none."""
    defaults = {"name": name[:LONGEST_ID] or suite_id, "created_by_name": user_name}
    return Suite.objects.get_or_create(suite_id=suite_id, defaults=defaults)[0]


def cases_of(suite: Suite, named: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Case]:
    """The case of each pair of source and task name, made where there is none."""
    wanted = {case_id(suite.suite_id, source, name): (source, name) for source, name in named}
    known = set(Case.objects.filter(suite=suite, case_id__in=wanted).values_list("case_id", flat=True))
    Case.objects.bulk_create(
        [
            Case(suite=suite, case_id=identity, source=source, name=name)
            for identity, (source, name) in sorted(wanted.items())
            if identity not in known
        ],
        ignore_conflicts=True,  # somebody else makes the same ones at this moment
    )
    found = Case.objects.filter(suite=suite, case_id__in=wanted)
    return {wanted[case.case_id]: case for case in found}


@transaction.atomic
def publish_checkpoint(suite: Suite, contents: Iterable[CaseContent], *, mode: str, user_name: str) -> SuiteRevision:
    """A new revision of the suite: with `subset` these cases are added or updated, with `replace` they are all of it.

    When nothing would change, the newest revision is returned. Its checkpoint id is that of what was handed in.
    """
    suite = Suite.objects.select_for_update().get(pk=suite.pk)
    handed = list(contents)
    cases = cases_of(suite, {(each.source, each.name) for each in handed})
    new = {cases[(each.source, each.name)].pk: (each.checksum, "") for each in handed}
    newest = suite.revisions.order_by("-number").first()
    before: dict[int, tuple[str, str]] = {}
    if newest is not None:
        rows = newest.cases.values_list("case_id", "checksum", "content_sha256")
        before = {case: (checksum, content) for case, checksum, content in rows}
    after = {**before, **new} if mode == "subset" else new
    if newest is not None and after == before:
        return newest
    number = (suite.revisions.aggregate(last=Max("number"))["last"] or 0) + 1
    identity = checkpoint_id((cases[(each.source, each.name)].case_id, each.checksum) for each in handed)
    revision = SuiteRevision.objects.create(
        suite=suite, number=number, checkpoint_id=identity, mode=mode, case_count=len(after), created_by_name=user_name
    )
    RevisionCase.objects.bulk_create(
        [
            RevisionCase(revision=revision, case_id=case, checksum=checksum, content_sha256=content)
            for case, (checksum, content) in sorted(after.items())
        ],
        batch_size=500,
    )
    return revision
