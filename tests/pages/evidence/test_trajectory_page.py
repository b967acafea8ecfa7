"""A trajectory reads well whatever is in the file; what is missing, odd or cut is said, and nothing is a 500."""

import json
import re
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from evidence.trajectory.text import Text, shown
from evidence.web.trajectory_page import folded, pieces
from runs.models import Run
from tests.pages.conftest import Browser
from tests.pages.evidence_files import keep, native_trajectory
from tests.pages.factories import Site, make_run
from tests.pages.runs.test_run_page import plain

PATH = "trials/1/kept/agent/mini-swe-agent.trajectory.json"


def a_run(site: Site, document: Any) -> Run:
    run = make_run(site, "passed")
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    keep(run, {PATH: data})
    return run


def page(client: Client, run: Run, query: str = "") -> str:
    response = client.get(f"/runs/{run.key}/trials/1/trajectory/{query}")
    assert response.status_code == 200, response.status_code
    return str(response.content.decode())


def test_steps_have_anchors_commands_results_and_exit_codes(site: Site, browse: Browser) -> None:
    html = page(browse("operator"), a_run(site, native_trajectory()))
    for number in range(1, 10):
        assert f'id="step-{number}"' in html
    text = plain(html)
    assert "ls -la /app" in text
    assert "exit code 1" in text
    assert "Submitted" in text


def test_windows_lie_on_a_fixed_grid(site: Site, browse: Browser) -> None:
    run, client = a_run(site, native_trajectory(120)), browse("operator")
    html = page(client, run, "?from=57")
    assert 'id="step-51"' in html
    assert 'id="step-100"' in html
    assert 'id="step-101"' not in html
    assert "51 to 100 of 123" in plain(html)


def test_a_step_of_another_window_is_found_by_its_number(site: Site, browse: Browser) -> None:
    run, client = a_run(site, native_trajectory(120)), browse("operator")
    path = f"/runs/{run.key}/trials/1/trajectory/"
    assert client.get(f"{path}?step=57")["Location"] == f"{path}?from=51#step-57"
    assert client.get(f"{path}?go=end")["Location"] == f"{path}?from=101#step-123"
    assert client.get(f"{path}?go=error")["Location"] == f"{path}?from=1#step-4"
    assert client.get(f"{path}?step=99999")["Location"] == f"{path}?from=101#step-123"


def test_the_search_looks_at_all_steps_and_marks_what_it_found(site: Site, browse: Browser) -> None:
    run, client = a_run(site, native_trajectory(120)), browse("operator")
    html = page(client, run, "?q=TYPO")
    assert "20 steps match “TYPO”" in plain(html)
    assert "<mark>typo</mark>" in html
    assert "#step-119" in html
    assert "0 steps match" in plain(page(client, run, "?q=nowhere at all"))


@pytest.mark.parametrize(
    "query", ["?q=<script>alert(1)</script>", "?from=-1", "?from=x", "?step=x", "?go=away", "?from=" + "9" * 30]
)
def test_odd_addresses_are_harmless(site: Site, browse: Browser, query: str) -> None:
    html = page(browse("operator"), a_run(site, native_trajectory()), query)
    assert "<script>alert" not in html


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"{}",
        {"messages": []},
        b"not json",
        b'{"messages": [',
        b"\xff\xfe\0\0",
        b"[" * 5000,
        {"messages": [None, 1, "x", []]},
    ],
    ids=["empty", "list", "object", "messages", "text", "cut", "binary", "deep", "odd entries"],
)
def test_a_file_without_steps_is_said_and_offered(site: Site, browse: Browser, document: Any) -> None:
    run, client = a_run(site, document), browse("operator")
    page(client, run)
    assert client.get(f"/runs/{run.key}/trials/1/").status_code == 200


def test_no_trajectory_after_the_time_limit_offers_the_logs(site: Site, browse: Browser) -> None:
    run = make_run(site, "incomplete")
    keep(run)
    client = browse("operator")
    html = client.get(f"/runs/{run.key}/trials/2/trajectory/").content.decode()
    assert "killed at its time limit" in plain(html)
    assert f"/runs/{run.key}/evidence/?trial=2" in html


