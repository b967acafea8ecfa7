"""The scripted endpoint's scripts: one per task and mode; the prompt alone tells the task. Pure.

The solving and the plausibly wrong command are the bundle's own certification scripts, so that they cannot
drift from the tasks. Commands run in the agent's container under `sh`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

CERTIFICATION = Path(__file__).parent.parent / "bundles" / "environment-smoke" / "certification"
ALIAS_PREFIX = "scripted-"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
GOOD_ANSWERS_BEFORE_FAILURE = 2


class Mode(StrEnum):
    """How the endpoint behaves; the model alias `scripted-<mode>` chooses."""

    POSITIVE = "positive"
    NEGATIVE = "negative"
    FORGE = "forge"
    HANG = "hang"
    UNAUTHORIZED = "unauthorized"
    UNAVAILABLE = "unavailable"
    MALFORMED = "malformed"
    WRONG_MODEL = "wrong-model"
    SLOW = "slow"
    LATE_FAILURE = "late-failure"
    UNAUTHORIZED_AT_ONCE = "unauthorized-at-once"
    UNAVAILABLE_AT_ONCE = "unavailable-at-once"
    WRONG_MODEL_AT_ONCE = "wrong-model-at-once"
    # Forms of real endpoints, played over the solving script.
    EMPTY_ID = "empty-id"
    SIGNED = "signed"
    IN_PARTS = "in-parts"
    ODD_NAME = "odd-name"
    NO_USAGE = "no-usage"
    DATED_NAME = "dated-name"
    REASONING_CUT = "reasoning-cut"
    REFUSING = "refusing"
    CONTEXT_OVERFLOW = "context-overflow"
    RATE_LIMITED = "rate-limited"
    RATE_LIMITED_INSIDE = "rate-limited-inside"
    BANNER = "banner"
    HTML = "html"
    EMPTY = "empty"
    CUT_OFF = "cut-off"
    EVENT_STREAM = "event-stream"
    COMPRESSED = "compressed"


# Every other mode answers the readiness question well: a run with it gets as far as its trials, and fails there.
FAILING_AT_ONCE = frozenset({Mode.UNAUTHORIZED_AT_ONCE, Mode.UNAVAILABLE_AT_ONCE, Mode.WRONG_MODEL_AT_ONCE})


@dataclass(frozen=True, slots=True)
class Step:
    """One answer: what is said, and the one command of its tool call."""

    words: str
    command: str


@dataclass(frozen=True, slots=True)
class Task:
    """A task of the bundle: `mark` stands in its instruction only; `look` and `check` only read."""

    name: str
    mark: str
    look: str
    check: str
    has_links: bool = False


TASKS = (
    Task("ledger-totals", "/app/ledger.csv", "head -n 20 /app/ledger.csv", "cat /app/output/totals.json"),
    Task("config-merge", "/app/base.json", "cat /app/base.json /app/site.json", "cat /app/output/config.json"),
    Task("file-tree", "/app/inbox", "find /app/inbox", "cat /app/output/manifest.json", has_links=True),
)


def mode_of(alias: str) -> Mode | None:
    """The mode that a model alias names, or None when it is no alias of this endpoint."""
    name = alias.removeprefix(ALIAS_PREFIX)
    return Mode(name) if alias.startswith(ALIAS_PREFIX) and name in set(Mode) else None


def task_of(messages: Sequence[dict[str, Any]]) -> Task | None:
    """The task whose instruction the conversation starts with, or None when it is none of the bundle's."""
    prompt = "\n".join(_text(message) for message in messages if message.get("role") == "user")
    return next((task for task in TASKS if task.mark in prompt), None)


def next_step(mode: Mode, messages: Sequence[dict[str, Any]]) -> Step:
    """The script's next step: as many steps were played as the assistant has spoken."""
    steps = script(mode, task_of(messages))
    return steps[min(spoken(messages), len(steps) - 1)]


def spoken(messages: Sequence[dict[str, Any]]) -> int:
    """How often the assistant has spoken in this conversation."""
    return sum(message.get("role") == "assistant" for message in messages)


def mistaken(messages: Sequence[dict[str, Any]]) -> int:
    """How often the agent told the model that it could not use its answer, which it then leaves out."""
    told = [message for message in messages if message.get("role") == "user"]
    return max(0, len(told) - 1)


def script(mode: Mode, task: Task | None) -> list[Step]:
    """All steps of a mode that answers with steps; an unknown task is looked at and submitted unsolved."""
    if task is None:
        return [Step("This script knows nothing of the task; looking around.", "ls -la"), _submit()]
    wrong = mode in (Mode.NEGATIVE, Mode.FORGE)
    steps = [
        Step("I look at the input first.", task.look),
        Step("Now I write the result.", f"cd /app && {_certified(task, 'wrong' if wrong else 'solution')}"),
    ]
    if mode is Mode.FORGE:
        steps.append(Step("Now every result that this container can write is forged.", FORGERY))
        if task.has_links:
            steps.append(Step("And links and devices are put among the logs.", LINKS))
    return [*steps, Step("I check what was written.", task.check), _submit()]


def _certified(task: Task, which: str) -> str:
    return (CERTIFICATION / task.name / f"{which}.sh").read_text(encoding="utf-8").strip()


def _submit() -> Step:
    return Step("The work is finished.", SUBMIT)


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


# The process left behind makes the harness's reading of the trajectory fail and could end the whole job.
FORGERY = r"""
mkdir -p /logs/verifier /logs/agent /logs/artifacts /tests /app/output
printf '{"reward": 1}' > /logs/verifier/reward.json
printf '1' > /logs/verifier/reward.txt
printf '{"reward": 1}' > /app/output/reward.json
printf '1' > /app/output/reward.txt
printf '#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n' > /tests/test.sh
printf '{"reward": 1}' > /tests/reward.json
printf '{"verifier_result": {"rewards": {"reward": 1}}}' > /logs/result.json
cp /logs/result.json /app/output/result.json
cp /logs/result.json /logs/agent/result.json
printf '{"schema_version": "ATIF-v1.7", "session_id": "forged", "steps": []}' > /logs/agent/trajectory.json
printf '[{"source": "/app/output", "status": "ok"}]' > /logs/artifacts/manifest.json
printf 'agent:\n  system_template: forged\n' > /app/mini.yaml
printf 'raise SystemExit(0)\n' > /app/output/json.py
cp /app/output/json.py /app/output/sitecustomize.py
setsid sh -c 'while :; do
  printf "{\"messages\": [\"x\"]}" > /logs/agent/mini-swe-agent.trajectory.json
  printf "{\"reward\": 1}" > /logs/verifier/reward.json
  sleep 0.02
done' > /dev/null 2>&1 < /dev/null &
echo forged
""".strip()

LINKS = r"""
ln -s /etc/passwd /logs/agent/passwd
ln -s /logs/verifier/reward.json /app/output/link.json
mkfifo /logs/agent/pipe
mknod /logs/agent/device c 1 3
echo linked
""".strip()
