"""Experiments over HTTP: their statistics and comparison, and checkpoints of suites that may be pushed again."""

import json
from typing import Any

import pytest

from evidence.models import Experiment, Suite, SuiteRevision
from tests.api.conftest import Callers
from tests.experiments import rows
from tests.pages.factories import Site

_OUTCOMES = {"p": "reported_passed", "f": "reported_failed", "e": "errored"}


def experiment(name: str, cases: dict[str, str], **more: Any) -> Experiment:
    """``{"a": "pfe"}``: case a with a passed, a failed and an errored attempt, each of 100 tokens and 0.5 dollars."""
    row = rows.experiment(f"{name}-0123456789abcdef", **{"requested": sum(map(len, cases.values())), **more})
    used = {"checksum": "1", "input_tokens": 90, "output_tokens": 10, "cost_usd": 0.5}
    for case, letters in cases.items():
        for attempt, letter in enumerate(letters, 1):
            rows.trial(row, case, attempt, reported_outcome=_OUTCOMES[letter], **used)
    rows.finalize(row)
    return row


def test_statistics_stand_beside_what_was_graded_of_what_was_asked_for(call: Callers) -> None:
    row = experiment("one", {"a": "pp", "b": "pf", "c": "ff", "d": "e"}, requested=8)
    found = call("viewer")("GET", f"experiments/{row.key}/statistics")
    rate = found["pass_rate"]
    assert (rate["value"], rate["method"], rate["graded"], rate["requested"]) == (0.5, "clustered", 6, 8)
    assert (rate["graded_cases"], rate["cases"], found["trust"]) == (3, 4, "reported")
    assert rate["interval"]["low"] <= 0.5 <= rate["interval"]["high"] and rate["interval"]["level"] == 0.95
    assert found["cases"] == {"always": ["a"], "flaky": ["b"], "never": ["c"], "ungraded": ["d"]}
    assert [of["any_of_k"] for of in found["of_attempts"]] == [0.5, pytest.approx(2 / 3)]
    cost, used = found["cost_per_solved_case"], found["tokens_per_solved_case"]
    assert (cost["value"], cost["reported"], cost["requested"], cost["complete"]) == (3.5 / 2, 7, 8, False)
    assert used["value"] == 350


def test_two_experiments_that_differ_in_three_cases_are_compared(call: Callers) -> None:
    """The calculation by hand stands in tests/statistics/test_comparing.py."""
    names = "abcdefghij"
    left = experiment("left", dict(zip(names, "pppppfffff", strict=True)))
    right = experiment("right", dict(zip(names, "ppppppppff", strict=True)))
    found = call("viewer")("GET", f"experiments/{left.key}/compared/{right.key}")
    assert (found["better"], found["worse"]) == (["f", "g", "h"], [])
    assert (found["difference"], found["p_value"], found["test"], found["differs"]) == (0.3, 0.25, "mcnemar", [])
    assert round(found["interval"]["low"], 5) == -0.05295
    other = experiment("other", {"a": "p"}, pass_threshold=0.5)
    found = call("viewer")("GET", f"experiments/{left.key}/compared/{other.key}")
    assert (found["p_value"], found["interval"]) == (None, None)
    assert found["differs"] == [{"what": "pass threshold", "left": "1", "right": "0.5"}]


def test_an_experiment_that_is_not_there_is_refused(call: Callers) -> None:
    row, ask = experiment("one", {"a": "p"}), call("viewer")
    for path in ("nothing/statistics", f"{row.key}/compared/nothing", f"nothing/compared/{row.key}"):
        assert ask("GET", f"experiments/{path}", status=404)["code"] == "api.not_found"
    assert call("viewer", "publish")("GET", f"experiments/{row.key}/statistics", status=403)["code"] == "api.scope"


