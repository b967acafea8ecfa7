"""The page of the keys that sign, and what a run's page says of where its evidence comes from."""

import json
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evidence.models import RunStatement, SigningKey
from evidence.register.keys import state_word
from evidence.register.signing import statements_of
from evidence.serializers import public_keys_document
from runs.models import Run
from runs.services import access

# What each word proves and what not; docs/evidence.md says more.
WORDS = (
    (
        "Consistent",
        "Proves that every file is the one that the statement lists: none changed, missing or added.",
        "Does not prove who wrote the files and the statement.",
    ),
    (
        "Authentic",
        "Proves that the holder of the key made the statement, at a time when the key was valid.",
        "Does not prove that the holder told the truth; with a stolen key, not the time either.",
    ),
    (
        "Re-derivable",
        "Proves that the classifier gives the same verdict again from the kept files.",
        "Does not prove where the files come from.",
    ),
)
_UNSIGNED = {
    "signing.no_key": "its worker had no signing key",
    "signing.key_open": "other accounts could read its worker's signing key",
    "signing.key_unreadable": "its worker's signing key could not be read",
    "signing.key_unknown": "its worker's signing key is not listed",
    "signing.key_retired": "its worker's signing key was retired",
    "signing.key_revoked": "its worker's signing key was revoked",
    "signing.key_expired": "its worker's signing key had expired",
}


@dataclass(frozen=True, slots=True)
class Signed:
    """One statement in words. ``state`` is of its key today; ``tone`` is empty when the signature counts."""

    signed: bool
    word: str
    key_id: str
    signed_at: datetime
    note: str
    tone: str


@dataclass(frozen=True, slots=True)
class KeyRow:
    row: SigningKey
    icon: str
    tone: str
    state: str


def signed_row(statement: RunStatement) -> Signed:
    key = statement.key
    if key is None:
        why = _UNSIGNED.get(statement.unsigned, "no key could sign it")
        return Signed(False, f"Not signed: {why}", "", statement.signed_at, "Its origin cannot be proved.", "attention")
    if key.revoked_at is not None:
        note = "The key was revoked since, so the signature counts no more."
        return Signed(True, f"Signed by {key.name}", key.key_id, statement.signed_at, note, "attention")
    note = {"retired": "The key was retired later.", "expired": "The key has expired since."}.get(state_word(key), "")
    return Signed(True, f"Signed by {key.name}", key.key_id, statement.signed_at, note, "")


def origin_of(run: Run) -> dict[str, object]:
    """What the panel of a run that ended shows; one query."""
    found = statements_of(run)
    worker, site = found.get("worker"), found.get("site")
    return {
        "worker": signed_row(worker) if worker else None,
        "site": signed_row(site) if site else None,
        "words": WORDS,
        "replaced": worker.get_reason_display() if worker and worker.reason != "ended" else "",
    }


@require_safe
def signing_keys(request: HttpRequest) -> HttpResponse:
    access.require(request.user, access.VIEW)
    rows = [_key_row(row) for row in SigningKey.objects.all()]
    return render(request, "evidence/signing_keys.html", {"rows": rows, "words": WORDS})


@require_safe
def signing_keys_file(request: HttpRequest) -> HttpResponse:
    """All public keys as the file that `verify --key` takes."""
    access.require(request.user, access.VIEW)
    data = json.dumps(public_keys_document(SigningKey.objects.all()), indent=1)
    response = HttpResponse(data, content_type="application/json")
    response["Content-Disposition"] = 'attachment; filename="benchsite-keys.json"'
    return response


def _key_row(row: SigningKey) -> KeyRow:
    state = state_word(row)
    icon, tone = {"valid": ("held", ""), "revoked": ("refused", "attention")}.get(state, ("unseen", ""))
    return KeyRow(row, icon, tone, state)
