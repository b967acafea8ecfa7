"""Facts of invented trials: one that passes, and for each code and row of the classifier one that it decides."""

from dataclasses import replace

from evidence.reading.proofs import Proof
from evidence.reading.rewards import Reward, RewardState
from evidence.trial.budgets import BudgetEnd
from evidence.trial.endpoint import EndpointFacts, EndpointFailure
from evidence.trial.facts import (
    AgentFacts,
    Deadline,
    OutputFacts,
    OwnFailure,
    Resources,
    Timing,
    TrialFacts,
    VerifierFacts,
)
from runs.outcomes.codes import CODES

PASSING = TrialFacts(
    trial=1,
    task="task-1",
    checks=(
        Proof("a", "integrity.spec_mismatch", True),
        Proof("b", "invalid_evaluation.install_only", True),
    ),
    proofs=(Proof("c", "invalid_evaluation.proof_missing", True),),
    endpoint=EndpointFacts(completions=3),
    agent=AgentFacts(ended=True, exit_code=0),
    resources=Resources(available=True),
    verifier=VerifierFacts(ended=True, exit_code=0, terminal=True),
    reward=Reward(RewardState.ONE),
)
# A code that no row gives: an operator's word about a host, written without the classifier.
UNJUDGED = "worker_runtime.host_lost"
PLACES = [(code.name, row) for code in CODES.values() for row in code.rows if code.name != UNJUDGED]
_AGENT_FAILED = replace(PASSING.agent, exit_code=1)


def facts_of(code: str, row: int) -> TrialFacts:
    """The passing trial with the one change that makes this row give this code."""
    word = code.partition(".")[2]
    match row:
        case 1 | 2:
            return replace(PASSING, checks=(*PASSING.checks, Proof("x", code, False)))
        case 3:
            return replace(PASSING, cancel=Timing.BEFORE_GRADE)
        case 4:
            return replace(
                PASSING,
                interrupted=word == "interrupted",
                process_lost=word == "process_lost",
                started=word != "not_started",
            )
        case 5:
            return replace(PASSING, own_failures=(OwnFailure(code),))
        case 6:
            if not word.endswith("_deadline"):
                return replace(PASSING, budget=BudgetEnd(code, "the run's budget of 5 tokens"))
            return replace(PASSING, deadline=Deadline(word.removesuffix("_deadline"), 300))
        case 7 if word == "not_ready":
            return replace(PASSING, own_failures=(OwnFailure(code),), started=False)
        case 7:
            failure = EndpointFailure(code, 500)
            return replace(PASSING, endpoint=EndpointFacts(failures=1, last_failure=failure, ended_on_failure=True))
        case 8:
            exhausted = {"memory": {"oom_kills": 1}, "pids": {"pids_limit_hits": 1}, "disk": {"tmpfs_full": True}}
            return replace(PASSING, agent=_AGENT_FAILED, resources=Resources(available=True, **exhausted[word]))
        case 9 if word == "no_agent_end":
            return replace(PASSING, agent=AgentFacts())
        case 9 if word == "no_completion":
            return replace(PASSING, endpoint=EndpointFacts())
        case 9:
            return replace(PASSING, proofs=(*PASSING.proofs, Proof("p", code, False)))
        case 10 if word == "output_refused":
            return replace(PASSING, output=OutputFacts("output.too_large"))
        case 10 if word == "verifier_transfer":
            return replace(PASSING, verifier=replace(PASSING.verifier, bad_transfers=("verifier_logs: refused",)))
        case 10 if word == "verifier_exit":
            return replace(PASSING, verifier=replace(PASSING.verifier, exit_code=3))
        case 10 if word == "verifier_not_run":
            return replace(PASSING, verifier=VerifierFacts())
        case 12:
            return replace(PASSING, reward=Reward(RewardState.ONE if word == "reward_1" else RewardState.ZERO))
        case _:
            return replace(PASSING, reward=Reward(RewardState(word)))