def test_an_empty_file_is_missing_evidence(site: Site, browse: Browser) -> None:
    assert "empty" in plain(page(browse("operator"), a_run(site, b"")))


def test_unreadable_metrics_are_a_note_on_their_step(site: Site, browse: Browser) -> None:
    document = native_trajectory()
    document["messages"][2]["extra"]["response"]["usage"] = "oops"
    document["messages"][4]["extra"]["response"]["usage"]["prompt_tokens"] = "abc"
    html = page(browse("operator"), a_run(site, document))
    assert "token counts could not be read" in plain(html)
    assert 'id="step-8"' in html


def test_a_lost_file_is_said_and_never_a_failure_of_the_site(site: Site, browse: Browser) -> None:
    run = a_run(site, native_trajectory())
    found = run.artifacts.get(path=PATH)
    default_storage.delete(found.stored)
    client = browse("operator")
    assert "does not hold this file any more" in plain(page(client, run))
    assert client.get(f"/runs/{run.key}/trials/1/").status_code == 200
    assert "does not hold this file" in plain(client.get(f"/evidence/{found.key}/text/").content.decode())


def test_a_damaged_index_is_built_again(site: Site, browse: Browser) -> None:
    run = a_run(site, native_trajectory())
    found = run.artifacts.get(kind="trajectory_index", trial=1)
    with default_storage.open(found.stored, "rb") as file:
        size = len(file.read())
    with open(default_storage.path(found.stored), "wb") as file:  # noqa: PTH123
        file.write(b"\0" * size)
    assert 'id="step-9"' in page(browse("operator"), run)


def test_hostile_text_is_shown_as_text(site: Site, browse: Browser) -> None:
    document = native_trajectory()
    evil = "<img src=x onerror=alert(1)>\x1b[31m\u202egpj\0" + "x" * 1_000_000
    document["messages"][2]["content"] = evil
    document["messages"][3]["content"] = evil
    document["messages"][3]["extra"]["exception_info"] = evil
    html = page(browse("operator"), a_run(site, document))
    assert "<img" not in html
    assert not set(html) & set("\x1b\0\u202e")
    assert len(html) < 400_000
    assert "the middle is left out" in html


def test_viewers_get_no_step(site: Site, browse: Browser) -> None:
    run = a_run(site, native_trajectory())
    for who in ("viewer", "reviewer"):
        assert browse(who).get(f"/runs/{run.key}/trials/1/trajectory/").status_code == 403


@given(st.text(max_size=4000))
def test_folding_loses_nothing_but_line_feeds_at_the_fold(text: str) -> None:
    found = folded(Text(text))
    joined = "".join(piece.text for piece in (*found["head"], *found["rest"]))
    assert joined.replace("\n", "") == Text(text).text.replace("\n", "")


@given(st.text(max_size=300), st.text(max_size=5))
def test_marking_changes_no_text(text: str, needle: str) -> None:
    found = pieces(text, needle)
    assert "".join(piece.text for piece in found) == text
    assert all(piece.text.casefold() != "" for piece in found)


def test_a_long_command_says_what_is_folded_and_what_is_left_out(site: Site, browse: Browser) -> None:
    document, long = native_trajectory(1), "\n".join(f"echo line {n}" for n in range(3000))
    document["messages"][2]["tool_calls"][0]["function"]["arguments"] = json.dumps({"command": long})
    run = a_run(site, document)
    text = plain(browse("operator").get(f"/runs/{run.key}/trials/1/trajectory/").content.decode())
    assert len(re.findall(r"20,000 of [\d,]+ characters are shown, the middle is left out", text)) == 1
    beside = plain(browse("operator").get(f"/runs/{run.key}/trials/1/").content.decode())
    assert re.search(r"\[the other [\d,]+ lines, [\d.]+ KiB in the trajectory\]", beside)


def test_a_long_output_says_how_much_is_folded() -> None:
    found = folded(shown("\n".join(f"line {n}" for n in range(812))))
    assert found["summary"].startswith("Show the other 798 lines, ")
    assert found["size"]
