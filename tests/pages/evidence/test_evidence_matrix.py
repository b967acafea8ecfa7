"""Every evidence address, for every kind of person, asked in every way: who gets what."""

from itertools import pairwise

import pytest
from django.test import Client

from evidence.models import Artifact
from runs.models import AuditEntry, Run
from tests.pages.conftest import signed_in
from tests.pages.evidence_files import keep
from tests.pages.factories import Site, make_run

PEOPLE = ("anonymous", "newcomer", "viewer", "reviewer", "operator", "other_operator", "admin")
READERS = {"operator", "other_operator", "admin"}
SIGNED_IN = {"viewer", "reviewer", *READERS}
# address → who may read it; a newcomer has no role, and nobody else anything.
ADDRESSES = {
    "list": SIGNED_IN,
    "archive": SIGNED_IN,
    "public_download": SIGNED_IN,
    "public_text": SIGNED_IN,
    "private_download": READERS,
    "private_text": READERS,
    "agent_made_download": READERS,
    "agent_made_text": READERS,
    "trajectory": READERS,
}
# How it is asked: method, headers, and the status for who may read a download.
ASKED = {
    "whole": ("GET", {}, 200),
    "headers only": ("HEAD", {}, 200),
    "the first byte": ("GET", {"Range": "bytes=0-0"}, 206),
    "the last byte": ("GET", {"Range": "bytes=-1"}, 206),
    "past the end": ("GET", {"Range": "bytes=999999999-"}, 416),
    "headers past the end": ("HEAD", {"Range": "bytes=999999999-"}, 416),
    "known already": ("GET", {"If-None-Match": "TAG"}, 304),
    "known already, headers only": ("HEAD", {"If-None-Match": "TAG"}, 304),
    "another version known": ("GET", {"If-None-Match": '"0"'}, 200),
    "a part of another version": ("GET", {"Range": "bytes=0-0", "If-Range": '"0"'}, 200),
    "a form": ("POST", {}, 405),
    "a deletion": ("DELETE", {}, 405),
}


@pytest.fixture
def run(site: Site) -> Run:
    run = make_run(site, "error")
    files = {
        "trials/1/kept/artifacts/x.svg": b"<svg onload=alert(1)>",
        "evidence/suite.json": b'{"schema":"anvil-serving.environment-suite-run/v1"}',
    }
    keep(run, files)
    return run


def address(run: Run, name: str) -> str:
    paths = {"public": "suite.json", "private": "spec.json", "agent_made": "x.svg"}
    if name == "list":
        return f"/runs/{run.key}/evidence/"
    if name == "archive":
        return f"/runs/{run.key}/evidence/archive/"
    if name == "trajectory":
        return f"/runs/{run.key}/trials/1/trajectory/"
    which, _, form = name.rpartition("_")
    return f"/evidence/{artifact(run, paths[which]).key}/{form}/"


def artifact(run: Run, path: str) -> Artifact:
    return run.artifacts.get(path__endswith=path)


def asking(site: Site, who: str) -> Client:
    if who != "newcomer":
        return signed_in(site, who)
    from tests.pages.factories import person

    client = Client()
    client.force_login(person("newcomer"))
    return client


@pytest.mark.parametrize("name", ADDRESSES)
def test_evidence_answers_exactly_those_it_is_for_however_it_is_asked(site: Site, run: Run, name: str) -> None:
    path, tag = address(run, name), f'"{artifact(run, _file_of(name)).sha256}"'
    wanted, found = {}, {}
    for who in PEOPLE:
        client = asking(site, who)
        for how, (method, headers, answer) in ASKED.items():
            sent = {key: tag if value == "TAG" else value for key, value in headers.items()}
            response = client.generic(method, path, headers=sent)
            found[who, how] = response.status_code
            wanted[who, how] = _status(who, name, answer)
            body = b"".join(response.streaming_content) if response.streaming else bytes(response.content)
            if who not in ADDRESSES[name]:
                assert b"<svg onload" not in body and b'"schema"' not in body
            if method == "HEAD":
                assert body == b""
    assert found == wanted


def _file_of(name: str) -> str:
    return {"public_download": "suite.json", "agent_made_download": "x.svg"}.get(name, "spec.json")


def _status(who: str, name: str, answer: int) -> int:
    """Whoever is not signed in is led to sign in; the method is judged before the role, which tells nothing."""
    if who == "anonymous":
        return 302
    if answer == 405:
        return 405
    if not name.endswith("_download"):
        answer = 200  # pages have no parts and no versions
    return answer if who in ADDRESSES[name] else 403


@pytest.mark.parametrize("how", ["headers only", "known already", "past the end", "headers past the end"])
def test_what_gives_no_bytes_leaves_no_record_of_a_download(site: Site, run: Run, how: str) -> None:
    method, headers, _answer = ASKED[how]
    tag = f'"{artifact(run, "spec.json").sha256}"'
    sent = {key: tag if value == "TAG" else value for key, value in headers.items()}
    signed_in(site, "operator").generic(method, address(run, "private_download"), headers=sent)
    assert not AuditEntry.objects.filter(kind="download").exists()


def test_no_two_files_of_a_run_have_ids_near_each_other(run: Run) -> None:
    """Ids are drawn, not counted: 128 random bits each."""
    keys = sorted(run.artifacts.values_list("key", flat=True))
    assert all(len(key) == 32 and int(key, 16) >= 0 for key in keys)
    gaps = [int(b, 16) - int(a, 16) for a, b in pairwise(keys)]
    assert min(gaps) > 2**64


@pytest.mark.parametrize(
    "guess",
    [
        "/evidence/{key}/../{key}/download/",
        "/evidence/{upper}/download/",
        "/evidence/{short}/download/",
        "/evidence/%2e%2e%2f%2e%2e%2fetc%2fpasswd/download/",
        "/evidence/{key}%00/download/",
        "/evidence/{key}/download/..%2f..%2fspec.json",
        "/runs/{run}/evidence/..%2f..%2f..%2fetc%2fpasswd",
        "/runs/{other}/evidence/",
    ],
)
def test_a_guess_or_a_trick_with_the_path_finds_nothing(site: Site, run: Run, guess: str) -> None:
    key = artifact(run, "spec.json").key
    tricks = {"key": key, "upper": key.upper(), "short": key[:31], "run": run.key, "other": "0" * 32}
    for who in ("viewer", "operator", "admin"):
        response = signed_in(site, who).get(guess.format(**tricks))
        assert response.status_code == 404, (who, guess)
