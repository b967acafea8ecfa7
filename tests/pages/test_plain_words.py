"""Pages say the standard terms of the field; the riddles that stood in their place come back on none of them."""

import json
import subprocess
from pathlib import Path

import pytest

from runs.models import Worker
from runs.outcomes.codes import CODES
from tests.pages.conftest import Browser
from tests.pages.factories import Site, make_run
from tests.pages.runs.test_previews import page, plain, preview_of

ROOT = Path(__file__).parent.parent.parent
RIDDLES = (
    "Evaluated passed", "A pass needs all four", "The record of acts", "Nothing is asked to be accepted", "Is done",
    "Stays unknown", "Leave it", "Told differently", "confirmed and started it",
)  # fmt: skip


@pytest.mark.parametrize("words", RIDDLES)
def test_no_page_and_no_code_says_a_riddle_again(words: str) -> None:
    found = subprocess.run(
        ["git", "grep", "-lF", words, "--", "templates", "runs", "evidence", "benchsite", "client"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (found.stdout, found.stderr) == ("", "")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/", "Passed / Graded"),
        ("/runs/", "Passed / Graded"),
        ("/runs/{run}/", "Pass criteria"),
        ("/runs/{run}/", "started the run"),
        ("/workers/worker-1/lost/", "Will happen"),
        ("/workers/worker-1/lost/", "Cannot verify"),
        ("/workers/worker-1/lost/", "Cancel"),
    ],
)
def test_a_page_says_the_standard_term(site: Site, browse: Browser, address: str, words: str) -> None:
    run = make_run(site, "passed")
    response = browse("admin").get(address.format(run=run.key))
    assert response.status_code == 200
    assert words in plain(response.content.decode())


def test_who_may_not_read_the_audit_log_is_told_who_may(site: Site, browse: Browser) -> None:
    run = make_run(site, "passed")
    assert "Audit log: operators only." in plain(browse("viewer").get(f"/runs/{run.key}/").content.decode())


def test_where_a_check_blocks_there_is_nothing_to_accept(site: Site, browse: Browser) -> None:
    site.worker.image_locks.filter(role="verifier").update(current=False)
    report = json.loads(site.worker.report)
    report["sandbox"]["own_uid"] = True
    for limit in report["limits"]:
        limit["enforced"] = True
    Worker.objects.update(report=json.dumps(report))
    client = browse("operator")
    assert "Nothing to accept. See Checks." in plain(page(client, preview_of(site, client)))


def test_a_configuration_that_differs_is_named_as_such() -> None:
    assert CODES["invalid_evaluation.told_differently"].title == "Configuration mismatch"
