"""Evidence leaves the site only by id, for those it is for, checked while it is sent, and never rendered."""

import hashlib
import io
import zipfile
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.test import Client

from evidence.models import Artifact
from evidence.register import retention, store
from runs.models import AuditEntry, Run
from tests.pages.conftest import Browser
from tests.pages.evidence_files import keep
from tests.pages.factories import Site, make_run
from tests.pages.runs.test_run_page import plain

NAMES = {"evidence", "evidence_archive", "evidence_download", "evidence_text", "trajectory"}
HOSTILE = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


@pytest.fixture
def run(site: Site) -> Run:
    run = make_run(site, "error")
    keep(
        run,
        {
            "trials/1/kept/artifacts/x.svg": HOSTILE,
            "trials/1/kept/artifacts/page.html": b"<h1 onclick=alert(1)>hi</h1>",
            "trials/1/kept/artifacts/\xe2\x80\xaegpj.exe".encode("latin-1").decode("utf-8"): b"\x1b[31mred\0",
            "evidence/suite.json": b'{"schema":"anvil-serving.environment-suite-run/v1"}',
            "evidence/provenance.json": b"{}",
        },
    )
    return run


def artifact(run: Run, path: str) -> Artifact:
    return run.artifacts.get(path__endswith=path)


def body(response: Any) -> bytes:
    return b"".join(response.streaming_content) if response.streaming else bytes(response.content)


def download(client: Client, found: Artifact, **headers: str) -> Any:
    return client.get(f"/evidence/{found.key}/download/", headers=headers)


@pytest.mark.parametrize("who", ["operator", "other_operator", "admin"])
def test_operators_download_the_exact_bytes(run: Run, browse: Browser, who: str) -> None:
    found = artifact(run, "spec.json")
    data = body(download(browse(who), found))
    assert hashlib.sha256(data).hexdigest() == found.sha256
    assert data == run.spec.encode()


@pytest.mark.parametrize("who", ["viewer", "reviewer"])
@pytest.mark.parametrize("path", ["spec.json", "harbor.log", "reward.json", "mini-swe-agent.trajectory.json"])
def test_private_evidence_is_for_operators_only(run: Run, browse: Browser, who: str, path: str) -> None:
    found = run.artifacts.filter(path__endswith=path).first()
    assert found is not None
    client = browse(who)
    assert download(client, found).status_code == 403
    assert client.get(f"/evidence/{found.key}/text/").status_code == 403
    assert client.get(f"/runs/{run.key}/trials/1/trajectory/").status_code == 403
    assert not AuditEntry.objects.filter(kind="download").exists()


@pytest.mark.parametrize("who", ["viewer", "reviewer", "operator"])
def test_the_suite_result_is_for_everybody(run: Run, browse: Browser, who: str) -> None:
    assert download(browse(who), artifact(run, "suite.json")).status_code == 200


def test_nobody_reads_anything_without_signing_in(run: Run, client: Client) -> None:
    key = artifact(run, "suite.json").key
    for path in (
        f"/evidence/{key}/download/",
        f"/evidence/{key}/text/",
        f"/runs/{run.key}/evidence/",
        f"/runs/{run.key}/trials/1/trajectory/",
    ):
        assert client.get(path)["Location"].startswith("/sign-in/")


def test_a_viewer_sees_names_of_public_files_only(run: Run, browse: Browser) -> None:
    text = browse("viewer").get(f"/runs/{run.key}/evidence/").content.decode()
    assert "evidence/suite.json" in text
    assert "harbor.log" not in text
    page = browse("viewer").get(f"/runs/{run.key}/trials/1/").content.decode()
    assert "operators only" in page
    assert "5 passed in 1.84s" not in page


@pytest.mark.parametrize(
    "path",
    [
        "/evidence/..%2f..%2fetc/passwd",
        "/evidence/../../etc/passwd",
        "/evidence/" + "0" * 32 + "/download/",
        "/evidence/spec.json/download/",
        "/evidence/%00/download/",
    ],
)
def test_a_path_or_a_guessed_id_finds_nothing(run: Run, browse: Browser, path: str) -> None:
    assert browse("operator").get(path).status_code == 404


@pytest.mark.parametrize("path", ["x.svg", "page.html"])
def test_what_an_agent_made_never_renders(run: Run, browse: Browser, path: str) -> None:
    client, found = browse("operator"), artifact(run, path)
    response = download(client, found)
    assert response["Content-Type"] == "application/octet-stream"
    assert response["Content-Disposition"].startswith("attachment;")
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert "no-store" in response["Cache-Control"]
    shown = client.get(f"/evidence/{found.key}/text/").content.decode()
    assert "<script>alert" not in shown
    assert "<h1 onclick" not in shown


