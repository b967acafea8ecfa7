"""Who gets in, how often one may try, and what the account page says."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from benchsite.accounts import throttle
from tests.pages.conftest import Browser, signed_in
from tests.pages.factories import PASSWORD, Site


@pytest.fixture(autouse=True)
def _own_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts live in this process only, as when the queue cannot be reached."""
    monkeypatch.setattr(throttle, "_here", type(throttle._here)(list))


def attempt(client: Client, name: str, password: str, address: str = "192.0.2.7") -> int:
    return client.post("/sign-in/", {"username": name, "password": password}, REMOTE_ADDR=address).status_code


def test_the_right_password_leads_to_the_overview(site: Site, client: Client) -> None:
    response = client.post("/sign-in/", {"username": "viewer-1", "password": PASSWORD})
    assert response["Location"] == "/"


def test_one_comes_back_to_where_one_wanted_to_go(site: Site, client: Client) -> None:
    response = client.post("/sign-in/", {"username": "viewer-1", "password": PASSWORD, "next": "/workers/"})
    assert response["Location"] == "/workers/"


def test_one_is_never_sent_to_another_site(site: Site, client: Client) -> None:
    data = {"username": "viewer-1", "password": PASSWORD, "next": "https://elsewhere.example/"}
    assert client.post("/sign-in/", data)["Location"] == "/"


def test_a_wrong_password_says_no_more_than_that(site: Site, client: Client) -> None:
    known = client.post("/sign-in/", {"username": "viewer-1", "password": "wrong"}).content
    unknown = client.post("/sign-in/", {"username": "nobody-1", "password": "wrong"}).content
    assert known.count(b'role="alert"') == unknown.count(b'role="alert"') == 1


def test_after_five_failures_even_the_right_password_has_to_wait(site: Site, client: Client) -> None:
    assert [attempt(client, "viewer-1", "wrong") for _ in range(6)] == [200] * 5 + [429]
    assert attempt(client, "viewer-1", PASSWORD) == 429
    assert attempt(client, "VIEWER-1", PASSWORD) == 429


@pytest.mark.parametrize("data", [{"password": ""}, {}, {"password": "   "}])
def test_a_try_without_a_password_forgives_no_failure(site: Site, client: Client, data: dict[str, str]) -> None:
    for _ in range(throttle.PER_NAME - 1):
        attempt(client, "viewer-1", "wrong")
    client.post("/sign-in/", {"username": "viewer-1", **data}, REMOTE_ADDR="192.0.2.7")
    assert attempt(client, "viewer-1", PASSWORD) == 429


def test_many_tries_at_once_are_no_more_than_one_after_another(site: Site) -> None:
    """Each asks before any other has failed: a password takes time to be looked at."""
    assert [throttle.begun("viewer-1", "192.0.2.7") for _ in range(throttle.PER_NAME + 1)] == [True] * 5 + [False]


def test_signing_in_often_uses_up_nothing_of_an_address(site: Site, client: Client) -> None:
    tries = range(throttle.PER_ADDRESS + 1)
    assert {attempt(Client(), "viewer-1", PASSWORD) for _ in tries} == {302}


def test_somebody_elses_failures_do_not_lock_one_out(site: Site, client: Client) -> None:
    for _ in range(6):
        attempt(client, "viewer-1", "wrong", address="198.51.100.1")
    assert attempt(client, "viewer-1", PASSWORD) == 302


def test_one_address_cannot_try_all_names(site: Site, client: Client) -> None:
    for number in range(throttle.PER_ADDRESS):
        attempt(client, f"name-{number}", "wrong")
    assert attempt(client, "viewer-1", PASSWORD) == 429


def test_other_spellings_of_one_name_are_one_name(site: Site, client: Client) -> None:
    """Django takes away blanks and brings compatible characters to one form; so does the count."""
    for spelling in ("viewer-1 ", " viewer-1", "\tviewer-1", "ｖiewer-1", "viewer-１", "VIEWER-1  "):
        attempt(client, spelling, "wrong")
    assert attempt(client, "viewer-1", PASSWORD) == 429


