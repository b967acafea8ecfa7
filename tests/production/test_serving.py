"""A site started as the documents say: DEBUG off, PostgreSQL, a queue with a password, granian."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.production.serving import Browser, granian, manage, production, queue
from tests.production.sites import Site, new_database

OK = {"status": "ok"}
PASSWORD = "a long enough pass phrase"


@pytest.fixture(scope="module")
def served(
    server: str, migrated: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, str], int]]:
    """The environment and the port of a production site."""
    folder: Path = tmp_path_factory.mktemp("served")
    (folder / "data").mkdir(mode=0o700)
    with new_database(server, "served", migrated) as url, queue(folder) as redis:
        environment = production(Site(folder / "data", url), redis, folder)
        done = manage(environment, "collectstatic", "--no-input", "--verbosity", "0")
        assert done.returncode == 0, done.stderr
        named = {"DJANGO_SUPERUSER_PASSWORD": PASSWORD}
        done = manage(environment | named, "createsuperuser", "--no-input", "--username=ada", "--email=a@b.example")
        assert done.returncode == 0, done.stderr
        with granian(environment, folder) as port:
            yield environment, port


@pytest.fixture
def browser(served: tuple[dict[str, str], int]) -> Browser:
    return Browser(served[1])


def static_files(page: Any) -> list[str]:
    return re.findall(r'(?:href|src)="(/static/[^"]+\.(?:css|js|svg))"', page.text)


def test_no_check_has_anything_to_say(served: tuple[dict[str, str], int]) -> None:
    done = manage(served[0], "check", "--deploy", "--fail-level", "WARNING")
    assert done.returncode == 0, done.stderr


def test_the_sign_in_page_is_served_with_hashed_static_files(browser: Browser) -> None:
    page = browser.ask("GET", "/sign-in/")
    assert page.status == 200
    files = static_files(page)
    assert files
    for file in files:
        assert re.search(r"\.[0-9a-f]{12}\.(css|js|svg)$", file), file
        answer = browser.ask("GET", file)
        assert answer.status == 200
        assert "immutable" in str(answer.headers["Cache-Control"])


def test_cookies_and_transport_are_secure(browser: Browser) -> None:
    page = browser.ask("GET", "/sign-in/")
    (cookie,) = page.headers.get_all("Set-Cookie") or []
    assert cookie.startswith("csrftoken=") and "; Secure" in cookie
    assert "max-age=31536000" in str(page.headers["Strict-Transport-Security"])
    assert "default-src 'none'" in str(page.headers["Content-Security-Policy"])


def test_a_person_signs_in_and_sees_the_overview(browser: Browser) -> None:
    browser.ask("GET", "/sign-in/")
    form = {"username": "ada", "password": PASSWORD, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
    signed_in = browser.ask("POST", "/sign-in/", urlencode(form))
    assert (signed_in.status, signed_in.headers["Location"]) == (302, "/")
    cookies = [cookie for cookie in signed_in.headers.get_all("Set-Cookie") or [] if cookie.startswith("sessionid=")]
    assert "; Secure" in cookies[0] and "; HttpOnly" in cookies[0]
    assert browser.ask("GET", "/").status == 200


def test_plain_http_is_sent_to_https(served: tuple[dict[str, str], int]) -> None:
    answer = Browser(served[1], proto="http").ask("GET", "/sign-in/")
    assert (answer.status, answer.headers["Location"]) == (301, "https://bench.example/sign-in/")


def test_another_host_name_is_refused_without_a_debug_page(served: tuple[dict[str, str], int]) -> None:
    answer = Browser(served[1], host="evil.example").ask("GET", "/sign-in/")
    assert answer.status == 400
    assert "DisallowedHost" not in answer.text and "Traceback" not in answer.text  # type: ignore[attr-defined]


def test_the_request_id_of_the_proxy_comes_back(browser: Browser) -> None:
    answer = browser.ask("GET", "/sign-in/", **{"X-Request-ID": "from-the-proxy-0001"})
    assert answer.headers["X-Request-ID"] == "from-the-proxy-0001"


def test_health_is_told_without_a_sign_in(served: tuple[dict[str, str], int]) -> None:
    """As Compose's health check asks: plain HTTP on the host itself, nothing that a proxy adds."""
    answer = Browser(served[1], proto="").ask("GET", "/healthz")
    health = json.loads(answer.text)  # type: ignore[attr-defined]
    assert (answer.status, health["checks"]["database"], health["checks"]["redis"]) == (200, OK, OK)


def test_no_link_signs_in(served: tuple[dict[str, str], int]) -> None:
    assert manage(served[0], "demo_login").returncode == 2
    assert Browser(served[1]).ask("GET", "/sign-in/once/MQ/abc-def/").status == 404
