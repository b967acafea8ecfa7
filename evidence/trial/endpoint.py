"""What the model endpoint answered to one trial, by the gateway's ledger.

The ledger is written outside every container, so the endpoint's classes of failure come from here and from
nowhere else. What the gateway itself refused never chooses a class: an agent can provoke a refusal (design 5).
"""

from dataclasses import dataclass

from runs.documents.ledger import LedgerRequest, TrialLedger


@dataclass(frozen=True, slots=True)
class EndpointFailure:
    """An answer that is no completion: the code it leads to, and the endpoint's HTTP status if there was one."""

    code: str
    status: int | None = None


@dataclass(frozen=True, slots=True)
class EndpointFacts:
    """One trial's requests. `last_failure` is the last answer of the endpoint that was no completion;
    `ended_on_failure` says that nothing better came after it. Tokens are None when a completion lacks them."""

    completions: int = 0
    failures: int = 0
    refusals: int = 0
    session_mismatches: int = 0
    last_failure: EndpointFailure | None = None
    ended_on_failure: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


def endpoint_facts(ledger: TrialLedger) -> EndpointFacts:
    answers = [request for request in ledger.requests if request.kind != "refused"]
    failures = [request for request in answers if not request.is_completion]
    return EndpointFacts(
        completions=len(ledger.completions),
        failures=len(failures),
        refusals=sum(ledger.refused.values()),
        session_mismatches=sum(request.session_matches is False for request in ledger.requests),
        last_failure=_failure(failures[-1]) if failures else None,
        ended_on_failure=bool(answers) and not answers[-1].is_completion,
        prompt_tokens=_total([request.prompt_tokens for request in ledger.completions]),
        completion_tokens=_total([request.completion_tokens for request in ledger.completions]),
    )


def _total(counts: list[int | None]) -> int | None:
    """The sum when every completion reported its count; a part of it would be a wrong number."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


_BY_KIND = {"wrong_model": "routing.wrong_model", "malformed": "serving_runtime.malformed"}
_BY_CODE = {
    "unreachable": "routing.unreachable",
    "tls": "routing.tls",
    "timeout": "serving_runtime.timeout",
    "too_large": "serving_runtime.unreadable",
    "bad_encoding": "serving_runtime.unreadable",
}


def _failure(request: LedgerRequest) -> EndpointFailure:
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
