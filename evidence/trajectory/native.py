"""Steps of mini-swe-agent's own trajectory: one per message, with the results that answer it.

Format `mini-swe-agent-1.x`: `info` and `messages`. A message of the assistant keeps the model's whole answer
in
`extra.response`; an answer that the agent could not use stands in the `extra` of the user message that says so.
"""

from datetime import UTC, datetime
from typing import Any

from evidence.trajectory.steps import Call, Fields, Metrics, Result, Step, pair, parse_entry
from evidence.trajectory.text import plain, shown
from runs.documents.ledger import message_digest

LIST_KEY = "messages"
# Written for calls after the one that ended the run, the submission itself among them: nothing failed there.
_NOT_EXECUTED = "action was not executed"


def opens_step(message: Any, head: Any) -> bool:
    """Whether a message begins a new step, or belongs to the step that `head` began."""
    if not isinstance(message, dict) or not isinstance(head, dict):
        return True
    if message.get("role") == "tool" or message.get("type") == "function_call_output":
        return False
    answers_agent = head.get("role") == "assistant" or head.get("object") == "response"
    return not (message.get("role") == "user" and answers_agent and _response(message) is None)


def native_step(messages: list[Any]) -> Step:
    """The step of a message and the messages that answer it."""
    problems: list[str] = []
    head = Fields(messages[0] if messages else None, problems, "message")
    results = [_result(Fields(message, problems, "result")) for message in messages[1:]]
    response = _response(head.value)
    role = head.text("role")
    if response is not None and role == "user":
        # An answer that the agent could not use: what the model said, and what the agent told it.
        said = _first_message(response) or {}
        fields = Fields(said, problems, "message")
        return Step(
            source="agent",
            message=shown(said.get("content")),
            calls=tuple(_call(Fields(call, problems, "tool_call")) for call in fields.items("tool_calls")),
            results=(Result(shown(head.value.get("content"))),),
            metrics=_metrics(response, problems),
            at=_at(head),
            model=_text(response, "model"),
            problems=(*problems, "format_error"),
            is_answer=True,
            digests=digests_of(said),
        )
    if role == "assistant" or head.value.get("object") == "response":
        return _answer(head, response, results, problems)
    extra = head.below("extra")
    return Step(
        source=role if role in ("system", "user", "exit") else "unknown",
        message=shown(head.value.get("content")),
        results=tuple(results),
        at=_at(head),
        exit_status=extra.text("exit_status") if role == "exit" else None,
        problems=tuple(problems if role in ("system", "user", "exit") else [*problems, "unknown_role"]),
    )


def _answer(head: Fields, response: dict[str, Any] | None, results: list[Result], problems: list[str]) -> Step:
    calls = [_call(Fields(call, problems, "tool_call")) for call in head.items("tool_calls")]
    paired, left, unpaired = pair(calls, results)
    said = _first_message(response)
    digests = digests_of(head.value)
    if said is not None and not set(digests) & set(digests_of(said)):
        problems.append("differs_from_its_own_response")
        digests = ()
    reasoning = head.value.get("reasoning_content")
    return Step(
        source="agent",
        message=shown(head.value.get("content")),
        reasoning=shown(reasoning) if reasoning else None,
        calls=paired,
        results=left,
        metrics=_metrics(response, problems),
        at=_at(head),
        model=_text(response, "model"),
        problems=tuple(problems + unpaired),
        is_answer=True,
        digests=digests,
    )


def _call(call: Fields) -> Call:
    function = call.below("function")
    return Call(
        name=function.text("name") or "not recorded", arguments=shown(_command(function)), call_id=call.text("id")
    )


def _command(function: Fields) -> Any:
    """The command of a call of the one tool there is; other arguments as they were written."""
    written = function.value.get("arguments")
    try:
        arguments = parse_entry(written.encode("utf-8", "surrogatepass")) if isinstance(written, str) else written
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        function.problems.append("tool_call.arguments")
        return written
    command = arguments.get("command")
    return command if isinstance(command, str) and len(arguments) == 1 else arguments


def _result(message: Fields) -> Result:
    extra = message.below("extra")
    exception = extra.value.get("exception_info")
    code = extra.value.get("returncode")
    output = next((v for v in (extra.text("raw_output"), *map(message.value.get, ("content", "output"))) if v), None)
    executed = exception != _NOT_EXECUTED
    return Result(
        text=shown(output if executed else "This call was not executed."),
        call_id=message.text("tool_call_id") or message.text("call_id"),
        returncode=code if executed and type(code) is int else None,
        exception=shown(exception) if exception and executed else None,
    )


def digests_of(message: dict[str, Any]) -> tuple[str, ...]:
    """What the gateway may have recorded for this message; nothing when it is not an assistant's message.

    litellm takes a leading `<think>` block out of the content, so the content is also tried with it. It makes up the id
    of a call that the endpoint gave none, so the calls are also tried without.
    """
    content, reasoning = message.get("content"), message.get("reasoning_content")
    written = message.get("tool_calls")
    calls = [_triple(call) for call in written if isinstance(call, dict)] if isinstance(written, list) else []
    if not isinstance(content, str | None):
        return ()
    wrapped = [f"<{tag}>{reasoning}</{tag}>{content or ''}" for tag in ("think", "thinking")]
    candidates = [content, *(wrapped if isinstance(reasoning, str) else [])]
    try:
        nameless: list[tuple[str | None, str, str]] = [(None, name, arguments) for _, name, arguments in calls]
        return tuple(message_digest(text, form) for text in candidates for form in (calls, nameless)[: 1 + bool(calls)])
    except (TypeError, ValueError):
        return ()


def _triple(call: dict[str, Any]) -> tuple[str | None, str, str]:
    function = call.get("function")
    inner = function if isinstance(function, dict) else {}
    return call.get("id"), inner.get("name", ""), inner.get("arguments", "")


def _response(message: dict[str, Any]) -> dict[str, Any] | None:
    extra = message.get("extra")
    response = extra.get("response") if isinstance(extra, dict) else None
    return response if isinstance(response, dict) else None


def _first_message(response: dict[str, Any] | None) -> dict[str, Any] | None:
    choices = response.get("choices") if response else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    return message if isinstance(message, dict) else None


def _metrics(response: dict[str, Any] | None, problems: list[str]) -> Metrics | None:
    usage = Fields((response or {}).get("usage"), problems, "usage")
    if not usage.value:
        return None
    details = usage.below("prompt_tokens_details")
    return Metrics(usage.count("prompt_tokens"), usage.count("completion_tokens"), details.count("cached_tokens"))


def _at(message: Fields) -> str | None:
    stamp = message.below("extra").value.get("timestamp")
    if isinstance(stamp, int | float) and not isinstance(stamp, bool) and 0 < stamp < 2**33:
        return datetime.fromtimestamp(stamp, UTC).isoformat()
    return None


def _text(response: dict[str, Any] | None, key: str) -> str | None:
    value = (response or {}).get(key)
    return plain(value)[:200] if isinstance(value, str) else None