@pytest.mark.parametrize("door", ["/sign-in/", "/admin/login/"])
def test_every_door_has_the_same_bound(site: Site, client: Client, door: str) -> None:
    """The admin has a sign-in page of its own, which counts and refuses like ours."""

    def tried(password: str) -> bool:
        data = {"username": site.admin.username, "password": password}
        client.post(door, data, REMOTE_ADDR="192.0.2.7")
        return "_auth_user_id" in client.session

    assert not any(tried("wrong") for _ in range(6))
    assert not tried(PASSWORD)
    assert attempt(client, site.admin.username, PASSWORD) == 429


def change(client: Client, old: str, new: str = "a-new-Passphrase-7") -> int:
    data = {"old_password": old, "new_password1": new, "new_password2": new}
    return client.post("/account/password/", data, REMOTE_ADDR="192.0.2.7").status_code


def test_whoever_finds_a_browser_signed_in_cannot_try_old_passwords_without_end(site: Site) -> None:
    client = signed_in(site, "viewer")
    assert [change(client, "wrong") for _ in range(6)] == [200] * 5 + [429]
    assert change(client, PASSWORD) == 429
    site.viewer.refresh_from_db()
    assert site.viewer.check_password(PASSWORD)


def test_the_right_old_password_changes_it_and_forgets_the_failures(site: Site) -> None:
    client = signed_in(site, "viewer")
    assert [change(client, "wrong") for _ in range(4)] == [200] * 4
    assert [change(client, ""), change(client, PASSWORD)] == [200, 302]
    assert attempt(Client(), "viewer-1", "wrong") == 200
    site.viewer.refresh_from_db()
    assert site.viewer.check_password("a-new-Passphrase-7")


def test_the_admins_own_page_for_a_password_leads_to_the_bounded_one(site: Site) -> None:
    assert signed_in(site, "admin").get("/admin/password_change/")["Location"] == "/account/password/"


def test_staff_sign_in_at_the_admin_and_others_do_not(site: Site, client: Client) -> None:
    for person, inside in ((site.viewer, False), (site.admin, True)):
        client.post("/admin/login/", {"username": person.username, "password": PASSWORD})
        assert ("_auth_user_id" in client.session) == inside


def test_success_forgets_the_failures_before_it(site: Site, client: Client) -> None:
    for _ in range(4):
        attempt(client, "viewer-1", "wrong")
    assert attempt(client, "viewer-1", PASSWORD) == 302
    assert attempt(Client(), "viewer-1", "wrong") == 200


def test_signing_out_is_a_form_and_ends_the_session(site: Site, browse: Browser) -> None:
    client = browse("viewer")
    assert client.get("/sign-out/").status_code == 405
    client.post("/sign-out/")
    assert client.get("/")["Location"].startswith("/sign-in/")


def test_the_account_names_roles_and_what_they_allow(site: Site, browse: Browser) -> None:
    html = browse("reviewer").get("/account/").content.decode()
    assert "reviewer" in html
    assert "review bundles" in html


def test_the_account_of_a_superuser_misses_no_role(site: Site, browse: Browser) -> None:
    client = browse("viewer")
    User.objects.filter(username="viewer-1").update(is_superuser=True)
    site.viewer.groups.clear()
    assert "none needed" in client.get("/account/").content.decode()
    User.objects.filter(username="viewer-1").update(is_superuser=False)
    assert "until then you see no runs" in client.get("/account/").content.decode()


@pytest.mark.parametrize(("chosen", "kept"), [("dark", "dark"), ("light", "light"), ("", ""), ("<x>", "")])
def test_only_known_appearances_are_kept(site: Site, browse: Browser, chosen: str, kept: str) -> None:
    client = browse("viewer")
    client.post("/account/appearance/", {"theme": chosen})
    html = client.get("/account/").content.decode()
    assert (f'data-theme="{kept}"' in html) == bool(kept)


@pytest.mark.parametrize("production", [True, False])
def test_the_appearances_cookie_is_as_secure_as_the_sessions(
    site: Site, browse: Browser, settings: Any, production: bool
) -> None:
    settings.SESSION_COOKIE_SECURE = production
    cookie = browse("viewer").post("/account/appearance/", {"theme": "dark"}).cookies["theme"]
    assert (bool(cookie["secure"]), bool(cookie["httponly"])) == (production, True)


def test_a_forged_appearance_reaches_no_page(site: Site, browse: Browser) -> None:
    client = browse("viewer")
    client.cookies["theme"] = '"><script>alert(1)</script>'
    assert "<script>alert" not in client.get("/").content.decode()
