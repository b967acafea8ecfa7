"""Endpoints from a terminal: a record's file becomes a version, and an endpoint is taken out of use."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runs.models import AuditEntry, Endpoint, EndpointStop, EndpointUsage
from tests.commands.calling import Result, command
from tests.commands.schemas import validated
from tests.documents import samples
from tests.runs.rows import person, run_row

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _ada() -> None:
    person("ada", "admin")
    person("olga", "operator")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "record.json"


def register(file: Path, record: dict[str, Any] | str, *words: str, user: str = "ada") -> Result:
    file.write_text(record if isinstance(record, str) else json.dumps(record))
    return command("endpoint", "register", str(file), "--user", user, *words)


def test_a_record_of_each_version_is_registered_and_the_next_one_replaces_it(file: Path) -> None:
    for number, record in enumerate((samples.endpoint(), samples.endpoint_v2()), 1):
        done = register(file, record, "--json")
        assert (done.code, done.json["version"], done.json["new"]) == (0, number, True)
    rows = Endpoint.objects.order_by("version")
    assert [(row.active, row.served_models) for row in rows] == [
        (False, []), (True, ["small-model-2026-05-01", "org/small-model"]),
    ]  # fmt: skip
    assert AuditEntry.objects.filter(kind="endpoint_register", actor_name="ada").count() == 2


def test_the_record_that_is_in_use_changes_nothing(file: Path) -> None:
    first, again = (register(file, samples.endpoint_v2(), "--json").json for _ in range(2))
    assert again == {**first, "new": False} and Endpoint.objects.count() == 1


def test_every_problem_of_a_file_is_told_with_its_field_and_nothing_is_stored(file: Path) -> None:
    broken = {**samples.endpoint_v2(), "served_models": ["two words"], "private_addresses": "yes", "colour": "red"}
    done = register(file, broken)
    assert done.code == 2 and not Endpoint.objects.exists()
    for place in ("served_models[0]", "private_addresses", "colour"):
        assert place in done.err + done.out
    told = register(file, broken, "--json").json
    assert {problem["path"] for problem in told["problems"]} == {"served_models[0]", "private_addresses", "colour"}


def test_a_file_that_is_no_record_is_refused(file: Path) -> None:
    for text in ("", "{", "[]", '{"schema": "benchsite.profile/v2"}', '{"name": "a", "name": "b"}'):
        assert register(file, text).code == 2
    missing = command("endpoint", "register", str(file.parent / "absent"), "--user", "ada", "--json")
    assert (missing.code, missing.json["code"]) == (2, "input.no_file")
    unnamed = command("endpoint", "register", "--user", "ada", "--json")
    assert (unnamed.code, unnamed.json["code"]) == (2, "input.no_target")


def test_an_endpoint_is_retired_and_its_records_stay(file: Path) -> None:
    register(file, samples.endpoint_v2())
    assert command("endpoint", "retire", "local-model", "--user", "ada", "--json").json["retired"] is True
    assert [row.active for row in Endpoint.objects.all()] == [False]
    again = command("endpoint", "retire", "local-model", "--user", "ada", "--json")
    assert (again.code, again.json["code"]) == (2, "input.unknown_endpoint")
    assert AuditEntry.objects.filter(kind="endpoint_retire", actor_name="ada").count() == 1
    assert register(file, samples.endpoint_v2(), "--json").json["version"] == 2


@pytest.mark.parametrize("user", ["olga", "cli"])
def test_only_who_may_register_endpoints_does(file: Path, user: str) -> None:
    refused = register(file, samples.endpoint_v2(), "--json", user=user)
    assert refused.json["code"] == "access.refused" and refused.code and not Endpoint.objects.exists()
    register(file, samples.endpoint_v2())
    assert command("endpoint", "retire", "local-model", "--user", user).code == refused.code
    assert Endpoint.objects.get().active


def test_stopping_one_needs_its_name_and_a_reason_and_ends_its_runs() -> None:
    run = run_row()
    refused = command("endpoint", "stop", "scripted", "--user", "olga")
    assert refused.code == 2 and "reason: say in one line" in refused.err and not EndpointStop.objects.exists()
    unknown = command("endpoint", "stop", "no-such", "--reason", "a test", "--user", "olga")
    assert unknown.code == 2 and "scripted" in unknown.err
    done = command("endpoint", "stop", "scripted", "--reason", "too dear", "--user", "olga", "--json")
    assert (done.code, done.json["runs"], done.json["stopped"]["reason"]) == (0, [run.key], "too dear")
    again = command("endpoint", "stop", "scripted", "--reason", "another", "--user", "olga", "--json")
    assert (again.code, again.json["runs"], again.json["stopped"]["reason"]) == (0, [], "too dear")


def test_only_who_may_register_endpoints_allows_one_again() -> None:
    run_row()
    command("endpoint", "stop", "scripted", "--reason", "a test", "--user", "olga")
    assert command("endpoint", "allow", "scripted", "--user", "olga").code == 2
    assert EndpointStop.objects.exists()
    assert command("endpoint", "allow", "scripted", "--user", "ada", "--json").json["stopped"] is None
    assert "was not stopped" in command("endpoint", "allow", "scripted", "--user", "ada").out


def test_one_that_was_retired_can_still_be_stopped(file: Path) -> None:
    register(file, samples.endpoint())
    command("endpoint", "retire", "local-model", "--user", "ada")
    assert command("endpoint", "stop", "local-model", "--reason", "its last run", "--user", "olga").code == 0


SPENDING = {
    "prices": {"currency": "USD", "date": "2026-11-30", "input": "2.50", "cached_input": "0.25", "output": "10.00"},
    "limits": {"requests_per_minute": 60},
    "budgets": {"trial": {"tokens": 5000}, "day": {"tokens": 1000, "money": "1.50"}},
}


def test_list_and_show_have_every_name_and_all_of_prices_limits_and_budgets(file: Path) -> None:
    assert register(file, samples.endpoint_v2() | SPENDING).code == 0
    name = samples.endpoint_v2()["name"]
    today = datetime.now(UTC).date()
    EndpointUsage.objects.create(run_key="a" * 32, endpoint_name=name, day=today, tokens=400)
    shown = validated(command("endpoint", "show", name, "--user", "olga", "--json").json)
    [listed] = validated(command("endpoint", "list", "--user", "olga", "--json").json)["endpoints"]
    assert listed["served_models"] == ["small-model-2026-05-01", "org/small-model"]
    assert listed["prices"] == SPENDING["prices"] and listed["limits"]["requests_per_minute"] == 60
    assert listed["budgets"]["day"] == {"tokens": 1000, "money": "1.50"} and listed["budgets"]["run"] is None
    assert {key: shown[key] for key in listed} == listed
    assert shown["budgets_left"] == {"day": {"tokens": 600, "money": "1.50"}}
    said = command("endpoint", "show", name, "--user", "olga").out
    assert "2.50 input, 0.25 cached input, 10.00 output USD a million tokens, as of 2026-11-30" in said
    assert "60 requests a minute" in said and "600 tokens and 1.50 USD left" in said


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"prices": {"currency": "USD"}}, "bad_endpoint.missing_field"),
        ({"prices": SPENDING["prices"] | {"input": 2.5}}, "bad_endpoint.wrong_type"),
        ({"limits": {}}, "bad_endpoint.empty"),
        ({"budgets": {"trial": {}}}, "bad_endpoint.empty"),
        ({"budgets": {"day": {"money": "1.00"}}, "prices": None}, "endpoint.budget_without_prices"),
        ({"controls": ["max_tokens", "reasoning_effort"]}, "bad_endpoint.unexpected_value"),
    ],
)
def test_what_would_have_no_effect_is_refused(file: Path, change: dict[str, Any], code: str) -> None:
    refused = register(file, samples.endpoint_v2() | SPENDING | change, "--json")
    assert refused.code == 2 and code in {problem["code"] for problem in refused.json["problems"]}
