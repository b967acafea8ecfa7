"""What is refused in a form is said on top with a link to its field, and in the same words at the field."""

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from runs.models import Endpoint, Preview, TaskBundle, Worker
from tests.pages.conftest import Browser
from tests.pages.factories import PASSWORD, Site, draft_bundle
from tests.pages.runs.test_previews import choose, confirm, page, preview_of
from tests.pages.runs.test_run_page import plain
from tests.pages.test_reviews import ENDPOINT

WIDER = "9,999 is above 32; a run may only narrow its profile."


def summary(text: str) -> str:
    """The summary's markup."""
    found = re.search(r'<div class="message attention errors".*?</div></div>', text, re.DOTALL)
    assert found, plain(text)
    return found[0]


def control(text: str, name: str) -> str:
    """The markup of the control that sends ``name``."""
    found = re.search(rf'<(input|select|textarea)[^>]*\bname="{name}"[^>]*>', text)
    assert found, name
    return found[0]


def at_field(text: str, anchor: str) -> str:
    """What stands at the field that the summary's ``anchor`` leads to, found as a screen reader finds it."""
    described = re.search(
        rf'<[^>]*\bid="{anchor}"[^>]*\baria-describedby="([^"]*)"|'
        rf'<[^>]*\baria-describedby="([^"]*)"[^>]*\bid="{anchor}"',
        text,
    )
    assert described, anchor
    ids = (described[1] or described[2]).split()
    error = next(one for one in ids if one.endswith("_error"))
    found = re.search(rf'<(ul|span)[^>]*\bid="{error}"[^>]*>(.*?)</\1>', text, re.DOTALL)
    assert found, error
    return plain(found[2]).strip()


def test_a_wider_limit_is_said_on_top_and_at_its_field_in_the_same_words(site: Site, browse: Browser) -> None:
    text = choose(site, browse("operator"), max_steps=9_999).content.decode()
    assert f'<a href="#id_max_steps">Steps per task: {WIDER}</a>' in summary(text)
    assert at_field(text, "id_max_steps") == WIDER
    assert 'aria-invalid="true"' in control(text, "max_steps")
    assert "max_steps:" not in plain(text)


def test_the_summary_takes_the_focus_and_keeps_the_code(site: Site, browse: Browser) -> None:
    text = summary(choose(site, browse("operator"), max_steps=9_999).content.decode())
    assert 'tabindex="-1" autofocus' in text and 'role="alert"' in text
    assert "spec.wider_than_profile" in text
    assert "No preview was made: 1 problem to fix" in plain(text)


def test_what_was_typed_is_kept(site: Site, browse: Browser) -> None:
    text = choose(
        site, browse("operator"), max_steps=9_999, max_trial_seconds=400, tasks=["file-tree"]
    ).content.decode()
    assert 'value="9999"' in control(text, "max_steps")
    assert 'value="400"' in control(text, "max_trial_seconds")
    assert re.search(r'value="file-tree"[^>]*checked', text)


def test_every_problem_is_named_in_the_order_of_the_fields(site: Site, browse: Browser) -> None:
    text = summary(choose(site, browse("operator"), max_steps=9_999, max_trial_seconds=1).content.decode())
    assert "2 problems to fix" in text
    assert text.index("#id_max_steps") < text.index("#id_max_trial_seconds")


def test_a_task_of_another_profile_is_named_with_those_that_there_are(site: Site, browse: Browser) -> None:
    text = choose(site, browse("operator"), tasks=["../etc"]).content.decode()
    assert "Tasks: ../etc: the profile has no task of this name. The profile&#x27;s tasks: ledger-totals" in plain(text)
    assert 'href="#id_tasks_0"' in summary(text) and 'id="id_tasks_0"' in text
    assert "tasks[0]" not in text


def test_a_worker_that_is_not_offered_any_more_is_said_at_its_field(site: Site, browse: Browser) -> None:
    Worker.objects.create(name="worker-9")
    Worker.objects.filter(pk=site.worker.pk).update(lost_declared_at=timezone.now())
    text = choose(site, browse("operator")).content.decode()
    assert "Worker: This worker is no longer available. Choose another one." in plain(summary(text))
    assert "input.unknown_worker" in summary(text)


def test_a_bundle_that_is_missing_is_said_at_the_profile(site: Site, browse: Browser) -> None:
    from tests.pages.runs.test_previews import _forget

    _forget(site.bundle)
    assert 'href="#id_profile"' in summary(choose(site, browse("operator")).content.decode())


def test_what_was_not_accepted_is_said_by_its_words_and_what_was_ticked_stays_ticked(
    site: Site, browse: Browser
) -> None:
    client = browse("operator")
    preview = preview_of(site, client)
    first, second = (check["name"] for check in preview.to_accept)
    text = confirm(client, preview, accept=[first]).content.decode()
    assert re.search(rf'id="accept-1"[^>]*value="{first}"[^>]*checked', text)
    assert not re.search(rf'id="accept-2"[^>]*value="{second}"[^>]*checked', text)
    assert '<a href="#accept-2">I accept that the harness runs as the worker&#x27;s user: Tick this box' in text
    assert at_field(text, "accept-2") == "Tick this box to start the run."
    assert "harness_uid" not in plain(text)


