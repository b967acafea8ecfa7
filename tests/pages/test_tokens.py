"""API tokens on the account page and in the admin: shown once, revoked by oneself or an administrator."""

import re

import pytest
from django.test import Client

from runs.models import ApiToken, AuditEntry
from runs.services import tokens
from tests.pages.conftest import Browser, signed_in
from tests.pages.factories import Site, person

NAMES = ("token_create", "token_revoke")
FORM = {"name": "nightly", "scope": ["read", "publish"], "days": "30"}


def test_a_token_is_shown_once_and_found_by_what_it_says(site: Site, browse: Browser) -> None:
    client = browse("viewer")
    made = client.post("/account/tokens/", FORM)
    text = re.search(r"bst_[\w-]{43}", made.content.decode())
    assert text and made.status_code == 200 and made["Cache-Control"] == "private, no-store"
    found = tokens.authenticated(text[0])
    assert found and (found.user, found.scopes) == (site.viewer, ["read", "publish"])
    page = client.get("/account/").content.decode()
    assert "nightly" in page and found.key in page and text[0] not in page
    assert text[0] not in str(list(ApiToken.objects.values())) + str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"name": " "}, "in 1 to 100 characters"),
        ({"name": "a\nb"}, "in 1 to 100 characters"),
        ({"scope": []}, "A token needs a scope"),
        ({"scope": ["root"]}, "is no scope"),
        ({"days": "0"}, "1 to 3650 days"),
        ({"days": "soon"}, "whole number"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_made(browse: Browser, wrong: dict[str, object], sentence: str) -> None:
    page = browse("viewer").post("/account/tokens/", {**FORM, **wrong})
    assert page.status_code == 200 and sentence in page.content.decode()
    assert not ApiToken.objects.exists()


def test_a_token_is_revoked_by_its_person_and_by_nobody_else(site: Site, browse: Browser) -> None:
    token, text = tokens.create(user=site.operator, by=site.operator, name="x", scopes=["read"], days=None)
    address = f"/account/tokens/{token.key}/revoke/"
    for who in ("viewer", "admin"):
        assert browse(who).post(address).status_code == 404
    assert tokens.authenticated(text)
    assert browse("operator").post(address)["Location"] == "/account/#tokens"
    assert tokens.authenticated(text) is None
    assert browse("operator").get(address).status_code == 405
    said = AuditEntry.objects.filter(kind="api_token").values_list("detail__act", "actor_name")
    assert list(said) == [("revoked", site.operator.username), ("created", site.operator.username)]


def test_an_administrator_revokes_anybodys_in_the_admin(site: Site) -> None:
    token, text = tokens.create(user=site.viewer, by=site.viewer, name="x", scopes=["read"], days=None)
    client = signed_in(site, "admin")
    listed = client.get("/admin/runs/apitoken/").content.decode()
    assert token.key in listed and token.digest not in listed
    assert token.digest not in client.get(f"/admin/runs/apitoken/{token.pk}/change/").content.decode()
    client.post("/admin/runs/apitoken/", {"action": "revoke", "_selected_action": [token.pk]})
    assert tokens.authenticated(text) is None


def test_somebody_without_a_role_makes_none(db: None) -> None:
    client = Client()
    client.force_login(person("newcomer"))
    assert "API tokens" not in client.get("/account/").content.decode()
    assert client.post("/account/tokens/", FORM).status_code == 403


def test_the_form_is_for_people_who_signed_in_and_sent_it_from_the_page(site: Site, client: Client) -> None:
    assert client.post("/account/tokens/", FORM)["Location"].startswith("/sign-in/")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(site.viewer)
    assert strict.post("/account/tokens/", FORM).status_code == 403
    assert not ApiToken.objects.exists()
