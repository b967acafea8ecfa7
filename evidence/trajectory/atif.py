"""Steps of a trajectory in the Agent Trajectory Interchange Format (1.0 to 1.8): one per entry."""

import re
from typing import Any

from evidence.trajectory.steps import Call, Fields, Metrics, Result, Step, pair
from evidence.trajectory.text import plain, shown

LIST_KEY = "steps"
VERSIONS = tuple(f"ATIF-v1.{minor}" for minor in range(9))
SOURCES = ("system", "user", "agent")
_RETURN_CODE = re.compile(r'\s*(?:\{\s*"returncode":\s*|<returncode>\s*)(-?\d{1,9})')


def atif_step(entry: Any) -> Step:
    problems: list[str] = []
    step = Fields(entry, problems, "step")
    source = step.text("source")
    if source not in SOURCES:
        problems.append("unknown_source")
    calls = [_call(Fields(call, problems, "tool_call")) for call in step.items("tool_calls")]
    observation = step.below("observation")
    results = [_result(Fields(item, problems, "result")) for item in observation.items("results")]
    paired, left, unpaired = pair(calls, results)
    reasoning = step.value.get("reasoning_content")
    return Step(
        source=source if source in SOURCES else "unknown",
        message=shown(step.value.get("message")),
        reasoning=shown(reasoning) if reasoning else None,
        calls=paired,
        results=left,
        metrics=_metrics(step),
        at=step.text("timestamp"),
        model=step.text("model_name"),
        step_id=_step_id(step.value.get("step_id")),
        copied=step.flag("is_copied_context"),
        problems=tuple(problems + unpaired),
        is_answer=source == "agent" and step.value.get("llm_call_count") != 0,
    )


def _call(call: Fields) -> Call:
    arguments = call.value.get("arguments")
    if not isinstance(arguments, dict):
        call.problems.append("tool_call.arguments")
    command = arguments.get("command") if isinstance(arguments, dict) and len(arguments) == 1 else None
    return Call(
        name=call.text("function_name") or "not recorded",
        arguments=shown(command if isinstance(command, str) else arguments),
        call_id=call.text("tool_call_id"),
    )


def _result(result: Fields) -> Result:
    content = result.value.get("content")
    return Result(text=shown(content), call_id=result.text("source_call_id"), returncode=return_code(plain(content)))


def return_code(text: str) -> int | None:
    """The return code with which the agent begins what it tells the model of a command."""
    code = _RETURN_CODE.match(text[:200])
    return int(code[1]) if code else None


def _metrics(step: Fields) -> Metrics | None:
    """The step's metrics. A cost of 0 beside tokens is how unknown cost is written."""
    if step.value.get("metrics") is None:
        return None
    metrics = step.below("metrics")
    cost = metrics.amount("cost_usd")
    return Metrics(
        metrics.count("prompt_tokens"), metrics.count("completion_tokens"), metrics.count("cached_tokens"), cost or None
    )


def _step_id(value: Any) -> str | None:
    return plain(value)[:40] if isinstance(value, int | str) else None