def test_a_note_that_is_too_long_is_kept_and_nothing_is_approved(site: Site, browse: Browser) -> None:
    draft, note = draft_bundle(site), "n" * 2001
    data = {"manifest_sha256": draft.manifest_sha256, "note": note}
    text = browse("reviewer").post(f"/bundles/{draft.name}/{draft.revision}/review/", data).content.decode()
    assert "Note for the record: Ensure this value has at most 2000 characters" in plain(summary(text))
    assert note in text
    assert TaskBundle.objects.get(pk=draft.pk).status == "certified"


def test_a_refused_review_keeps_the_note(site: Site, browse: Browser) -> None:
    draft = draft_bundle(site)
    data = {"manifest_sha256": draft.manifest_sha256, "note": "read every file"}
    text = browse("admin").post(f"/bundles/{draft.name}/{draft.revision}/review/", data).content.decode()
    assert "another reviewer has to approve it" in summary(text) and "bundle.own_revision" in summary(text)
    assert "read every file" in text


def test_a_wrong_password_is_said_at_its_field(site: Site, browse: Browser) -> None:
    answers = {"old_password": "wrong", "new_password1": "a", "new_password2": "b"}
    text = browse("viewer").post("/account/password/", answers).content.decode()
    assert 'href="#id_old_password"' in summary(text)
    assert "entered incorrectly" in at_field(text, "id_old_password")
    assert text.count("autofocus") == 1


def test_a_failed_sign_in_keeps_the_name(site: Site, client: Client) -> None:
    text = client.post("/sign-in/", {"username": "viewer-1", "password": "wrong"}).content.decode()
    assert "You are not signed in: 1 problem to fix Wrong user name or password" in plain(summary(text))
    assert 'value="viewer-1"' in control(text, "username")
    assert text.count("autofocus") == 1


def test_the_admins_own_door_says_so_too_and_tells_nothing_about_a_password(site: Site, client: Client) -> None:
    answers = [{"username": name, "password": word} for name, word in (("viewer-1", PASSWORD), ("admin-1", "wrong"))]
    pages = [summary(client.post("/admin/login/", data).content.decode()) for data in answers]
    assert pages[0] == pages[1]
    assert "Wrong user name or password, or this account has no access to the admin." in plain(pages[0])


@pytest.mark.parametrize(
    ("wrong", "anchor", "said"),
    [
        ({"base_url": "https://serving-c.internal/v1?x=1"}, "id_base_url", "Base URL: The URL carries a query"),
        ({"model": "two words"}, "id_model", "Model: "),
        ({"credential_name": "DATABASE_URL"}, "id_credential_name", "Credential name: The variable belongs"),
        ({"route": "host-gateway"}, "id_route", "Route: The route host-gateway leads"),
        ({"served_models": "one, two words"}, "id_served_models", "Other names: Begin with a letter"),
        ({"served_models": "one, coder-large"}, "id_served_models", "which counts anyway; name only others"),
        ({"base_url": "http://10.0.0.7/v1"}, "id_private_addresses", "Private addresses: The base URL names a private"),
        ({"ca_file": "model-ca.pem"}, "id_ca_file", "CA file: Name the file by its whole path"),
        ({"headers": "X-Team: a\nX-Other"}, "id_headers", "Headers: Line 2 has no colon"),
        ({"headers": "X-Team: a\nX-Team: b"}, "id_headers", "Headers: Line 2 names a header a second time"),
        (
            {"headers": "Host: other.example"},
            "id_headers",
            "Headers: This header is the gateway's own".replace("'", "&#x27;"),
        ),
        ({"headers": "X Team: a"}, "id_headers", "Headers: A name has letters"),
        ({"name": ""}, "id_name", "Name: This field is required."),
    ],
)
def test_the_admin_says_at_which_field_a_record_is_refused(
    site: Site, browse: Browser, wrong: dict[str, Any], anchor: str, said: str
) -> None:
    response = browse("admin").post("/admin/runs/endpoint/add/", ENDPOINT | wrong)
    text = response.content.decode()
    assert f'href="#{anchor}"' in summary(text) and said in plain(summary(text))
    assert at_field(text, anchor) in plain(summary(text))
    assert not Endpoint.objects.filter(name="serving-c").exists()


def test_a_refused_act_takes_the_focus_and_one_that_was_done_does_not(site: Site, browse: Browser) -> None:
    Endpoint.objects.filter(pk=site.endpoint.pk).update(active=False)
    place = f"/endpoints/{site.endpoint.name}/{site.endpoint.version}/test/"
    refused = browse("operator").post(place, {"worker": site.worker.name}, follow=True).content.decode()
    assert re.search(r'<div class="message[^"]*attention[^"]*" role="alert" tabindex="-1" autofocus>', refused)
    assert "autofocus" not in page(browse("operator"), preview_of_another(site, browse))


def preview_of_another(site: Site, browse: Browser) -> Preview:
    Endpoint.objects.filter(pk=site.endpoint.pk).update(active=True)
    return preview_of(site, browse("operator"))
