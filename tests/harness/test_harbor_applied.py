"""What Harbor wrote of its own config is compared to the last field, on documents of Harbor 0.22.0."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evidence.harbor.applied import ConfigDifference, config_differences, lock_differences, mask, trial_lock_differences
from evidence.harbor.controls import JOB_CONFIG, JOB_LOCK, TRIAL_CONFIG, TRIAL_LOCK, control_checks

FIXTURES = Path(__file__).parent.parent / "fixtures" / "harbor-0.22.0"


def document(name: str) -> Any:
    return json.loads((FIXTURES / name).read_text())


ASKED = document("asked.json")


def of_config(found: Any, asked: Any = ASKED) -> list[ConfigDifference]:
    return config_differences(asked, found)


def of_lock(found: Any, asked: Any = ASKED) -> list[ConfigDifference]:
    return lock_differences(asked, found, harbor_version="0.22.0")


def test_harbors_own_documents_of_an_honest_run_show_no_difference() -> None:
    assert of_config(document("job-config.json")) == []
    assert of_lock(document("job-lock.json")) == []
    assert trial_lock_differences(ASKED, document("trial-lock.json")) == []


def test_harbor_leaves_defaults_out_and_they_are_compared_all_the_same() -> None:
    assert "n_attempts" not in document("job-config.json")
    (difference,) = of_config(document("job-config.json"), {**ASKED, "n_attempts": 2})
    assert (difference.path, difference.asked, difference.found) == ("n_attempts", "2", "1")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("n_concurrent_trial", "n_concurrent_trials"),
        ("n_attempt", "n_attempts"),
        ("instal_only", "install_only"),
    ],
)
def test_a_misspelt_control_that_harbor_ignored_is_a_difference(wrong: str, right: str) -> None:
    asked = {**ASKED, wrong: ASKED[right]}
    del asked[right]
    assert wrong in {difference.path for difference in of_config(document("job-config.json"), asked)}


def test_a_misspelt_setting_below_the_top_is_a_difference_too() -> None:
    asked = copy.deepcopy(ASKED)
    asked["verifier"]["disabled"] = False
    asked["agents"][0]["overide_timeout_sec"] = 1
    paths = {difference.path for difference in of_config(document("job-config.json"), asked)}
    assert paths == {"verifier.disabled", "agents[0].overide_timeout_sec"}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda found: found.update(n_attempts=3), "n_attempts"),
        (lambda found: found.update(install_only=True), "install_only"),
        (lambda found: found.update(n_concurrent_trials=4), "n_concurrent_trials"),
        (lambda found: found["verifier"].update(disable=True), "verifier.disable"),
        (lambda found: found["environment"].update(import_path="other:Class"), "environment.import_path"),
        (lambda found: found["agents"][0].update(name="oracle"), "agents[0].name"),
        (lambda found: found["agents"][0]["kwargs"].update(version="2.4.7"), "agents[0].kwargs.version"),
        (
            lambda found: found["agents"][0]["env"].update(OPENAI_API_KEY="sk-other"),
            "agents[0].env.OPENAI_API_KEY",
        ),
        (lambda found: found["agents"].append({"name": "oracle"}), "agents"),
        (lambda found: found["tasks"][0].update(path="/elsewhere"), "tasks[0].path"),
        (lambda found: found.pop("quiet"), "quiet"),
        (lambda found: found.update(something_new=1), "something_new"),
    ],
)
def test_each_change_in_harbors_config_is_found_at_its_place(change: Callable[[Any], None], path: str) -> None:
    found = document("job-config.json")
    change(found)
    assert [difference.path for difference in of_config(found)] == [path]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda lock: lock["harbor"].update(version="0.25.0"), "harbor.version"),
        (lambda lock: lock.update(n_concurrent_trials=4), "n_concurrent_trials"),
        (lambda lock: lock["retry"].update(max_retries=1), "retry.max_retries"),
        (lambda lock: lock["trials"][0].update(install_only=True), "trials[0].install_only"),
        (
            lambda lock: lock["trials"][0].update(agent_timeout_multiplier=2.0),
            "trials[0].agent_timeout_multiplier",
        ),
        (lambda lock: lock["trials"][0]["verifier"].update(disable=True), "trials[0].verifier.disable"),
        (
            lambda lock: lock["trials"][0]["verifier"].update(environment_mode="shared"),
            "trials[0].verifier.environment_mode",
        ),
        (
            lambda lock: lock["trials"][0]["agent"].update(max_timeout_sec=None),
            "trials[0].agent.max_timeout_sec",
        ),
        (lambda lock: lock["trials"][0].update(user_agent={"name": "x"}), "trials[0].user_agent"),
        (lambda lock: lock["trials"][0].update(source_trial={"action": "regrade"}), "trials[0].source_trial"),
        (lambda lock: lock["trials"][0].update(skills=[{"name": "x"}]), "trials[0].skills"),
        (lambda lock: lock["trials"][0]["task"].update(type="git"), "trials[0].task.type"),
    ],
)
def test_each_change_in_harbors_lock_is_found_at_its_place(change: Callable[[Any], None], path: str) -> None:
    lock = document("job-lock.json")
    change(lock)
    assert [difference.path for difference in of_lock(lock)] == [path]


@pytest.mark.parametrize("trials", [[], None, "x"])
def test_a_lock_without_exactly_one_trial_is_a_difference(trials: Any) -> None:
    lock = {**document("job-lock.json"), "trials": trials}
    assert "trials" in {difference.path for difference in of_lock(lock)}


def test_two_trials_are_one_too_many() -> None:
    lock = document("job-lock.json")
    lock["trials"] *= 2
    assert [difference.path for difference in of_lock(lock)] == ["trials"]


@pytest.mark.parametrize("found", [None, [], "text", 7])
def test_a_document_that_is_no_object_is_all_difference_and_no_crash(found: Any) -> None:
    assert of_config(found)
    assert of_lock(found)


def test_a_sensitive_value_is_compared_as_harbor_masks_it() -> None:
    assert mask("benchsite-placeholder-abc") == "benc****abc"
    assert mask("short") == "****"


def test_a_true_is_not_a_one_but_sixty_is_sixty_point_zero() -> None:
    found = document("job-config.json")
    found["verifier"]["override_timeout_sec"] = 30
    assert of_config(found) == []
    found["n_concurrent_trials"] = True
    assert [difference.path for difference in of_config(found)] == ["n_concurrent_trials"]


def test_an_integer_is_no_float_but_for_seconds() -> None:
    found = document("job-config.json")
    found["agents"][0]["kwargs"]["max_tokens"] = 256.0
    assert [difference.path for difference in of_config(found)] == ["agents[0].kwargs.max_tokens"]


def test_a_lock_that_does_not_say_how_often_a_trial_is_tried_again_is_a_difference() -> None:
    lock = document("job-lock.json")
    del lock["retry"]["max_retries"]
    assert [difference.path for difference in of_lock(lock)] == ["retry.max_retries"]


def put(found: Any, path: str, value: Any) -> None:
    """Set the value at a dotted path of a document; sections on the way are made."""
    *above, last = path.replace("[0]", ".0").split(".")
    for part in above:
        found = found[int(part)] if isinstance(found, list) else found.setdefault(part, {})
    found[last] = value


DOCUMENTS: dict[str, tuple[dict[str, str], str, Callable[[Any], list[ConfigDifference]]]] = {
    "job_config": (JOB_CONFIG, "job-config.json", of_config),
    "job_lock": (JOB_LOCK, "job-lock.json", of_lock),
    "lock": (TRIAL_LOCK, "trial-lock.json", lambda found: trial_lock_differences(ASKED, found)),
    "result.config": (TRIAL_CONFIG, "trial-lock.json", lambda found: trial_lock_differences(ASKED, found)),
}


@pytest.mark.parametrize(
    ("where", "control"), [(where, control) for where, (table, _, _) in DOCUMENTS.items() for control in table]
)
def test_each_control_that_differs_fails_its_check_alone_and_with_its_code(where: str, control: str) -> None:
    table, name, differences = DOCUMENTS[where]
    found = document(name)
    put(found, control, "another")
    paths = [difference.path.removeprefix("trials[0].") for difference in differences(found)]
    checks, others = control_checks(where, paths, table)
    failed = [(check.name, check.code) for check in checks if not check.ok]
    below = [name for name in table if name.startswith(f"{control}[")]
    assert failed == [(f"{where}.{name}", table[name]) for name in (control, *below)]
    assert not [path for path in others if not path.startswith(("agent.", "verifier.", "environment."))]


def test_a_section_that_is_missing_fails_every_control_in_it_and_what_is_no_control_is_left() -> None:
    checks, others = control_checks("lock", ["agent.kwargs", "quiet"], TRIAL_LOCK)
    failed = [check.name for check in checks if not check.ok]
    assert failed == [f"lock.{name}" for name in TRIAL_LOCK if name.startswith("agent.kwargs.")] and len(failed) == 4
    assert others == ("quiet",)
