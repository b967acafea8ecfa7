"""Who asks: the bearer token of a request, held against the scope that an address needs."""

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.http import HttpRequest
from ninja.security import HttpBearer

from benchsite.api import limits
from runs.models import ApiToken
from runs.services import tokens
from runs.services.tokens import Scope


class OutOfScope(Exception):
    """The token counts, and was made for something else."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.scope = scope


@dataclass(frozen=True)
class TooMany(Exception):
    """The token made more requests in this minute than it may."""

    wait_s: int


class Bearer(HttpBearer):
    """Takes a token that has ``scope``; no cookie, no session and no other header lets anybody in."""

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self.scope = scope

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken | None:
        """The token's row. Raises OutOfScope and TooMany."""
        found = tokens.authenticated(token)
        if found is None:
            return None
        if wait := limits.wait_s(found.key):
            raise TooMany(wait)
        if self.scope not in found.scopes:
            raise OutOfScope(self.scope)
        return found


def person(request: HttpRequest) -> User:
    """For whom the request acts: the token's person, with what their role allows at this moment."""
    token: ApiToken = request.auth  # type: ignore[attr-defined]
    return token.user