def test_control_and_direction_marks_are_shown_as_marks(run: Run, browse: Browser) -> None:
    found = artifact(run, "gpj.exe")
    client = browse("operator")
    for path in (f"/evidence/{found.key}/text/", f"/runs/{run.key}/evidence/"):
        text = client.get(path).content.decode()
        assert not set(text) & set("\x1b\0\u202e")
    assert "red␀" in client.get(f"/evidence/{found.key}/text/").content.decode()


def test_a_download_is_recorded_with_what_was_read(run: Run, browse: Browser) -> None:
    found = artifact(run, "spec.json")
    body(download(browse("other_operator"), found))
    entry = AuditEntry.objects.get(kind="download")
    assert (entry.actor_name, entry.run_id, entry.subject) == ("operator-2", run.pk, "spec.json")
    assert entry.detail["sha256"] == found.sha256
    assert "downloaded</b> spec.json" in browse("operator").get(f"/runs/{run.key}/").content.decode().replace(
        "</b> downloaded", " downloaded</b>"
    )


def test_asking_only_for_headers_records_nothing(run: Run, browse: Browser) -> None:
    found = artifact(run, "spec.json")
    response = browse("operator").head(f"/evidence/{found.key}/download/")
    assert response["Content-Length"] == str(found.size)
    assert response["ETag"] == f'"{found.sha256}"'
    assert not AuditEntry.objects.filter(kind="download").exists()


def test_who_has_the_bytes_already_gets_none(run: Run, browse: Browser) -> None:
    found = artifact(run, "spec.json")
    response = download(browse("operator"), found, **{"If-None-Match": f'"{found.sha256}"'})
    assert (response.status_code, response.content) == (304, b"")


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ("bytes=0-9", slice(0, 10)),
        ("bytes=5-", slice(5, None)),
        ("bytes=-7", slice(-7, None)),
        ("bytes=10-10", slice(10, 11)),
    ],
)
def test_a_range_gives_exactly_that_part(run: Run, browse: Browser, asked: str, part: slice) -> None:
    found = artifact(run, "spec.json")
    response = download(browse("operator"), found, Range=asked)
    expected = run.spec.encode()[part]
    assert response.status_code == 206
    assert body(response) == expected
    assert response["Content-Length"] == str(len(expected))


@pytest.mark.parametrize("asked", ["bytes=999999-", "bytes=9-3", "bytes=-0"])
def test_a_range_past_the_end_is_refused(run: Run, browse: Browser, asked: str) -> None:
    found = artifact(run, "spec.json")
    response = download(browse("operator"), found, Range=asked)
    assert response.status_code == 416
    assert response["Content-Range"] == f"bytes */{found.size}"


@pytest.mark.parametrize("asked", ["bytes=0-1,4-5", "lines=1-2", "bytes=a-b", "bytes=-", "bytes=" + "9" * 40 + "-"])
def test_a_range_that_is_none_gives_the_whole(run: Run, browse: Browser, asked: str) -> None:
    response = download(browse("operator"), artifact(run, "spec.json"), Range=asked)
    assert (response.status_code, body(response)) == (200, run.spec.encode())


def _tamper(found: Artifact) -> None:
    with default_storage.open(found.stored, "rb") as file:
        data = bytearray(file.read())
    data[0] ^= 1
    with open(default_storage.path(found.stored), "wb") as file:  # noqa: PTH123
        file.write(bytes(data))


def test_a_changed_file_is_not_given_out(run: Run, browse: Browser) -> None:
    found = artifact(run, "spec.json")
    _tamper(found)
    for headers in ({}, {"Range": "bytes=0-9"}):
        response = download(browse("operator"), found, **headers)
        sent = b""
        with pytest.raises(store.HashDiffers):
            for piece in response.streaming_content:
                sent += piece
        assert sent == b""


def test_a_refused_file_is_listed_with_its_reason_and_cannot_be_read(run: Run, browse: Browser) -> None:
    found = artifact(run, "harbor.log") if False else run.artifacts.filter(path__endswith="harbor.log")[0]
    Artifact.objects.filter(pk=found.pk).update(state="unreadable", note="PermissionError")
    client = browse("operator")
    assert download(client, found).status_code == 404
    assert client.get(f"/evidence/{found.key}/text/").status_code == 404
    assert "unreadable: PermissionError" in plain(client.get(f"/runs/{run.key}/evidence/").content.decode())


