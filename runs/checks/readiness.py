"""Readiness of a model endpoint: one question on the run's own path, and what its answer proves. Pure.

The gateway answers `GET /v1/models` itself, which proves nothing of the endpoint (gateway.md), so the question is one
short chat completion with the very fields that the agent sends: an endpoint that takes no tools is found out before any
trial. Its token is that of a trial which no run has, so that its ledger line is nobody's proof.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runs.checks.check import Check, Level

# The scripted endpoint knows this sentence: it answers well and fails later, unless it is told to fail at once.
PROMPT = "This only asks whether you are ready. Answer with the one word: ready"
# As mini-swe-agent 2.4.6 sends them.
SYSTEM = "You are a helpful assistant that can interact with a computer."
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Execute a bash command",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "The bash command to execute"}},
            "required": ["command"],
        },
    },
}
# Longer than a loaded model needs for one word. What is slower is noted, and its trials' own limits decide.
SECONDS = 5.0

REACHED, CREDENTIAL, ANSWER, MODEL = "endpoint reached", "endpoint credential", "endpoint answer", "endpoint model"
AUTHENTICATION, ROUTING, SERVING_RUNTIME = "authentication", "routing", "serving_runtime"
ENDPOINT_CLASSES = frozenset({AUTHENTICATION, ROUTING, SERVING_RUNTIME})
_OURS = "worker_runtime"

_HOLDS = {
    REACHED: ("endpoint.reachable", "The gateway reached the endpoint on the declared route."),
    CREDENTIAL: ("endpoint.authenticated", "The endpoint answered a request that carried its credential."),
    ANSWER: ("endpoint.answered", "The answer is a well-formed completion."),
    MODEL: ("endpoint.model_present", "The answer names the model of the record."),
}
_UNPROVED = {
    REACHED: "endpoint.reach_not_proved",
    CREDENTIAL: "endpoint.auth_not_proved",
    ANSWER: "endpoint.answer_not_proved",
    MODEL: "endpoint.model_not_listed",
}
_NO_CREDENTIAL = "The endpoint's record names no credential, and the endpoint asked for none."
_ASKS_FOR_ONE = "The endpoint asks for a credential (status {status}), and its record names none."
_TRIED_NO_FURTHER = "This could not be proved: {reason}."


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of the question. `kind`, `code` and `status` are those of the gateway's ledger line; `error` is what
    the endpoint's error body said in lower case, used to tell a missing model from a wrong path and never shown.
    """

    kind: str
    code: str | None = None
    status: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """A way in which the question fails: which check, whose class of failure, what else it proves, in words."""

    check: str
    failure_class: str
    proved: tuple[str, ...]
    detail: str
    remedy: str
    required: bool = True


_OUTCOMES = {
    "endpoint.not_asked": _Outcome(
        REACHED, _OURS, (), "The gateway did not record the question.",
        "Look at the load of this worker, and try again.",
    ),
    "endpoint.unreachable": _Outcome(
        REACHED, ROUTING, (), "The gateway got no connection to the endpoint, or it broke without a word.",
        "Start the endpoint, and check base URL, route and what lies between it and this worker's containers.",
    ),
    "endpoint.address_refused": _Outcome(
        REACHED, ROUTING, (), "The base URL's name leads to an address that the gateway may not connect to.",
        "Correct the name or its DNS. For a private address the record must say so (private_addresses), and where the "
        "worker has a list (BENCHSITE_GATEWAY_ADDRESSES) that too; link-local and metadata addresses are never used.",
    ),
    "endpoint.tls_failed": _Outcome(
        REACHED, ROUTING, (), "The endpoint's TLS certificate could not be verified.",
        "Use a certificate that names the base URL's host, of a public authority or of the record's own CA file.",
    ),
    "endpoint.redirected": _Outcome(
        REACHED, ROUTING, (), "The endpoint redirects (status {status}), which is never followed.",
        "Register the address that it leads to.",
    ),
    "endpoint.auth_refused": _Outcome(
        CREDENTIAL, AUTHENTICATION, (REACHED,), "The endpoint refused the credential (status {status}).",
        "Correct what the worker's variable or file holds, or name another one in the endpoint's record.",
    ),
    "endpoint.path_not_found": _Outcome(
        ANSWER, ROUTING, (REACHED,), "The endpoint has no chat completions below the base URL (status {status}).",
        "Correct the base URL; for most servers it ends with /v1.",
    ),
    "endpoint.rate_limited": _Outcome(
        ANSWER, SERVING_RUNTIME, (REACHED,), "The endpoint answered: too many requests (status {status}).",
        "Wait, or ask for a higher limit.",
    ),
    "endpoint.not_ready": _Outcome(
        ANSWER, SERVING_RUNTIME, (REACHED,), "The endpoint cannot serve now (status {status}).",
        "Look at the endpoint's own log; start again when it serves.",
    ),
    "endpoint.request_refused": _Outcome(
        ANSWER, SERVING_RUNTIME, (REACHED,), "The endpoint refused a request as the agent sends it (status {status}).",
        "Check that it takes tools and the controls that its record declares, max_tokens above all.",
    ),
    "endpoint.wrong_content": _Outcome(
        ANSWER, SERVING_RUNTIME, (REACHED,), "What the endpoint answered is no chat completion that can be read.",
        "Check that an OpenAI-compatible chat endpoint is served there, without compression.",
    ),
    "endpoint.credential_echoed": _Outcome(
        ANSWER, SERVING_RUNTIME, (REACHED,), "The endpoint's answer contained its own credential, and was withheld.",
        "Do not use this endpoint before that is mended, and change the credential.",
    ),
    "endpoint.slow": _Outcome(
        ANSWER, SERVING_RUNTIME, (), f"No answer came within {SECONDS:g} s.",
        "A model that is being loaded needs more; if this stays so, check what drops packets on the way.",
        required=False,
    ),
    "endpoint.model_absent": _Outcome(
        MODEL, ROUTING, (REACHED, CREDENTIAL, ANSWER), "The endpoint does not serve the model of the record.",
        "Correct the model's alias in the record, or load the model there.",
    ),
    "endpoint.wrong_model": _Outcome(
        MODEL, ROUTING, (REACHED, CREDENTIAL, ANSWER), "The endpoint answered with another model's name.",
        "Correct the alias, or declare the name that it answers with among served_models.",
    ),
}  # fmt: skip
CODES = tuple(_OUTCOMES)


