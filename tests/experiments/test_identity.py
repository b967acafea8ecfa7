"""The ids equal the published formulas, written out once more by hand."""

import hashlib
import json

import pytest

from evidence.imports import identity


def sixteen(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()[:16]


def test_parts_are_joined_by_the_unit_separator_and_none_is_empty() -> None:
    assert identity.hashed("a", None, "ö") == sixteen("a\x1f\x1fö")
    assert identity.hashed("ab") != identity.hashed("a", "b")


def test_an_experiment_is_named_by_its_base_candidate_and_source() -> None:
    document = {"candidate": {"agent_name": "größe", "model_name": "m", "model_provider": ""}, "source": "adhoc"}
    compact = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    assert identity.experiment_id("base", "größe", "", "m", "") == f"base-{sixteen(compact)}"


def test_suites_cases_and_checkpoints() -> None:
    assert identity.suite_id("") == identity.suite_id("adhoc") == f"harbor-suite-{sixteen('adhoc')}"
    assert identity.case_id("s", "", "t") == f"harbor-task-{sixteen('s' + chr(31) + chr(31) + 't')}"
    cases = [("b", "2"), ("a", "1"), ("b", "2")]
    expected = f"harbor-checkpoint-{sixteen('a:1' + chr(31) + 'b:2')}"
    assert identity.checkpoint_id(cases) == identity.checkpoint_id(reversed(cases)) == expected
    assert identity.live_checkpoint_id("job", "source") == f"harbor-live-{sixteen('job' + chr(31) + 'source')}"


@pytest.mark.parametrize(("source", "ambiguous"), [("", True), ("tasks", True), ("dataset", True), ("tasks2", False)])
def test_a_folder_of_tasks_names_no_suite(source: str, ambiguous: bool) -> None:
    assert identity.is_ambiguous(source) is ambiguous
