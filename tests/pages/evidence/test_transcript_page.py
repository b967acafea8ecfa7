"""The conversation as the gateway saw it comes first, whatever the agent's own file says, and to operators alone."""

import json
from typing import Any

import pytest
from django.test import Client

from evidence.models import Artifact
from evidence.register import store
from runs.models import Run
from tests.evidence.transcripts import Conversation, call, said
from tests.pages.conftest import Browser
from tests.pages.evidence_files import keep
from tests.pages.factories import Site, make_run
from tests.pages.runs.test_run_page import plain

OWN = "trials/1/kept/agent/mini-swe-agent.trajectory.json"
TRANSCRIPT = "trials/1/transcript.jsonl"


def conversation(steps: int = 3) -> Conversation:
    talk = Conversation()
    talk.ask({"role": "user", "content": "Sum up /app/ledger.csv."})
    for number in range(steps - 1):
        talk.answer(said(f"Step {number} of the model.", call(f"c{number}", f"cat part-{number}")))
        talk.ask({"role": "tool", "tool_call_id": f"c{number}", "content": f'{{"returncode": 0}} result {number}'})
    talk.answer(said("It is 41."))
    return talk


def own_file(*answers: dict[str, Any]) -> bytes:
    return json.dumps({"messages": answers, "trajectory_format": "mini-swe-agent-1.1"}).encode()


def a_run(site: Site, talk: Conversation | None, own: bytes | None, case: str = "passed") -> Run:
    run = make_run(site, case)
    files = {} if talk is None else {TRANSCRIPT: talk.file, "ledger.jsonl": talk.whole_ledger}
    keep(run, files | {OWN: own or b""})
    return run


def address(run: Run, query: str = "") -> str:
    return f"/runs/{run.key}/trials/1/trajectory/{query}"


def page(client: Client, run: Run, query: str = "") -> str:
    response = client.get(address(run, query))
    assert response.status_code == 200, response.status_code
    return str(response.content.decode())


def test_what_the_gateway_saw_comes_first_and_the_agents_file_is_one_click_away(site: Site, browse: Browser) -> None:
    run, client = a_run(site, conversation(), own_file(said("Only mine."))), browse("operator")
    text = plain(page(client, run))
    assert "As the gateway saw it" in text and "Step 1 of the model." in text and "result 1" in text
    assert "3 of 3 exchanges match the ledger" in text and "Only mine." not in text
    own = plain(page(client, run, "?file=agent"))
    assert "Only mine." in own and "Step 1 of the model." not in own


def test_a_forged_file_is_marked_at_each_step_that_it_tells_otherwise(site: Site, browse: Browser) -> None:
    talk = conversation()
    forged = own_file(said("Step 0 of the model.", call("c0", "cat part-0")), said("I saw nothing."))
    run, client = a_run(site, talk, forged), browse("operator")
    html = page(client, run)
    text = plain(html)
    assert "own file says something else in 1 answer and leaves out 1 answer." in text
    assert "The agent's own file says something else here: its step 2 ." in text
    assert "The agent's own file does not have this answer." in text and "same in the agent's file" in text
    moved = client.get(address(run, "?file=gateway&go=other"))["Location"]
    assert moved.endswith("?file=gateway&from=1#step-4")
    assert 'href="?file=agent&amp;step=2"' in html
    assert "An agent writes its file itself" in plain(page(client, run, "?file=agent"))


@pytest.mark.parametrize("own", [None, b"{", b"\x00\xff", b'{"messages": 5}'])
@pytest.mark.parametrize("case", ["passed", "error", "incomplete", "cancelled"])
def test_an_agent_that_died_was_killed_or_wrote_nothing_has_its_conversation(
    site: Site, browse: Browser, own: bytes | None, case: str
) -> None:
    text = plain(page(browse("operator"), a_run(site, conversation(), own, case)))
    assert "Step 1 of the model." in text and "It is 41." in text


