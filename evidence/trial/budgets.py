"""Which budget ended a trial, and whether ledger, spec and the run's record agree about budgets. Pure.

The gateway refuses the next request once a budget is reached. Its word alone would let anybody turn a failure into a
trial that was not evaluated, and a missing refusal would let a run go on past its budget: so each refusal and each
request is held against what the ledger's own lines used up to it.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from evidence.reading.proofs import Proof, at
from runs.documents.ledger import LedgerReport, LedgerRequest, TrialLedger
from runs.documents.run_spec import RunSpec
from runs.documents.spending import OF_THE_RUN, OVER_RUNS, Budget, Left, budget_words, pico

REFUSED = "budget."
RATE_LIMIT = "rate_limit"
_CODE = "integrity.budget_differs"


@dataclass(frozen=True, slots=True)
class BudgetEnd:
    """The budget that ended a trial or kept it from starting: a class code, and which one it was in words."""

    code: str
    why: str = ""


def budget_end(spec: RunSpec, document: dict[str, Any], asked: TrialLedger, *, started: bool) -> BudgetEnd | None:
    """What of the gateway's budgets and pace ended this trial; None when none did."""
    reached = next((code for code in sorted(asked.refused) if code.startswith(REFUSED)), None)
    if reached is None and not started:
        reached = at(document, "budgets", "reached")
    if isinstance(reached, str):
        return BudgetEnd("incomplete.budget", budget_words(reached, spec.endpoint.budgets, spec.endpoint.prices))
    return BudgetEnd("incomplete.rate_limit") if asked.refused.get(RATE_LIMIT) else None


def budget_check(ledger: LedgerReport, spec: RunSpec, document: dict[str, Any]) -> Proof:
    """Nobody went on past a budget, and nobody was refused for one that there is not or that was not reached."""
    lines = sorted((line for asked in ledger.trials.values() for line in asked.requests), key=lambda line: line.seq)
    refused = {code for asked in ledger.trials.values() for code in asked.refused if code.startswith(REFUSED)}
    caps = _caps(spec, document)
    problem = ""
    if spec.endpoint.limits is None and any(asked.refused.get(RATE_LIMIT) for asked in ledger.trials.values()):
        problem = "a request was refused for its pace, and the spec limits none"
    elif refused - {f"{REFUSED}{scope}_{measure}" for scope, left in caps.items() for measure in _measures(left)}:
        problem = "a request was refused for a budget that the spec does not have"
    elif _reached_without_budget(document, caps):
        problem = "the record says that a budget was reached that the spec does not have"
    elif caps:
        problem = _course_problem(lines, caps, spec)
    return Proof("ledger.budget", _CODE, not problem, problem)


def _course_problem(lines: list[LedgerRequest], caps: dict[str, Left], spec: RunSpec) -> str:
    tokens: Counter[int | None] = Counter()
    money: Counter[int | None] = Counter()
    ended: list[LedgerRequest] = []
    for line in lines:
        # Of requests that overlap neither waits for the other: only what had ended when it went out counts.
        begun = datetime.fromisoformat(line.at) - timedelta(milliseconds=line.duration_ms)
        while ended and line.reached_endpoint and datetime.fromisoformat(ended[0].at) <= begun:
            _add(tokens, money, ended.pop(0), spec)
        if not line.reached_endpoint and (line.code or "").startswith(REFUSED):
            while ended:
                _add(tokens, money, ended.pop(0), spec)
            scope, _, measure = (line.code or "").removeprefix(REFUSED).partition("_")
            whose, cap = line.trial if scope == "trial" else None, caps[scope]
            used, most = (tokens[whose], cap.tokens) if measure == "tokens" else (money[whose], cap.money)
            if most is not None and used < most:
                return "a request was refused for a budget that was not reached"
        if line.reached_endpoint:
            for scope, cap in caps.items():
                whose = line.trial if scope == "trial" else None
                over = cap.tokens is not None and tokens[whose] >= cap.tokens
                if over or (cap.money is not None and money[whose] >= cap.money):
                    return "a request went out after a budget was reached"
            ended.append(line)
    return ""


def _add(tokens: Counter[int | None], money: Counter[int | None], line: LedgerRequest, spec: RunSpec) -> None:
    usage, prices = line.usage, spec.endpoint.prices
    cost = 0 if prices is None else prices.cost(usage.prompt, usage.cached, usage.completion)
    for whose in (line.trial, None):
        tokens[whose] += usage.tokens
        money[whose] += cost


def _caps(spec: RunSpec, document: dict[str, Any]) -> dict[str, Left]:
    """What the gateway was told, as far as spec and record say it."""
    caps = {scope: Left.of(budget) for scope in OF_THE_RUN if (budget := _budget(spec, scope)) is not None}
    for scope in OVER_RUNS:
        if (budget := _budget(spec, scope)) is None:
            continue
        told = at(document, "budgets", "left", scope)
        tokens, money = at(told, "tokens"), at(told, "money")
        caps[scope] = Left(
            min(budget.tokens, tokens) if budget.tokens is not None and isinstance(tokens, int) else budget.tokens,
            None if budget.money is None else min(pico(budget.money), pico(money)) if money else pico(budget.money),
        )
    return caps


def _budget(spec: RunSpec, scope: str) -> Budget | None:
    budgets = spec.endpoint.budgets
    return None if budgets is None else budgets.of(scope)


def _measures(left: Left) -> list[str]:
    return [name for name, value in (("tokens", left.tokens), ("money", left.money)) if value is not None]


def _reached_without_budget(document: dict[str, Any], caps: dict[str, Left]) -> bool:
    reached = at(document, "budgets", "reached")
    if not isinstance(reached, str):
        return False
    scope, _, measure = reached.removeprefix(REFUSED).partition("_")
    return scope not in caps or measure not in _measures(caps[scope])
