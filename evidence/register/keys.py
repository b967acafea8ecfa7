"""Keys that sign: made, rotated, retired, revoked; the private half in a file of this host, the public one in a row."""

import base64
import os
import stat
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.utils import timezone

from benchsite.lib import environ
from benchsite.lib.serializing import timestamp
from evidence.models import SigningKey
from evidence.origin.envelope import key_id_of
from evidence.origin.public_keys import KEY_SCHEMA, PublicKey
from runs.models import AuditKind
from runs.ownership.storage import replace_whole
from runs.services import access, audit
from runs.services.access import AnyUser
from runs.services.refusals import BadInput

MAX_BYTES = 4096
LONGEST_DAYS = 36_500
_GROUP_OR_OTHERS = 0o077


class CannotSign(Exception):
    """There is no key that may sign here. `code` is stable, `sentence` names the remedy."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(code)
        self.code = f"signing.{code}"
        self.sentence = sentence


def key_file(role: str) -> Path:
    """Where a role's key is kept on this host, unless a variable names another place."""
    return Path(settings.DATA, "keys", f"{role}.pem")


def private_key(role: str) -> Ed25519PrivateKey:
    """The key of a role on this host: of `BENCHSITE_<ROLE>_KEY`, of the file that `…_FILE` names, or its own file.

    Raises CannotSign. A file that others may read is refused: who can read it may have signed as well.
    """
    name = _variable(role)
    if name in os.environ:
        try:
            return _loaded(environ.text(name).encode(), name)
        except ImproperlyConfigured as error:
            raise CannotSign("key_unreadable", str(error)) from error
    named = os.environ.get(f"{name}_FILE")
    path = Path(named) if named is not None else key_file(role)
    try:
        # A pipe in the file's place does not hold up a run's end.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise CannotSign("key_unreadable", f"The signing key {path} is no plain file.")
            if found.st_mode & _GROUP_OR_OTHERS:
                sentence = f"Other accounts may read the signing key {path}, so it is not used. Rotate it."
                raise CannotSign("key_open", sentence)
            return _loaded(file.read(MAX_BYTES + 1), str(path))
    except FileNotFoundError:
        remedy = f"Make one on this host with: manage.py signing_key make --role {role}"
        raise CannotSign("no_key", f"This host has no signing key of the {role}. {remedy}") from None
    except OSError as error:
        raise CannotSign("key_unreadable", f"The signing key {path} cannot be read ({error.strerror}).") from error


def signing_key(role: str) -> tuple[Ed25519PrivateKey, SigningKey]:
    """The key of a role that may sign now, and its row. Raises CannotSign."""
    private = private_key(role)
    row = SigningKey.objects.filter(key_id=_id_of(private)).first()
    if row is None:
        sentence = f"The {role}'s key on this host is not listed. Run manage.py signing_key make --role {role}."
        raise CannotSign("key_unknown", sentence)
    now = timezone.now()
    code = "key.other_role" if row.role != role else public_key(row).problem_at(now, now=now)
    if code:
        sentence = f"The {role}'s key on this host may not sign now ({code}). "
        raise CannotSign(code.replace(".", "_"), f"{sentence}Run manage.py signing_key rotate --role {role}.")
    return private, row


def public_key(row: SigningKey) -> PublicKey:
    """The row as what verifies."""
    times = (row.not_before, row.not_after, row.retired_at, row.revoked_at)
    return PublicKey(base64.b64decode(row.public), row.role, row.name, *times)


def make(*, user: AnyUser, role: str, days: int | None = None) -> SigningKey:
    """Make the key of a role on this host, or list the one that a variable names. Audited.

    Raises PermissionDenied, and BadInput when there is a key already or it cannot be written.
    """
    access.require(user, access.START)
    try:
        private = private_key(role)
    except CannotSign as error:
        if error.code != "signing.no_key" or _is_named(role):
            raise BadInput(error.sentence, code=error.code) from error
        private = None
    if private is not None and SigningKey.objects.filter(key_id=_id_of(private)).exists():
        raise BadInput(f"This host has a key of the {role}; rotate makes a new one.", code="signing.key_exists")
    return _make(user, role, days, private)


def rotate(*, user: AnyUser, role: str, days: int | None = None) -> SigningKey:
    """Make a new key in place of the one in this host's file, which is retired. Audited; safe to repeat.

    First the new one is listed and written, then the old one retired: a crash leaves two that count, never none.
    """
    access.require(user, access.START)
    if _is_named(role):
        sentence = f"{_variable(role)} names the key: put a new one there, then run signing_key make and retire."
        raise BadInput(sentence, code="signing.key_named")
    try:
        old = _id_of(private_key(role))
    except CannotSign:
        old = ""  # a key that is missing, damaged or open is replaced as well
    made = _make(user, role, days, None)
    for row in SigningKey.objects.filter(key_id=old, retired_at=None):
        retire(user=user, row=row, reason="rotated")
    return made