def test_experiments_are_listed_and_shown_with_their_trust(call: Callers) -> None:
    row, ask = experiment("one", {"a": "p"}), call("viewer")
    [listed] = ask("GET", "experiments?suite=suite-1")["experiments"]
    assert (listed["experiment_id"], listed["trust"], listed["graded"]) == (row.experiment_id, "reported", 1)
    assert ask("GET", "experiments?suite=other")["experiments"] == []
    assert ask("GET", f"experiments/{row.key}")["trials"][0]["outcome"] == "reported_passed"
    for path in ("experiments/nothing", "experiments/nothing/statistics", f"experiments/{row.key}/compared/nothing"):
        assert ask("GET", path, status=404)["code"] == "api.not_found"


CASE = {"source": "d", "name": "a", "checksum": "1"}
CHECKPOINT: dict[str, Any] = {"name": "Suite", "mode": "subset", "cases": [CASE]}


def push(call: Callers, body: object, *, who: str = "operator", **more: Any) -> dict[str, Any]:
    scopes = more.pop("scopes", ("publish",))
    return call(who, *scopes)("PUT", "suites/team-suite", data=json.dumps(body), **more)


def test_a_checkpoint_that_is_pushed_again_changes_nothing(call: Callers) -> None:
    first = push(call, CHECKPOINT)
    assert (first["revision"], first["cases"], first["suite_id"]) == (1, 1, "team-suite")
    assert push(call, CHECKPOINT) == first
    more = {**CHECKPOINT, "cases": [{**CASE, "name": "b"}]}
    assert (push(call, more)["revision"], SuiteRevision.objects.count()) == (2, 2)
    assert push(call, {**more, "mode": "replace"})["cases"] == 1


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({**CHECKPOINT, "mode": "add"}, "checkpoint.mode"),
        ({**CHECKPOINT, "cases": []}, "checkpoint.cases"),
        ({**CHECKPOINT, "cases": [CASE, CASE]}, "twice"),
        ({**CHECKPOINT, "cases": [{**CASE, "checksum": True}]}, "checksum"),
        ({**CHECKPOINT, "cases": [{**CASE, "checksum": 1}]}, "checksum"),
        ({**CHECKPOINT, "cases": [{**CASE, "name": "a\n"}]}, "name"),
        ({**CHECKPOINT, "casez": []}, "casez"),
        ([], "checkpoint"),
        (float("nan"), "clean JSON"),
    ],
)
def test_a_checkpoint_that_is_mistyped_is_refused(call: Callers, body: object, named: str) -> None:
    assert named in push(call, body, status=400)["sentence"]
    assert not Suite.objects.exists()


def test_a_body_is_read_strictly(call: Callers) -> None:
    ask = call("operator", "publish")
    for text in ('{"name": "a", "name": "b"}', "{", "\ufeff{}", '{"name": "\\u0000"}', '{"name": "\\ud800"}'):
        assert "clean JSON" in ask("PUT", "suites/x", data=text, status=400)["sentence"]


def test_a_body_that_is_too_large_is_none_that_is_read(call: Callers) -> None:
    ask = call("operator", "publish")
    for size in (2_000_001, 2_700_000):
        assert ask("PUT", "suites/x", data=" " * size, status=413)["code"] == "api.too_large"


def test_a_checkpoint_needs_the_scope_and_the_role(call: Callers, site: Site) -> None:
    assert push(call, CHECKPOINT, scopes=("read", "run"), status=403)["code"] == "api.scope"
    assert push(call, CHECKPOINT, who="viewer", status=403)["code"] == "access.refused"
    assert not Suite.objects.exists()


def test_a_list_names_the_address_of_what_is_older(call: Callers) -> None:
    kept = [experiment(f"e{number}", {"a": "p"}).key for number in range(3)]
    user, seen, path = call("viewer"), [], "experiments?limit=2"
    seen += [row["key"] for row in user("GET", path)["experiments"]]
    seen += [row["key"] for row in user("GET", f"experiments?limit=2&before={seen[-1]}")["experiments"]]
    assert sorted(seen) == sorted(kept) and len(set(seen)) == 3
    assert user("GET", "experiments?before=nothing", status=400)["code"] == "input.unknown_experiment"


def test_a_suite_of_a_project_has_a_slash_in_its_id(call: Callers) -> None:
    ask = call("operator", "publish")
    assert ask("PUT", "suites/team/evals", data=json.dumps(CHECKPOINT))["suite_id"] == "team/evals"
