"""Starts a previewed run: a signed, expiring confirmation that starts exactly one run."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.core import signing
from django.db import transaction
from django.utils import timezone

from benchsite.lib.canonical import load_object
from runs.documents.run_spec import Spec
from runs.documents.specs import spec_difference
from runs.models import AuditKind, Endpoint, HarnessLock, Preview, Run, TaskBundle, Trial, Worker
from runs.services import access, audit, queue
from runs.services.access import AnyUser
from runs.services.previewing import Choice, resolve
from runs.services.refusals import BadToken, Blocked, Changed, NoSuchPreview, NotAccepted, PreviewExpired, quoted

_SALT = "runs.services.starting.confirm"


class _AlreadyStarted(Exception):
    """Another confirmation of the same preview came first."""


def token_of(preview: Preview) -> str:
    """The confirmation of a preview: signed over its id, its user and its ``spec_sha256``."""
    return signing.dumps(_claims(preview), salt=_SALT)


def confirm(*, user: AnyUser, preview_id: UUID | str, token: str, accepted: Collection[str] = ()) -> Run:
    """Start what was previewed, or return the run that this same confirmation started before.

    ``accepted`` are the names of checks of level ``accept`` that the person accepts. Raises
    ``PermissionDenied``, ``NoSuchPreview``, ``BadToken``, ``PreviewExpired``, ``Blocked``, ``NotAccepted``,
    and ``Changed`` with the differences when anything is no longer as it was shown.
    """
    person = access.require(user, access.START)
    preview = _preview_of(person, preview_id)
    try:
        claims = signing.loads(token, salt=_SALT)
    except signing.BadSignature as error:
        raise BadToken(detail=str(error)) from error
    if claims != _claims(preview):
        raise BadToken(detail="the token belongs to another preview")
    if preview.consumed_by is not None:
        return preview.consumed_by
    if preview.expires_at <= timezone.now():
        raise PreviewExpired()
    spec = _still_holds(preview, accepted)
    try:
        return _start(preview, spec, person, sorted(accepted))
    except _AlreadyStarted:
        started = _preview_of(person, preview_id).consumed_by
        if started is None:
            raise PreviewExpired() from None
        return started


def confirm_by_hash(*, user: AnyUser, preview_id: UUID | str, spec_sha256: str, accepted: Collection[str] = ()) -> Run:
    """``confirm`` for callers that hold the previewed spec's hash instead of a page's token (CLI, MCP)."""
    preview = _preview_of(access.require(user, access.START), preview_id)
    if not preview.spec_sha256 or preview.spec_sha256 != spec_sha256:
        raise BadToken("spec_sha256 is not the hash that this preview showed, which has 64 hexadecimal digits.")
    return confirm(user=user, preview_id=preview.pk, token=token_of(preview), accepted=accepted)


def _claims(preview: Preview) -> dict[str, Any]:
    return {"preview": preview.id.hex, "user": preview.user_id, "spec_sha256": preview.spec_sha256}


def _preview_of(user: User, preview_id: UUID | str) -> Preview:
    try:
        key = preview_id if isinstance(preview_id, UUID) else UUID(preview_id)
    except ValueError:
        sentence = f"preview: {quoted(str(preview_id))} is no id; give the 32 characters that a preview showed."
        raise NoSuchPreview(sentence) from None
    related = ("profile", "bundle", "endpoint", "worker", "consumed_by")
    preview = Preview.objects.select_related(*related).filter(pk=key, user=user).first()
    if preview is None:
        raise NoSuchPreview()
    return preview


def _still_holds(preview: Preview, accepted: Collection[str]) -> Spec:
    """The spec as it resolves now, which must be the one that was shown."""
    if preview.blocking:
        raise Blocked(preview.blocking)
    # The same choice, with rows as they are now: the endpoint's active version, the worker's latest report.
    active = Endpoint.objects.filter(name=preview.endpoint.name, active=True).first()
    spec, checks = resolve(
        Choice(
            profile=preview.profile,
            bundle=TaskBundle.objects.get(pk=preview.bundle_id),
            endpoint=active or Endpoint.objects.get(pk=preview.endpoint_id),
            worker=Worker.objects.get(pk=preview.worker_id),
            **preview.request,
        )
    )
    if spec is not None and spec.spec_sha256 != preview.spec_sha256:
        shown = load_object(preview.spec.encode())
        raise Changed(spec_difference(shown, spec.document))
    blocking = [check for check in checks if not check["passed"] and check["level"] == "block"]
    if blocking or spec is None:
        raise Blocked(blocking)
    every = [*preview.checks, *checks]
    wanted = {check["name"] for check in every if not check["passed"] and check["level"] == "accept"}
    if missing := sorted(wanted - set(accepted)):
        raise NotAccepted(missing)
    return spec


def _start(preview: Preview, spec: Spec, user: User, accepted: list[str]) -> Run:
    content = spec.content
    with transaction.atomic():
        run = Run.objects.create(
            profile=preview.profile,
            bundle=preview.bundle,
            endpoint=preview.endpoint,
            worker=preview.worker,
            harness_lock=HarnessLock.objects.filter(worker=preview.worker, current=True).first(),
            spec=spec.text,
            spec_sha256=spec.spec_sha256,
            count_requested=len(content.tasks),
            created_by=user,
            created_by_name=audit.name_of(user),
        )
        Trial.objects.bulk_create(
            Trial(run=run, ordinal=task.ordinal, task_name=task.name, task_checksum=task.checksum)
            for task in content.tasks
        )
        # Whoever hits this row started the run; everyone else rolls back and gets that run.
        if not Preview.objects.filter(pk=preview.pk, consumed_by__isnull=True).update(consumed_by=run):
            raise _AlreadyStarted
        detail = {"preview": preview.id.hex, "spec_sha256": spec.spec_sha256, "accepted": accepted}
        audit.record(AuditKind.START, user=user, run_id=run.pk, subject=preview.profile.name, detail=detail)
        queue.enqueue_on_commit(run, limit_s=content.limits.run_s)
    return run
