"""Documents about tokens of the HTTP API; only the one that a token was made with holds its text."""

from collections.abc import Iterable

from benchsite.lib.serializing import Document, serializes, timestamp
from runs.models import ApiToken
from runs.services.tokens import state_word


@serializes("benchsite.token/v1")
def token_document(token: ApiToken, text: str | None = None) -> Document:
    """One token; ``text`` is what it says, right after it was made and never again."""
    return {**_fields(token), "token": text}


@serializes("benchsite.tokens/v1")
def tokens_document(tokens: Iterable[ApiToken]) -> Document:
    """Several tokens, in their order."""
    return {"tokens": [_fields(token) for token in tokens]}


def _fields(token: ApiToken) -> Document:
    return {
        "key": token.key,
        "name": token.name,
        "of": token.user.get_username(),
        "scopes": token.scopes,
        "state": state_word(token),
        "created_at": timestamp(token.created_at),
        "expires_at": timestamp(token.expires_at),
        "last_used_at": timestamp(token.last_used_at),
        "revoked_at": timestamp(token.revoked_at),
    }
