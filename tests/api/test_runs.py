"""Runs, endpoints and the token over HTTP: the documents of the commands, within role and scope."""

import json
import re

import pytest
from django.test import Client

from benchsite.api import limits
from benchsite.api.app import openapi
from runs.models import ApiToken, Run
from runs.services import tokens
from tests.api.conftest import Callers
from tests.commands.calling import command
from tests.pages.factories import Site, person

READING = ("token", "runs", "endpoints", "runs/{run}")


def test_a_run_is_the_document_that_the_command_prints(site: Site, call: Callers) -> None:
    run = site.runs["error"]
    printed = command("status", run.key, "--json", "--user", site.operator.username).json
    assert call("operator")("GET", f"runs/{run.key}") == printed
    assert call("operator")("GET", f"runs/{run.key[:8]}") == printed
    assert "owned" in printed and "owned" not in call("viewer")("GET", f"runs/{run.key}")


def test_runs_are_listed_newest_first_and_page_by_page(site: Site, call: Callers) -> None:
    ask, path, seen = call("viewer"), "/api/v1/runs?limit=1", []
    headers = {"Authorization": f"Bearer {ask.text}"}
    while path:
        response = Client().get(path, headers=headers)
        seen += [run["run"] for run in response.json()["runs"]]
        path = response.headers.get("Link", "").partition(">")[0].removeprefix("<")
    assert seen == [run.key for run in Run.objects.order_by("-created_at", "-id")]
    assert [run["state"] for run in ask("GET", "runs?state=queued")["runs"]] == ["queued"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("limit=0", "limit"),
        ("limit=1.0", "whole number"),
        ("limit=%2B1", "whole number"),
        ("limit=true", "whole number"),
        ("limit=1&limit=2", "more than once"),
        ("stat=queued", "no parameter"),
        ("state=gone", "state"),
        ("profile=nobodys", "profile"),
        ("before=zzz", "whole id"),
        ("before=" + "0" * 32, "no run"),
    ],
)
def test_what_is_mistyped_is_refused_and_named(call: Callers, query: str, found: str) -> None:
    assert found in call("viewer")("GET", f"runs?{query}", status=400)["sentence"]


def test_a_run_is_cancelled_with_its_scope_and_its_persons_role(site: Site, call: Callers) -> None:
    path = f"runs/{site.runs['queued'].key}/cancel"
    assert call("operator", "read", "publish")("POST", path, status=403)["code"] == "api.scope"
    assert call("viewer", "run")("POST", path, status=403)["code"] == "access.refused"
    ask = call("operator", "run")
    assert ask("POST", path)["outcome"] == "cancelled"
    assert ask("POST", path)["outcome"] == "ended"
    assert ask("GET", "runs", status=403)["code"] == "api.scope"


@pytest.mark.parametrize("path", READING)
def test_without_a_token_that_counts_nothing_is_answered(site: Site, path: str) -> None:
    path = "/api/v1/" + path.format(run=site.runs["error"].key)
    token, text = tokens.create(user=site.admin, by=site.admin, name="x", scopes=["read"], days=None)
    tokens.revoke(by=site.admin, token=token)
    signed_in = Client()
    signed_in.force_login(site.admin)
    for client, said in ((Client(), ""), (signed_in, ""), (Client(), f"Bearer {text}"), (Client(), f"Basic {text}")):
        response = client.get(path, headers={"Authorization": said} if said else {})
        assert (response.status_code, response.json()["code"]) == (401, "api.no_token")
        assert response["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("path", [path for path in READING if path != "token"])
def test_a_token_may_no_more_than_its_person_at_that_moment(site: Site, path: str) -> None:
    user = person("leaver", "viewer")
    text = tokens.create(user=user, by=user, name="x", scopes=["read"], days=None)[1]
    path, headers = "/api/v1/" + path.format(run=site.runs["error"].key), {"Authorization": f"Bearer {text}"}
    assert Client().get(path, headers=headers).status_code == 200
    user.groups.clear()
    assert Client().get(path, headers=headers).json()["code"] == "access.refused"


def test_what_is_not_there_and_what_is_not_taken_are_refused_in_json(site: Site, call: Callers) -> None:
    ask = call("viewer")
    for path in ("runs/" + "0" * 32, "runs/%00", "nothing", "", "runs/x/y"):
        assert ask("GET", path, status=404)["code"] == "api.not_found"
    refused = Client().put("/api/v1/runs", headers={"Authorization": f"Bearer {ask.text}"})
    assert (refused.status_code, refused["Allow"], refused.json()["code"]) == (405, "GET", "api.method")


def test_a_token_makes_so_many_requests_in_a_minute(
    site: Site, call: Callers, settings: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_here", {})
    monkeypatch.setattr(limits.time, "time", lambda: 1_000_000_030.0)
    settings.API_REQUESTS_PER_MINUTE = 2  # type: ignore[attr-defined]
    ask = call("viewer")
    for status in (200, 200, 429, 429):
        answer = ask("GET", "token", status=status)
    assert answer["code"] == "api.too_many" and "wait 51 seconds" in answer["sentence"]
    assert call("viewer")("GET", "token")["state"] == "active"  # another token counts for itself
    monkeypatch.setattr(limits.time, "time", lambda: 1_000_000_081.0)
    ask("GET", "token")


def test_the_token_is_named_and_noted_as_used(site: Site, call: Callers) -> None:
    ask = call("viewer", "read", "publish")
    said = ask("GET", "token")
    row = ApiToken.objects.get()
    assert (said["key"], said["scopes"], said["token"]) == (row.key, ["read", "publish"], None)
    assert row.last_used_at and ask.text not in json.dumps(said)


def test_the_documentation_needs_nothing_from_elsewhere(site: Site, call: Callers) -> None:
    assert Client().get("/api/v1/docs")["Location"].startswith("/sign-in/")
    assert Client().get("/api/v1/openapi.json").status_code == 401
    client = Client()
    client.force_login(site.viewer)
    page = client.get("/api/v1/docs").content.decode()
    assert re.findall(r"(?:src|href)=\"(?!/|#|openapi)", page) == []
    for path, operations in openapi()["paths"].items():
        for method in operations:
            assert f"{method.upper()} {path}" in page
    assert client.get("/api/v1/openapi.json").json() == json.loads(json.dumps(openapi()))
    headers = {"Authorization": f"Bearer {call('viewer', 'publish').text}"}
    assert Client().get("/api/v1/openapi.json", headers=headers).json()["openapi"] == "3.1.0"
