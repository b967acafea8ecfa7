"""The conversation of an imported trial, and the files that came in with it."""

import hashlib
import json

from runs.models import AuditEntry, AuditKind
from tests.experiments import rows
from tests.pages import experiment_rows
from tests.pages.conftest import Browser
from tests.pages.evidence_files import native_trajectory
from tests.pages.experiments.test_pages import MARKUP, read
from tests.pages.factories import Site
from tests.pages.test_unseen import ATIF, TAGGED, unseen_in, with_unseen


def test_a_trajectory_that_was_handed_in_is_read_step_by_step(site: Site, browse: Browser) -> None:
    trial = rows.trial(rows.experiment())
    experiment_rows.keep(trial, "agent/trajectory.json", json.dumps(ATIF).encode())
    experiment_rows.keep(trial, "steps/two/agent/trajectory.json", json.dumps(native_trajectory(60)).encode())
    experiment_rows.keep(trial, "artifacts/agent/trajectory.json", b"planted")
    client = browse("operator")
    page = f"/experiments/{trial.experiment.key}/trials/{trial.pk}/"
    assert f"{page}conversation/" in read(client, page)
    html = read(client, f"{page}conversation/")
    assert "Thought." in html and "no ledger of this site" in html and "artifacts/agent" not in html
    second = trial.files.get(path__startswith="steps/")
    error = client.get(f"{page}conversation/?file={second.key}&go=error")
    assert error.status_code == 302 and f"file={second.key}" in error["Location"] and "#step-" in error["Location"]
    html = read(client, f"{page}conversation/?file={second.key}&q=grep")
    assert "<mark>grep</mark>" in html and 'rel="next"' in html


def test_nothing_of_a_handed_in_conversation_is_interpreted(site: Site, browse: Browser) -> None:
    trial = rows.trial(rows.experiment())
    hostile = json.dumps(with_unseen(ATIF)).replace("Thought.", json.dumps(MARKUP)[1:-1]).encode()
    experiment_rows.keep(trial, "agent/trajectory.json", hostile)
    html = read(browse("operator"), f"/experiments/{trial.experiment.key}/trials/{trial.pk}/conversation/")
    assert not unseen_in(html) and "⟨U+E0072⟩" in html
    assert "<script>alert" not in html and "{{ 7|add:7 }}" in html


def test_a_trajectory_that_is_none_says_why(site: Site, browse: Browser) -> None:
    trial = rows.trial(rows.experiment())
    client = browse("operator")
    address = f"/experiments/{trial.experiment.key}/trials/{trial.pk}/conversation/"
    assert client.get(address).status_code == 404
    experiment_rows.keep(trial, "agent/trajectory.json", b"no JSON")
    html = read(client, address)
    assert 'class="empty"' in html and "agent/trajectory.json" in html


def test_a_file_is_downloaded_as_it_came_in_and_each_read_is_audited(site: Site, browse: Browser) -> None:
    trial = rows.trial(rows.experiment())
    data = f"<script>{TAGGED}".encode()
    file = experiment_rows.keep(trial, "verifier/test stdout.txt", data)
    client = browse("operator")
    address = f"/experiments/files/{file.key}/download/"
    assert address in read(client, f"/experiments/{trial.experiment.key}/trials/{trial.pk}/")
    response = client.get(address)
    assert b"".join(response.streaming_content) == data  # type: ignore[attr-defined]
    assert response["Content-Type"] == "application/octet-stream" and "sandbox" in response["Content-Security-Policy"]
    assert response["Content-Disposition"] == "attachment; filename*=UTF-8''test%20stdout.txt"
    entry = AuditEntry.objects.get(kind=AuditKind.DOWNLOAD)
    assert (entry.subject, entry.detail["sha256"]) == ("verifier/test stdout.txt", hashlib.sha256(data).hexdigest())
    assert client.get("/experiments/files/none/download/").status_code == 404