def retire(*, user: AnyUser, row: SigningKey, reason: str) -> SigningKey:
    """From now on it signs no more; what it signed still counts. Audited, once."""
    access.require(user, access.START)
    return _end(user, row, "retired_at", reason)


def revoke(*, user: AnyUser, row: SigningKey, reason: str) -> SigningKey:
    """It may be in other hands: nothing that it ever signed counts any more. Audited, once, and for good."""
    access.require(user, access.START)
    return _end(user, row, "revoked_at", reason)


def find_key(asked: str) -> SigningKey:
    """The key whose id begins so, with 8 characters or more. Raises BadInput."""
    found = list(SigningKey.objects.filter(key_id__startswith=asked)[:2]) if len(asked) >= 8 else []
    if len(found) != 1:
        raise BadInput("Name one key by the first 8 or more characters of its id.", code="signing.no_such_key")
    return found[0]


def state_word(row: SigningKey) -> str:
    """Whether what it signs now would count, in a word."""
    now = timezone.now()
    code = public_key(row).problem_at(now, now=now)
    return code.removeprefix("key.").replace("_", " ") if code else "valid"


def key_document(row: SigningKey) -> dict[str, Any]:
    """The public key as `verify --key` takes it."""
    return {
        "schema": KEY_SCHEMA,
        "key_id": row.key_id,
        "algorithm": "ed25519",
        "public_key": row.public,
        "role": row.role,
        "name": row.name,
        "not_before": timestamp(row.not_before),
        "not_after": timestamp(row.not_after),
        "retired_at": timestamp(row.retired_at),
        "revoked_at": timestamp(row.revoked_at),
    }


def _make(user: AnyUser, role: str, days: int | None, private: Ed25519PrivateKey | None) -> SigningKey:
    if days is not None and not 1 <= days <= LONGEST_DAYS:
        raise BadInput(f"--days: give 1 to {LONGEST_DAYS:,} days.", code="signing.bad_days")
    made = private or Ed25519PrivateKey.generate()
    now = timezone.now()
    with transaction.atomic():
        row = SigningKey.objects.create(
            key_id=_id_of(made),
            public=base64.b64encode(made.public_key().public_bytes_raw()).decode("ascii"),
            role=role,
            name=settings.WORKER_NAME if role == "worker" else _site_name(),
            not_before=now,
            not_after=None if days is None else now + timedelta(days=days),
            made_by_name=audit.name_of(user),
        )
        audit.record(AuditKind.SIGNING_KEY, user=user, subject=row.key_id, detail={"act": "make", "role": role})
        if private is None:
            _write(key_file(role), made)  # within the transaction: a key that cannot be kept is not listed
    return row


def _end(user: AnyUser, row: SigningKey, field: str, reason: str) -> SigningKey:
    if not 1 <= len(reason) <= 500 or not reason.isprintable():
        raise BadInput("Say why, in 1 to 500 characters: --reason TEXT.", code="signing.no_reason")
    with transaction.atomic():
        now: datetime = timezone.now()
        changed = SigningKey.objects.filter(pk=row.pk, **{field: None}).update(**{field: now, "reason": reason})
        if changed:
            detail = {"act": field.removesuffix("_at"), "role": row.role, "reason": reason}
            audit.record(AuditKind.SIGNING_KEY, user=user, subject=row.key_id, detail=detail)
    row.refresh_from_db()
    return row


def _write(path: Path, key: Ed25519PrivateKey) -> None:
    """Whole or not at all, and readable by this account alone from the start."""
    data = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_whole(path, data)
    except OSError as error:
        sentence = f"The key cannot be written to {path} ({error.strerror}). Nothing was made."
        raise BadInput(sentence, code="signing.key_unwritable") from error


def _loaded(data: bytes, where: str) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(data, password=None) if len(data) <= MAX_BYTES else None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise CannotSign("key_unreadable", f"{where} holds no private key of Ed25519 in PEM, without a password.")
    return key


def _variable(role: str) -> str:
    return f"BENCHSITE_{role.upper()}_KEY"


def _is_named(role: str) -> bool:
    return any(name in os.environ for name in (_variable(role), f"{_variable(role)}_FILE"))


def _id_of(key: Ed25519PrivateKey) -> str:
    return key_id_of(key.public_key().public_bytes_raw())


def _site_name() -> str:
    """The site by its first public name."""
    named = [host for host in settings.ALLOWED_HOSTS if host not in ("*", "localhost", "127.0.0.1", "[::1]")]
    return (named or [settings.WORKER_HOST])[0][:64]