def test_a_quarantine_is_said_on_the_run_page(site: Site, run: Run, browse: Browser) -> None:
    found = artifact(run, "run.json")
    Artifact.objects.filter(pk=found.pk).update(state="quarantined")
    text = plain(browse("operator").get(f"/runs/{run.key}/").content.decode())
    assert "1 quarantined" in text
    assert "Integrity : a check failed" in text
    assert "the secret itself is not shown anywhere" in text
    assert browse("operator").get(f"/evidence/{found.key}/text/").status_code == 403


def members(response: Any) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(body(response))) as archive:
        return {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}


def test_the_archive_holds_what_its_list_of_hashes_says(run: Run, browse: Browser) -> None:
    response = browse("operator").get(f"/runs/{run.key}/evidence/archive/")
    found = members(response)
    for line in found["SHA256SUMS"].decode().splitlines():
        sha256, name = line.removeprefix("\\").split("  ", 1)
        name = name.replace("\\\\", "\\") if line.startswith("\\") else name  # as sha256sum escapes
        assert hashlib.sha256(found[name]).hexdigest() == sha256
    assert found["spec.json"] == run.spec.encode()
    assert AuditEntry.objects.filter(kind="download", subject__endswith=".zip").count() == 1


def test_a_viewers_archive_holds_what_is_for_everybody(run: Run, browse: Browser) -> None:
    found = members(browse("viewer").get(f"/runs/{run.key}/evidence/archive/"))
    assert set(found) == {"SHA256SUMS", "evidence/suite.json", "evidence/provenance.json"}


def test_a_quarantined_run_has_no_archive_and_says_why(run: Run, browse: Browser) -> None:
    """The file is named to operators, never what is in it, and not even its name to viewers."""
    found = artifact(run, "run.json")
    Artifact.objects.filter(pk=found.pk).update(state="quarantined")
    for who, named in (("operator", True), ("viewer", False)):
        response = browse(who).get(f"/runs/{run.key}/evidence/archive/", follow=True)
        text = plain(response.content.decode())
        assert "refused" in text
        assert ("known secret is in: run.json" in text) == named


@pytest.mark.parametrize("page", ["0", "99999", "9" * 5_000, "-1", "x", ""])
def test_any_page_that_is_asked_for_is_answered(run: Run, browse: Browser, page: str) -> None:
    assert browse("viewer").get(f"/runs/{run.key}/evidence/", {"page": page}).status_code == 200


def test_a_huge_text_is_read_in_windows(site: Site, browse: Browser) -> None:
    run = make_run(site, "passed")
    line = b"0123456789abcde\n"
    keep(run, {"trials/1/kept/agent/long.txt": line * 20_000 + b"the very end"})
    found = artifact(run, "long.txt")
    client = browse("operator")
    first = client.get(f"/evidence/{found.key}/text/").content.decode()
    assert "bytes 0 to 65,536 of 320,012" in plain(first)
    assert "the very end" not in first
    assert "the very end" in client.get(f"/evidence/{found.key}/text/?from=end").content.decode()
    for odd in ("-5", "x", "99999999999999999999", "400000"):
        assert client.get(f"/evidence/{found.key}/text/?from={odd}").status_code == 200


def test_evidence_without_files_says_when_there_will_be_some(site: Site, browse: Browser) -> None:
    run = make_run(site, "queued")
    assert "registered" in plain(browse("operator").get(f"/runs/{run.key}/evidence/").content.decode())


def test_a_legal_hold_and_a_removal_are_said_where_the_evidence_is(site: Site, browse: Browser) -> None:
    """Issue 7.5: a removal is visible, with each file's hash."""
    run = make_run(site, "passed")
    keep(run, {"evidence/suite.json": b"{}"})
    client, address = browse("operator"), f"/runs/{run.key}/evidence/"
    retention.hold(user=site.admin, run=run, reason="<b>the court</b>")
    text = client.get(address).content.decode()
    assert "&lt;b&gt;the court&lt;/b&gt;" in text and "<b>the court" not in text
    retention.release(user=site.admin, run=run)
    kept = artifact(run, "spec.json")
    retention.expire(user=site.admin, run=run)
    text = client.get(address).content.decode()
    assert "removed by retention" in plain(text) and kept.sha256[:8] in text
    assert client.get(f"/evidence/{kept.key}/download/").status_code == 404
    assert "removed by retention" in plain(client.get(f"/runs/{run.key}/").content.decode())
    assert client.get(f"/runs/{run.key}/trials/1/").status_code == 200
    assert client.get(f"/runs/{run.key}/trials/1/trajectory/").status_code == 200
    assert download(browse("viewer"), artifact(run, "suite.json")).status_code == 200