def sentence_and_remedy(code: str) -> tuple[str, str] | None:
    """What happened and what to do, in a person's sentences, of a run that this code ended; None for another code."""
    outcome = _OUTCOMES.get(code)
    return None if outcome is None else (outcome.detail.replace(" (status {status})", ""), outcome.remedy)


_BY_CODE = {
    "unreachable": "endpoint.unreachable",
    "tls": "endpoint.tls_failed",
    "address_refused": "endpoint.address_refused",
    "timeout": "endpoint.slow",
    "client_gone": "endpoint.slow",
    "credential_echoed": "endpoint.credential_echoed",
    "protocol": "endpoint.wrong_content",
    "too_large": "endpoint.wrong_content",
    "bad_encoding": "endpoint.wrong_content",
    "compressed": "endpoint.wrong_content",
    "cut": "endpoint.wrong_content",
    "not_http": "endpoint.wrong_content",
}
_NO_SUCH_MODEL = re.compile(
    r"model_not_found|no such model|(invalid|unknown) model|not a valid model"
    r"|\bmodel\b.{0,160}(not found|not exist|not available|not loaded)",
    re.DOTALL,
)


# The models for which the agent's LiteLLM 1.75.8 sends the limit by its newer name, the only one that they take.
_NEWER = re.compile(
    r".*gpt-5.*|(.*/)?o[134](-mini|-pro|-preview|-deep-research){0,2}(-[0-9]{4}-[0-9]{2}-[0-9]{2})?", re.DOTALL
)


def question(model: str, max_tokens: int, sampling: Mapping[str, int | float]) -> dict[str, Any]:
    """The request's body, with the fields of the agent's first request: `max_tokens` and `sampling` as declared."""
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": PROMPT}]
    limit = "max_completion_tokens" if _NEWER.fullmatch(model) else "max_tokens"
    return {"model": model, "messages": messages, limit: max_tokens, **sampling, "tools": [TOOL]}


def is_question(messages: list[dict[str, Any]]) -> bool:
    """Whether a conversation is this question and nothing else."""
    return [message.get("content") for message in messages] == [SYSTEM, PROMPT]


def judge(answer: Answer | None, *, has_credential: bool) -> list[Check]:
    """The four checks of an answer, None when the gateway recorded none; in the order in which they can fail."""
    code = _outcome(answer)
    return list(_checks(code, None if answer is None else answer.status, has_credential=has_credential))


def failure_class(code: str) -> str:
    """The class that a failed check of this area gives the run's trials (design 5)."""
    return _OUTCOMES[code].failure_class if code in _OUTCOMES else _OURS


def refuses_start(code: str) -> bool:
    """Whether a check that failed with this code refuses a run's start, whatever level it says that it has."""
    return code in _OUTCOMES and _OUTCOMES[code].required


def _outcome(answer: Answer | None) -> str | None:
    """The code of what went wrong; None for a well-formed completion by the declared model."""
    if answer is None:
        return "endpoint.not_asked"
    match answer.kind:
        case "ok":
            return None
        case "wrong_model":
            return "endpoint.wrong_model"
        case "malformed":
            return "endpoint.wrong_content"
        case "refused" if answer.code != "client_gone":
            return "endpoint.not_asked"
    return _BY_CODE.get(answer.code or "") or _by_status(answer.status, answer.error)


def _by_status(status: int | None, error: str) -> str:
    absent = _NO_SUCH_MODEL.search(error) is not None
    match status:
        case 401 | 403:
            return "endpoint.auth_refused"
        case 404:
            return "endpoint.model_absent" if absent else "endpoint.path_not_found"
        case 429:
            return "endpoint.rate_limited"
        case int() if status < 400:
            return "endpoint.redirected"
        case int() if status < 500:
            return "endpoint.model_absent" if absent else "endpoint.request_refused"
    return "endpoint.not_ready"


def _checks(code: str | None, status: int | None, *, has_credential: bool) -> Iterator[Check]:
    outcome = None if code is None else _OUTCOMES[code]
    for name, (holds, detail) in _HOLDS.items():
        if outcome is None or name in outcome.proved:
            said = _NO_CREDENTIAL if name == CREDENTIAL and not has_credential else detail
            yield Check(name, True, holds, said)
        elif name == outcome.check and code is not None:
            level: Level = "block" if outcome.required else "note"
            refused = _ASKS_FOR_ONE if name == CREDENTIAL and not has_credential else outcome.detail
            yield Check(name, False, code, refused.format(status=status), outcome.remedy, level)
        else:
            reason = outcome.detail.format(status=status).rstrip(".")
            reason = reason[:1].lower() + reason[1:]
            yield Check(name, False, _UNPROVED[name], _TRIED_NO_FURTHER.format(reason=reason), level="note")
