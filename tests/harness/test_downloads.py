"""Nothing that an agent writes makes Harbor's adapter raise: decided by the real adapter itself."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.attendant.real_parts import Parts

pytestmark = pytest.mark.harbor_compatibility

PROGRAM = Path(__file__).parent / "downloads_program.py"
USAGE = {"prompt_tokens": 10, "completion_tokens": 5}
GOOD = {
    "info": {
        "exit_status": "Submitted",
        "model_stats": {"instance_cost": 0.0, "api_calls": 1},
        "mini_version": "2.4.6",
    },
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a", "extra": {"response": {"usage": USAGE}}},
    ],
    "trajectory_format": "mini-swe-agent-1.1",
}


def with_usage(**usage: Any) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", "extra": {"response": {"usage": usage}}}]}


HOSTILE = {
    "an entry that is a text": json.dumps({"messages": ["x"]}),
    "messages that are a number": json.dumps({"messages": 7}),
    "a list at the top": "[]",
    "a text as usage": json.dumps({"messages": [{"extra": {"response": {"usage": "x"}}}]}),
    "tokens that are a text": json.dumps(with_usage(prompt_tokens="many")),
    "tokens below zero": json.dumps(with_usage(prompt_tokens=-5)),
    "tokens without end": json.dumps(with_usage(completion_tokens=10**60)),
    "half a token": json.dumps(with_usage(prompt_tokens=0.5)),
    "a cost that is a text": json.dumps({**GOOD, "info": {"model_stats": {"instance_cost": "free"}}}),
    "a cost that is no number": '{"info": {"model_stats": {"instance_cost": NaN}}, "messages": []}',
    "a cost below zero": json.dumps({**GOOD, "info": {"model_stats": {"instance_cost": -1.5}}}),
}
HARMLESS = {
    "an honest trajectory": json.dumps(GOOD),
    "no messages": json.dumps({**GOOD, "messages": []}),
    "cut in the middle": json.dumps(GOOD)[:-20],
    "an empty file": "",
}
REWARDS: dict[str, tuple[dict[str, str], list[str]]] = {
    "an honest reward": (
        {"reward.json": '{"reward": 1}', "test-stdout.txt": "ok"},
        ["reward.json", "test-stdout.txt"],
    ),
    "cut": ({"reward.json": '{"reward":1'}, ["reward.json"]),
    "brackets without end": ({"reward.json": "[" * 200_000}, []),
    "deep within the size": ({"reward.json": "[" * 60_000}, []),
    "other files": ({"reward.txt": "1", "forged.json": "{}", "result.json": "{}"}, ["reward.txt"]),
}


@pytest.fixture(scope="module")
def judged(parts: Parts) -> dict[str, Any]:
    cases = {
        "trajectories": [*HOSTILE.values(), *HARMLESS.values()],
        "rewards": [files for files, _ in REWARDS.values()],
    }
    done = subprocess.run(
        [parts.python, "-I", PROGRAM],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    found = json.loads(done.stdout)
    return {
        "trajectories": dict(zip([*HOSTILE, *HARMLESS], found["trajectories"], strict=True)),
        "rewards": dict(zip(REWARDS, found["rewards"], strict=True)),
    }


@pytest.mark.parametrize("name", HOSTILE)
def test_a_malformed_trajectory_is_withheld(judged: dict[str, Any], name: str) -> None:
    assert judged["trajectories"][name]["code"] == "handover.trajectory_malformed"


@pytest.mark.parametrize("name", HARMLESS)
def test_a_trajectory_that_harms_nobody_is_handed_over(judged: dict[str, Any], name: str) -> None:
    assert judged["trajectories"][name] == {"code": None, "raised": None}


def test_harbors_adapter_does_raise_on_what_is_withheld(judged: dict[str, Any]) -> None:
    raised = {name for name in HOSTILE if judged["trajectories"][name]["raised"]}
    assert {"an entry that is a text", "messages that are a number", "a list at the top"} <= raised


@pytest.mark.parametrize("name", REWARDS)
def test_of_a_verifiers_logs_harbor_gets_what_its_parser_survives(judged: dict[str, Any], name: str) -> None:
    assert judged["rewards"][name] == REWARDS[name][1]
