"""What the run's own record and its journal say of the whole run: what was proved before its trials, what it owned.

Every check that did not hold, every container too many and every one that is missing is a difference, because a run in
which all went well has none of them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from evidence.reading.observed import AGENT, Observed
from evidence.reading.proofs import Proof, at, mapping, sequence
from evidence.trial.container_checks import SESSION_ENDS
from runs.checks.readiness import ANSWER, CREDENTIAL, MODEL, REACHED, refuses_start
from runs.documents.run_spec import RunSpec
from runs.ownership.document import JournalDocument, Role

_JOURNAL = "integrity.journal_differs"
_UNPROVED = "invalid_evaluation.proof_missing"
# Since this version of the evidence a run's record holds the worker's checks and the endpoint's readiness.
RECORDED_SINCE = 2
PROBED = frozenset(
    {
        "default_gateway", "host_address", "network_gateway", "gateway_outer_leg", "ipv6", "outside_address",
        "name_lookup", "gateway_reached",
    }
)  # fmt: skip
ASKED = frozenset({REACHED, CREDENTIAL, ANSWER, MODEL})
# Of the worker's checks these stand in every run; others depend on the worker and its engine.
PREPARED = frozenset({"harness", "interpreter", "images", "engine", "sandbox", "limit memory", "limit no_network"})


def journal_checks(document: dict[str, Any], journal: JournalDocument | None, spec: RunSpec) -> list[Proof]:
    """What the run owned is what such a run owns, and was fenced before it ended."""
    problems = list(_problems(document, journal, spec)) if journal is not None else []
    return [Proof("journal.resources", _JOURNAL, not problems, "; ".join(problems[:5]))]


def _problems(document: dict[str, Any], journal: JournalDocument, spec: RunSpec) -> Iterator[str]:
    intents = [resource.intent for resource in journal.resources]
    count = Counter(intent.role for intent in intents)
    trials = {task.ordinal for task in spec.tasks}
    ran = [intent for intent in intents if intent.role.value in SESSION_ENDS]
    if document.get("ended_at") is not None and journal.fence is None:
        yield "no fence"
    if ran and count[Role.GATEWAY] != 1:
        yield f"{count[Role.GATEWAY]} gateways"
    if ran and count[Role.NETWORK] != 2:
        yield f"{count[Role.NETWORK]} networks"
    if ran and not any(intent.role is Role.PROBE and intent.session_id is None for intent in intents):
        yield "no probe of the network"
    if any(intent.trial not in trials for intent in ran):
        yield "a container of no trial"
    if any(intent.trial is not None for intent in intents if intent.role.value not in SESSION_ENDS):
        yield "a trial's container that serves the run"
    if any(None in (intent.session_id, intent.trial_uuid, intent.image_id) for intent in ran):
        yield "a container without session, id or image"
    if any(not (intent.session_id or "").endswith(SESSION_ENDS[intent.role.value]) for intent in ran):
        yield "a container of another session"
    if any(process.trial not in trials for process in journal.processes):
        yield "a process of no trial"


def owned_check(journal: JournalDocument | None, observed: Observed, trial: int) -> Proof:
    """The trial's containers are those that its record opened, and went away as it says.

    A verifier that was made ready while the agent ran is removed when the agent is stopped; another takes its place.
    """
    if journal is None:
        return Proof("journal.trial", _JOURNAL, True)
    own = [each for each in journal.resources if each.intent.trial == trial and each.resource_id is not None]
    stopped = any(command.role == AGENT and not command.ended for command in observed.execs)
    most = {Role.AGENT: 1, Role.VERIFIER: 2 if stopped or observed.failures else 1}
    made = Counter(each.intent.role for each in own)
    problems = [f"{made[role]} {role.value}s" for role, allowed in most.items() if made[role] > allowed]
    opened = {each.role: each.container_id for each in observed.opened}
    for removed in observed.removed:
        theirs = [each for each in own if each.resource_id == opened.get(removed.role)]
        gone = removed.outcome in ("removed", "absent")
        if any(each.settled and each.attempts < (1 if gone else 2) for each in theirs):
            problems.append(f"{removed.role}: removed by nobody")
        if removed.outcome == "foreign" or (gone and any(not each.settled for each in theirs)):
            problems.append(f"{removed.role}: not removed")
    if sum(process.trial == trial for process in journal.processes) > 2:
        problems.append("more than two processes")
    return Proof("journal.trial", _JOURNAL, not problems, "; ".join(problems))


def prepared_proofs(document: dict[str, Any], spec: RunSpec) -> tuple[Proof, ...]:
    """Before any agent started, the worker proved itself, a probe showed that the run's network reaches nothing but the
    gateway (design 3.5), and the endpoint was ready; and the run came to an end."""
    recorded = spec.evidence_version >= RECORDED_SINCE
    probe = mapping(document.get("probe"))
    seen = {str(at(check, "name")) for check in sequence(probe.get("checks"))}
    passed = [at(check, "passed") is True for check in sequence(probe.get("checks"))]
    return (
        Proof(
            "proof.confined",
            _UNPROVED,
            probe.get("passed") is True and all(passed) and len(passed) == len(seen) and seen == PROBED,
            "no egress probe that passed",
        ),
        Proof(
            "proof.preflight",
            _UNPROVED,
            _held(document.get("preflight"), PREPARED, lambda check: check.get("name") in PREPARED, recorded=recorded),
            "no preflight that passed",
        ),
        Proof(
            "proof.ready",
            _UNPROVED,
            _held(
                at(document, "readiness", "checks"),
                ASKED,
                lambda check: refuses_start(str(check.get("code"))),
                recorded=recorded,
            ),
            "the endpoint was not ready",
        ),
        Proof("proof.gateway", _UNPROVED, document.get("gateway") is not None, "no gateway was recorded"),
        Proof("proof.ended", _UNPROVED, document.get("ended_at") is not None, "the run's end was not recorded"),
    )


def _held(checks: Any, needed: frozenset[str], refuses: Callable[[Mapping[str, Any]], bool], *, recorded: bool) -> bool:
    """Whether each of these stands there and none refuses the start; of a version that wrote none, nothing is asked.

    One that failed refuses it by its level, and also when it `refuses` although it is called a note.
    """
    if checks is None and not recorded:
        return True
    found = [mapping(check) for check in sequence(checks)]
    failed = [check for check in found if check.get("passed") is not True]
    refused = any(check.get("level") == "block" or refuses(check) for check in failed)
    return needed <= {check.get("name") for check in found} and not refused