def test_without_a_transcript_the_agents_file_is_shown_and_that_is_said(site: Site, browse: Browser) -> None:
    run, client = a_run(site, None, own_file(said("Only mine."))), browse("operator")
    text = plain(page(client, run))
    assert "Only mine." in text and "No transcript was recorded." in text
    assert "No transcript was recorded." in plain(page(client, run, "?file=gateway"))


def test_search_windows_and_deep_links_work_on_it(site: Site, browse: Browser) -> None:
    run, client = a_run(site, conversation(120), None), browse("operator")
    assert client.get(address(run, "?step=57"))["Location"] == address(run, "?from=51#step-57")
    assert client.get(address(run, "?file=gateway&step=57"))["Location"] == address(
        run, "?file=gateway&from=51#step-57"
    )
    html = page(client, run, "?from=57&q=PART-60")
    assert 'id="step-51"' in html and 'id="step-101"' not in html and "51 to 100 of 122" in plain(html)
    assert "1 step matches “PART-60”" in plain(html) and "#step-63" in html and "<mark>part-60</mark>" in html
    assert "file=gateway" in html


def test_what_differs_from_the_ledger_is_said_and_never_hidden(site: Site, browse: Browser) -> None:
    talk = conversation()
    line = talk.line(2)
    line["answer"] = line["answer"].replace("Step 1", "Step 9")
    talk.replace(2, line)
    talk.drop(3)
    text = plain(page(browse("operator"), a_run(site, talk, None)))
    assert "Of this transcript 1 exchange could not be kept; 1 exchange differs from the ledger." in text
    assert "Step 9 of the model." in text and "differs from the ledger" in text and "could not be kept" in text


def test_hostile_text_is_shown_as_text_and_unseen_letters_as_marks(site: Site, browse: Browser) -> None:
    talk = Conversation()
    talk.ask({"role": "user", "content": "<script>alert(1)</script>\u202e\u200b\x1b]0;t\x07"})
    talk.answer(said("<img src=x onerror=alert(2)>\u2066", call("<b>", "</pre><script>alert(3)</script>")))
    html = page(browse("operator"), a_run(site, talk, None))
    assert "<script>alert" not in html and "<img src=x" not in html
    assert not any(sign in html for sign in "\u202e\u200b\u2066\x1b\x07")


def test_a_secret_is_taken_out_of_it_before_anything_is_stored(site: Site, browse: Browser) -> None:
    secret = "sk-SENTINEL-0123456789"
    talk = Conversation()
    talk.ask({"role": "user", "content": f"the key is {secret}"})
    talk.answer(said(f"I use {secret}"))
    run = make_run(site, "passed")
    keep(run, {TRANSCRIPT: talk.file, "ledger.jsonl": talk.whole_ledger}, secrets=(secret,))
    stored = Artifact.objects.filter(run=run, trial=1, kind__in=("transcript", "conversation"))
    assert stored.count() == 2
    for artifact in stored:
        with store.open_stored(artifact) as file:
            assert secret.encode() not in file.read()
    text = plain(page(browse("operator"), run))
    assert "[REDACTED]" in text and "A known secret was taken out of the transcript" in text
    assert "differs from the ledger" not in text


def test_only_operators_read_it_on_the_page_and_as_a_file(site: Site, browse: Browser) -> None:
    run = a_run(site, conversation(), None)
    row = Artifact.objects.get(run=run, trial=1, kind="transcript")
    assert not row.public
    for person, status in (("operator", 200), ("viewer", 403)):
        client = browse(person)
        assert client.get(address(run)).status_code == status
        assert client.get(f"/evidence/{row.key}/download/").status_code == status


def test_its_readable_form_is_told_again_when_it_was_lost(site: Site, browse: Browser) -> None:
    run, client = a_run(site, conversation(), None), browse("operator")
    Artifact.objects.filter(run=run, kind="conversation").delete()
    assert "Step 1 of the model." in plain(page(client, run))
    damaged = Artifact.objects.get(run=run, trial=1, kind="transcript")
    store.delete(damaged)
    damaged.state = "quarantined"
    damaged.save()
    assert "The transcript cannot be shown" in plain(page(client, run))
