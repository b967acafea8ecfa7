"""Tokens of the HTTP API: made and shown once, found again by their hash, revoked; each act is audited."""

import hashlib
import secrets
from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from runs.models import ApiToken, AuditKind
from runs.services import access, audit
from runs.services.refusals import BadInput, quoted

PREFIX = "bst_"
MOST_DAYS = 3650
MOST_TOKENS = 50
_LONGEST_NAME = 100
_LONGEST_TOKEN = 200
_NOTED_EVERY = timedelta(minutes=1)


class Scope(StrEnum):
    """What a token may be used for, within what its person may do."""

    READ = "read"
    PUBLISH = "publish"
    RUN = "run"


class NoSuchToken(BadInput):
    code = "token.unknown"
    sentence = "There is no such token; manage.py token list and the account page show those there are."


def create(
    *, user: User, by: access.AnyUser, name: str, scopes: Iterable[str], days: int | None
) -> tuple[ApiToken, str]:
    """A new token of ``user`` and its text, which is nowhere else. ``days`` None: it never expires. Raises BadInput."""
    name = name.strip()
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        raise BadInput(f"Name what the token is for, in 1 to {_LONGEST_NAME} characters.", code="token.name")
    chosen = list(scopes)
    unknown = [scope for scope in chosen if scope not in set(Scope)]
    if unknown or not chosen:
        wrong = f"{quoted(unknown[0])} is no scope" if unknown else "A token needs a scope"
        raise BadInput(f"{wrong}; choose of {', '.join(Scope)}.", code="token.scopes")
    if days is not None and not 1 <= days <= MOST_DAYS:
        raise BadInput(f"A token counts for 1 to {MOST_DAYS} days, or without an end.", code="token.days")
    text = PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        User.objects.select_for_update().get(pk=user.pk)  # so that two at once do not pass the bound
        if ApiToken.objects.filter(_living(), user=user).count() >= MOST_TOKENS:
            raise BadInput(f"An account has at most {MOST_TOKENS} tokens; revoke one first.", code="token.too_many")
        token = ApiToken.objects.create(
            user=user,
            name=name,
            digest=_digest(text),
            **{f"may_{scope}": scope in chosen for scope in Scope},
            expires_at=None if days is None else timezone.now() + timedelta(days=days),
            created_by_name=audit.name_of(by),
        )
        detail = {"act": "created", "token": token.key, "scopes": token.scopes, "of": user.get_username(), "days": days}
        audit.record(AuditKind.API_TOKEN, user=by, subject=name, detail=detail)
    return token, text


def revoke(*, by: access.AnyUser, token: ApiToken) -> bool:
    """From now on the token is nobody's. False when it was revoked before; that row stays as it is."""
    with transaction.atomic():
        now = timezone.now()
        hit = ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(
            revoked_at=now, revoked_by_name=audit.name_of(by)
        )
        if hit:
            detail = {"act": "revoked", "token": token.key, "of": token.user.get_username()}
            audit.record(AuditKind.API_TOKEN, user=by, subject=token.name, detail=detail)
    token.refresh_from_db()
    return bool(hit)


def find_own(user: User, key: str) -> ApiToken:
    """The person's token of that id; an administrator finds everybody's. Raises NoSuchToken."""
    found = ApiToken.objects.select_related("user").filter(key=key).first()
    if found is None or (found.user_id != user.pk and not access.may(user, access.REVOKE_TOKEN)):
        raise NoSuchToken
    return found


def authenticated(text: str) -> ApiToken | None:
    """The token that says this, when it counts now and its person is active; noted as used, to the minute."""
    if not text.startswith(PREFIX) or len(text) > _LONGEST_TOKEN or not text.isascii():
        return None
    found = ApiToken.objects.select_related("user").filter(_living(), digest=_digest(text)).first()
    if found is None or not found.user.is_active:
        return None
    now = timezone.now()
    if found.last_used_at is None or found.last_used_at < now - _NOTED_EVERY:
        unnoted = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now)
        ApiToken.objects.filter(unnoted, pk=found.pk).update(last_used_at=now)
    return found


def state_word(token: ApiToken) -> str:
    """revoked, expired or active."""
    if token.revoked_at is not None:
        return "revoked"
    expired = token.expires_at is not None and token.expires_at <= timezone.now()
    return "expired" if expired else "active"


def _living() -> Q:
    return Q(revoked_at__isnull=True) & (Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now()))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
