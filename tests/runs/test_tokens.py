"""Tokens of the HTTP API: when one counts, how it is found, and what never changes of it."""

from datetime import timedelta

import pytest
import time_machine
from django.db import IntegrityError, transaction
from django.utils import timezone

from runs.models import ApiToken
from runs.services import tokens
from runs.services.refusals import BadInput
from tests.commands.calling import command
from tests.runs.rows import person

pytestmark = pytest.mark.django_db


def made(days: int | None = None) -> tuple[ApiToken, str]:
    user = person("ada", "viewer")
    return tokens.create(user=user, by=user, name="ci", scopes=["read"], days=days)


def test_it_counts_until_it_expires() -> None:
    _, text = made(days=2)
    assert tokens.authenticated(text)
    with time_machine.travel(timezone.now() + timedelta(days=2, seconds=1), tick=False):
        assert tokens.authenticated(text) is None
        assert tokens.state_word(ApiToken.objects.get()) == "expired"


def test_it_counts_only_while_its_person_is_active() -> None:
    token, text = made()
    token.user.is_active = False
    token.user.save()
    assert tokens.authenticated(text) is None


@pytest.mark.parametrize(
    "other", ["", "bst_", "bst_x", " {}", "{} ", "{}x", "xst_{}", "bst_" + "é" * 43, "bst_" + "a" * 9999]
)
def test_what_says_anything_else_is_no_token(other: str) -> None:
    _, text = made()
    assert tokens.authenticated(other.format(text)) is None


def test_its_last_use_is_noted_to_the_minute_and_not_at_each_request() -> None:
    token, text = made()
    start = timezone.now()
    seen = []
    for seconds in (0, 30, 59, 61, 200):
        with time_machine.travel(start + timedelta(seconds=seconds), tick=False):
            tokens.authenticated(text)
        token.refresh_from_db()
        assert token.last_used_at
        seen.append(round((token.last_used_at - start).total_seconds()))
    assert seen == [0, 0, 0, 61, 200]


def test_what_was_said_of_it_never_changes() -> None:
    token, _ = made()
    for change in ({"digest": "0" * 64}, {"may_run": True}, {"name": "other"}, {"expires_at": timezone.now()}):
        with pytest.raises(IntegrityError), transaction.atomic():
            ApiToken.objects.filter(pk=token.pk).update(**change)
    assert tokens.revoke(by=token.user, token=token) and not tokens.revoke(by=token.user, token=token)
    with pytest.raises(IntegrityError), transaction.atomic():
        ApiToken.objects.filter(pk=token.pk).update(revoked_at=None)


def test_a_token_without_a_scope_is_no_row() -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        ApiToken.objects.create(user=person("ada", "viewer"), name="x", digest="0" * 64, created_by_name="ada")


def test_an_account_has_a_bound_of_tokens_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST_TOKENS", 1)
    token, _ = made()
    with pytest.raises(BadInput, match="revoke one first"):
        tokens.create(user=token.user, by=token.user, name="two", scopes=["read"], days=None)
    tokens.revoke(by=token.user, token=token)
    tokens.create(user=token.user, by=token.user, name="two", scopes=["read"], days=None)


def test_the_command_shows_ones_own_and_an_administrator_all() -> None:
    token, _ = made()
    person("vera", "viewer"), person("root", "admin")
    assert token.key in command("token", "list", "--user", "root").out
    assert token.key not in command("token", "list", "--user", "vera").out
    assert command("token", "revoke", token.key, "--user", "vera").code == 2
    refused = command("token", "create", "--user", "vera", "--json")
    assert (refused.code, refused.json["code"]) == (2, "input.no_target")
    assert (
        command("token", "create", "x", "--days", "1.5", "--user", "vera", "--json").json["code"] == "input.not_whole"
    )
    assert command("token", "revoke", token.key, "--user", "root").code == 0
