"""What the scripted endpoint plays: the bundle's tasks, recognised by their instructions."""

import json
from pathlib import Path
from typing import Any

import pytest

from runs.scripted.scripts import (
    CERTIFICATION,
    FORGERY,
    LINKS,
    SUBMIT,
    TASKS,
    Mode,
    mode_of,
    next_step,
    script,
    task_of,
)

BUNDLE = Path(__file__).parents[2] / "runs" / "bundles" / "environment-smoke" / "tasks"


def prompt(task: str) -> list[dict[str, Any]]:
    """The conversation as the agent starts it."""
    instruction = (BUNDLE / task / "instruction.md").read_text()
    return [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": f"Please solve this issue: {instruction}\n\nYou can execute bash commands."},
    ]


def test_the_scripts_know_exactly_the_bundles_tasks() -> None:
    assert {task.name for task in TASKS} == {path.name for path in BUNDLE.iterdir()}


@pytest.mark.parametrize("name", [task.name for task in TASKS])
def test_a_task_is_recognised_by_its_instruction(name: str) -> None:
    task = task_of(prompt(name))
    assert task is not None and task.name == name


@pytest.mark.parametrize("name", [task.name for task in TASKS])
@pytest.mark.parametrize(("mode", "which"), [("positive", "solution"), ("negative", "wrong"), ("forge", "wrong")])
def test_the_work_is_the_bundles_own_certified_script(name: str, mode: str, which: str) -> None:
    commands = [step.command for step in script(Mode(mode), task_of(prompt(name)))]
    assert commands[1] == f"cd /app && {(CERTIFICATION / name / f'{which}.sh').read_text().strip()}"
    assert commands[-1] == SUBMIT and commands.count(SUBMIT) == 1
    assert (FORGERY in commands) is (mode == "forge")


def test_links_are_planted_in_one_task_only_so_that_the_others_stay_readable() -> None:
    planted = [task.name for task in TASKS if any(step.command == LINKS for step in script(Mode.FORGE, task))]
    assert planted == ["file-tree"]


def test_each_answer_is_the_step_after_those_that_were_spoken() -> None:
    messages = prompt("config-merge")
    expected = script(Mode.POSITIVE, task_of(messages))
    for step in expected:
        assert next_step(Mode.POSITIVE, messages) == step
        messages += [{"role": "assistant", "content": step.words}, {"role": "tool", "content": "…"}]
    assert next_step(Mode.POSITIVE, messages) == expected[-1]


def test_an_unknown_task_is_submitted_unsolved() -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "something else"}]}]
    assert [step.command for step in script(Mode.POSITIVE, task_of(messages))] == ["ls -la", SUBMIT]


@pytest.mark.parametrize(
    ("alias", "mode"),
    [
        ("scripted-positive", Mode.POSITIVE),
        ("scripted-wrong-model", Mode.WRONG_MODEL),
        ("positive", None),
        ("scripted-", None),
        ("scripted-other", None),
    ],
)
def test_the_alias_names_the_mode(alias: str, mode: Mode | None) -> None:
    assert mode_of(alias) is mode


def test_the_forgery_names_every_result_that_an_agent_can_write() -> None:
    for place in (
        "/logs/verifier/reward.json", "/logs/verifier/reward.txt", "/tests/test.sh", "/logs/agent/trajectory.json",
        "/logs/agent/mini-swe-agent.trajectory.json", "/logs/result.json", "/app/output/reward.json",
        "/logs/artifacts/manifest.json", "/app/mini.yaml",
    ):  # fmt: skip
        assert place in FORGERY
    assert json.loads('{"messages": ["x"]}')["messages"] == ["x"] and "setsid" in FORGERY
