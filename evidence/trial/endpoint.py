"""What the model endpoint answered to one trial, by the gateway's ledger.

The ledger is written outside every container, so the endpoint's classes of failure come from here and from
nowhere else. What the gateway itself refused never chooses a class: an agent can provoke a refusal (design 5). Only
where it refused the endpoint's own words is the refusal a fault of ours. That a conversation outgrew the model's
context window is no failure of the endpoint.
"""

from dataclasses import dataclass

from runs.documents.ledger import LedgerRequest, TrialLedger


@dataclass(frozen=True, slots=True)
class EndpointFailure:
    """An answer that is no completion: the code it leads to, the endpoint's HTTP status if there was one (of an error
    inside a 2xx the status that it stands for), and for people in which way it is none."""

    code: str
    status: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class EndpointFacts:
    """One trial's requests. `last_failure` is the last answer of the endpoint that was no completion;
    `ended_on_failure` says that nothing better came after it. Tokens are None when a completion lacks them.

    `cut` and `model_refusals` count completions, `context_overflows` answers that the conversation is too long, and
    `incompatible` what the gateway refused of the endpoint's own words; `refusals` counts the other refusals.
    """

    completions: int = 0
    failures: int = 0
    refusals: int = 0
    session_mismatches: int = 0
    last_failure: EndpointFailure | None = None
    ended_on_failure: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cut: int = 0
    model_refusals: int = 0
    context_overflows: int = 0
    incompatible: int = 0


def endpoint_facts(ledger: TrialLedger) -> EndpointFacts:
    answers = [request for request in ledger.requests if request.kind != "refused"]
    overflows = [request for request in answers if request.code == CONTEXT_WINDOW]
    failures = [request for request in answers if not request.is_completion and request.code != CONTEXT_WINDOW]
    incompatible = sum(count for code, count in ledger.refused.items() if code.startswith(OWN_WORDS))
    return EndpointFacts(
        completions=len(ledger.completions),
        failures=len(failures),
        refusals=sum(ledger.refused.values()) - incompatible,
        session_mismatches=sum(request.session_matches is False for request in ledger.requests),
        last_failure=_failure(failures[-1]) if failures else None,
        ended_on_failure=bool(answers) and bool(failures) and answers[-1] is failures[-1],
        prompt_tokens=_total([request.prompt_tokens for request in ledger.completions]),
        completion_tokens=_total([request.completion_tokens for request in ledger.completions]),
        cut=sum(request.was_cut for request in ledger.completions),
        model_refusals=sum(request.model_refused for request in ledger.completions),
        context_overflows=len(overflows),
        incompatible=incompatible,
    )


def _total(counts: list[int | None]) -> int | None:
    """The sum when every completion reported its count; a part of it would be a wrong number."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


# Codes of the gateway: the conversation outgrew the context window, and a refusal of the endpoint's own words.
CONTEXT_WINDOW = "context_window"
OWN_WORDS = "endpoint_words."

# In which way an answer is no completion, by the gateway's code; before version 3 a ledger did not say.
WHY_MALFORMED = {
    "empty": "its body is empty",
    "html": "it is a page of HTML, as a proxy sends one",
    "text_before_json": "other text stands before its JSON, such as a proxy's banner",
    "not_json": "it is no JSON",
    "cut": "it ends in the middle",
    "event_stream": "it is a stream of events although none was asked for",
    "event_stream_cut": "it is a stream of events, and without its end",
    "compressed": "it is compressed although no compression was asked for",
    "encoding": "it is not valid UTF-8",
    "duplicate_key": "its JSON names a key twice",
    "nesting": "its JSON is nested too deeply or has too many parts",
    "too_large": "it is larger than a completion can be",
    "not_http": "it is no HTTP",
    "not_an_object": "its JSON is no object",
    "no_choice": "it holds no choice",
    "no_message": "its choice holds no message",
    "no_model": "it names no model",
    "role": "its message is not the assistant's",
    "content": "its message's content is neither text nor a list of parts",
    "tool_calls": "its message's tool calls are no list",
    "tool_call": "a tool call has no function with a name and arguments",
    "tool_call_id": "a tool call's id is no text of at most 4 KiB",
}
_BY_KIND = {"wrong_model": "routing.wrong_model", "malformed": "serving_runtime.malformed"}
_BY_CODE = {
    "unreachable": "routing.unreachable",
    "tls": "routing.tls",
    "address_refused": "routing.address_refused",
    "timeout": "serving_runtime.timeout",
    "too_large": "serving_runtime.unreadable",
    "bad_encoding": "serving_runtime.unreadable",
}
_WITHHELD = frozenset({"compressed", "cut", "not_http"})


def _failure(request: LedgerRequest) -> EndpointFailure:
    why = WHY_MALFORMED.get(request.code or "")
    if why and (request.kind == "malformed" or request.code in _WITHHELD):
        return EndpointFailure("serving_runtime.malformed_answer", request.status, why)
    if request.code == "error_in_success":
        status = request.said_status or None
        code = "serving_runtime.error_in_success" if status is None else _by_status(status)
        return EndpointFailure(code, status)
    code = _BY_KIND.get(request.kind) or _BY_CODE.get(request.code or "") or _by_status(request.status)
    return EndpointFailure(code, request.status)


def _by_status(status: int | None) -> str:
    """The code of an HTTP status that is not 2xx: who must act decides the class."""
    match status:
        case 401 | 403:
            return "authentication.rejected"
        case 404:
            return "routing.not_found"
        case 429:
            return "serving_runtime.rate_limited"
        case int() if status < 400:
            return "routing.redirected"
        case _:
            return "serving_runtime.upstream_status"
