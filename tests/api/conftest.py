"""A site with runs, and a client that shows a token."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client

from runs.services import tokens
from tests.commands.schemas import validated
from tests.pages import factories
from tests.pages.factories import Site


@dataclass(frozen=True)
class Caller:
    """Asks with one token, and holds each answer against the schema that it names."""

    text: str

    def __call__(self, method: str, path: str, *, status: int = 200, **more: Any) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.text}", **more.pop("headers", {})}
        client = Client(enforce_csrf_checks=True)
        response = client.generic(method, f"/api/v1/{path}", headers=headers, **more)
        assert response.status_code == status, (response.status_code, response.content[:2000])
        assert response["Content-Type"] == "application/json" and response["Cache-Control"] == "no-store"
        assert not response.cookies
        return validated(response.json())


type Callers = Callable[..., Caller]


@pytest.fixture
def site(db: None) -> Site:
    found = factories.site()
    for kind in ("passed", "error", "queued"):
        factories.make_run(found, kind)
    return found


@pytest.fixture
def call(site: Site) -> Callers:
    """``call("viewer", "read")`` asks with a new token of that person and those scopes."""

    def made(who: str, *scopes: str) -> Caller:
        user = getattr(site, who)
        return Caller(tokens.create(user=user, by=user, name="test", scopes=scopes or ["read"], days=1)[1])

    return made
