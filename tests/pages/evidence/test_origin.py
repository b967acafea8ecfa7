"""What pages say of where evidence comes from: who signed, whether that counts, and what it proves."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from evidence.origin.public_keys import read_public_keys
from tests.pages.conftest import Browser
from tests.pages.factories import Site, make_run, signing_key, state
from tests.pages.runs.test_run_page import text_of

WORDS = ("Consistent", "Authentic", "Re-derivable")


def test_a_signed_run_names_its_key_and_what_a_verification_proves(site: Site, browse: Browser) -> None:
    run = make_run(site, "passed")
    state(run, key := signing_key(site, 1))
    state(run, signing_key(site, 2, "site"), "site")
    for who in ("viewer", "operator"):
        text = text_of(browse(who), run)
        assert f"Signed by {key.name}" in text
        assert "Signed by bench.example" in text
        assert all(word in text for word in WORDS)
        assert "Not signed" not in text


@pytest.mark.parametrize(
    ("unsigned", "sentence"),
    [
        ("signing.no_key", "Not signed: its worker had no signing key"),
        ("signing.key_open", "Not signed: other accounts could read its worker's signing key"),
        ("signing.strange", "Not signed: no key could sign it"),
    ],
)
def test_a_run_that_is_not_signed_says_so_and_why(site: Site, browse: Browser, unsigned: str, sentence: str) -> None:
    run = make_run(site, "passed")
    state(run, None, unsigned=unsigned)
    text = text_of(browse("viewer"), run)
    assert sentence in text.replace("&#x27;", "'")
    assert "Its origin cannot be proved." in text


def test_a_run_of_which_nothing_was_stated_is_not_signed_and_one_that_goes_on_says_nothing(
    site: Site, browse: Browser
) -> None:
    assert "Nothing was stated about this run" in text_of(browse("viewer"), make_run(site, "passed"))
    assert "Re-derivable" not in text_of(browse("viewer"), make_run(site, "running"))


def test_a_key_that_was_revoked_since_is_named_on_the_run(site: Site, browse: Browser) -> None:
    run = make_run(site, "passed")
    state(run, signing_key(site, 1, revoked_at=timezone.now(), reason="lost"))
    assert "revoked since, so the signature counts no more" in text_of(browse("viewer"), run)


def test_a_later_statement_is_the_one_that_is_shown(site: Site, browse: Browser) -> None:
    run = make_run(site, "passed")
    state(run, None)
    row = state(run, signing_key(site, 1), role="worker2", reason="cleanup")
    type(row).objects.filter(pk=row.pk).update(role="worker", signed_at=timezone.now())
    text = text_of(browse("viewer"), run)
    assert "Not signed" not in text
    assert "Stated again: a later cleanup changed the journal." in text


def test_the_keys_are_listed_with_their_validity_and_nothing_private(site: Site, browse: Browser) -> None:
    now = timezone.now()
    assert "No key signs here yet" in browse("viewer").get("/signing-keys/").content.decode()
    signing_key(site, 1, retired_at=now, reason="rotated")
    signing_key(site, 2, revoked_at=now, reason="The host was sold")
    signing_key(site, 3, not_after=now - timedelta(seconds=1))
    signing_key(site, 4, "site")
    text = browse("viewer").get("/signing-keys/").content.decode()
    assert all(
        word in text for word in ("retired", "revoked", "expired", "valid", "The host was sold", "bench.example")
    )
    answer = browse("viewer").get("/signing-keys/keys.json")
    assert "attachment" in answer["Content-Disposition"]
    found = read_public_keys(answer.content)
    assert [key.role for key in found] == ["site", "worker", "worker", "worker"]
    assert sum(key.revoked_at is not None for key in found) == 1
    assert set(json.loads(answer.content)["keys"][0]) == {
        "schema", "key_id", "algorithm", "public_key", "role", "name", "not_before", "not_after", "retired_at",
        "revoked_at",
    }  # fmt: skip


def test_workers_and_evidence_lead_to_the_keys(site: Site, browse: Browser) -> None:
    run = make_run(site, "passed")
    for path in ("/workers/", f"/runs/{run.key}/", f"/runs/{run.key}/evidence/"):
        assert 'href="/signing-keys/"' in browse("viewer").get(path).content.decode()
