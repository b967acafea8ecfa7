"""Whose records these are: folder, run's record, journal, spec and ledger name one run, and the ledger's times fit it.

A chain of hashes proves that a ledger is whole, not whose it is: anybody can copy or compute one. So its first line
names run, spec and the journaled gateway, the run's record names the whole file, and each line lies where only its
trial's agent can have asked. Whether that may be missing is the spec's version to say, never the ledger's.
"""

import math
import re
from dataclasses import replace
from datetime import datetime
from typing import Any

from evidence.reading.clocks import moment
from evidence.reading.observed import AGENT, VERIFIER, Observed
from evidence.reading.proofs import Proof, at
from evidence.trial.budgets import budget_check
from runs.documents.ledger import LedgerReport, TrialLedger
from runs.documents.run_spec import RunSpec
from runs.ownership.document import JournalDocument, Role

# A folder that is called as a site or its export calls it says which run it is; any other name says nothing.
_NAMED = re.compile(r"(?:benchsite-)?([0-9a-f]{32})")
# Since this version of a spec, ledger and run's record name each other.
BOUND_SINCE = 2
# The beginning of a command is counted back from its end by another clock, which is never set.
SLACK_S = 1.0
_FOREIGN, _TIMES = "integrity.ledger_foreign", "integrity.ledger_times"


def run_binding_checks(
    folder_name: str,
    document: dict[str, Any],
    journal: JournalDocument | None,
    spec: RunSpec,
    spec_sha256: str | None,
    ledger: LedgerReport,
) -> list[Proof]:
    """The comparisons of the whole run; `folder_name` is what the folder is called where it lies."""
    run_id, named = document.get("run_id"), _NAMED.fullmatch(folder_name)
    trials = {task.ordinal for task in spec.tasks}
    journaled = _journaled_trials(journal) - trials
    # The number after the last is that of the readiness question, which no trial may have asked (see below).
    asked = set(ledger.trials) - trials - {readiness_number(spec)}
    return [
        Proof(
            "run.folder",
            "integrity.run_identity",
            named is None or named[1] == run_id,
            "the folder is called by another run's id",
        ),
        Proof(
            "journal.trials", "integrity.foreign_trial", not journaled, f"the journal holds trial {_first(journaled)}"
        ),
        Proof("ledger.trials", "integrity.foreign_trial", not asked, f"the ledger holds trial {_first(asked)}"),
        Proof("ledger.api", _FOREIGN, not ledger.passed_through, "a line of an API that environment runs do not have"),
        _opening_check(document, journal, spec, spec_sha256, ledger),
        _recorded_check(document, spec, ledger),
        budget_check(ledger, spec, document),
        Proof("ledger.interval", _TIMES, _is_inside_run(document, ledger), "a line outside the run's time"),
    ]


def trial_binding_checks(ledger: LedgerReport, spec: RunSpec, observed: Observed, trial: int) -> list[Proof]:
    """The places of a trial's lines: none before its agent had a container, and no answer once it was being graded."""
    asked = ledger.trial(trial).requests
    answers = [line for line in asked if line.kind != "refused"]
    readiness = ledger.trial(readiness_number(spec)).requests
    agents, verifiers = ([each.at for each in observed.opened if each.role == role] for role in (AGENT, VERIFIER))
    early = any(_seconds(line.at, opened) > SLACK_S for opened in agents[:1] for line in asked)
    late = any(_seconds(opened, line.at) >= 0 for opened in verifiers[:1] for line in answers)
    strange = any(_seconds(opened, line.at) >= 0 for opened in agents[:1] for line in readiness)
    return [
        Proof("ledger.early", _TIMES, not early, "asked before the agent's container was opened"),
        Proof("ledger.late", _TIMES, not late, "answered after the verifier's container was opened"),
        Proof(
            "ledger.readiness",
            "integrity.foreign_trial",
            not strange,
            "the ledger holds a question of no trial after the start",
        ),
    ]


def counted(ledger: TrialLedger, observed: Observed) -> TrialLedger:
    """The trial's ledger without the completions that came while the agent's command did not run: they prove nothing
    of it. Of a command whose end was never recorded nothing is left out."""
    command = observed.exec_of(AGENT, "agent")
    if command is None:
        return ledger
    longest = command.duration_s + SLACK_S
    requests = (
        line for line in ledger.requests if not line.is_completion or 0 <= _seconds(line.at, command.at) <= longest
    )
    return replace(ledger, requests=tuple(requests))


def _first(trials: set[int]) -> str:
    """Some of the trials, as a sentence lists them."""
    return ", ".join(map(str, sorted(trials)[:5]))


def readiness_number(spec: RunSpec) -> int:
    """As which the endpoint is asked whether it is ready, before any trial: the number after the last trial's."""
    return len(spec.tasks) + 1


def _journaled_trials(journal: JournalDocument | None) -> set[int]:
    if journal is None:
        return set()
    owners = [resource.intent.trial for resource in journal.resources]
    owners += [process.trial for process in journal.processes]
    return {trial for trial in owners if trial is not None}


def _opening_check(
    document: dict[str, Any],
    journal: JournalDocument | None,
    spec: RunSpec,
    spec_sha256: str | None,
    ledger: LedgerReport,
) -> Proof:
    opening = ledger.opening
    if opening is None:
        unbound = not ledger.lines or spec.evidence_version < BOUND_SINCE
        return Proof("ledger.opening", _FOREIGN, unbound, "it names no run")
    container = at(document, "gateway", "container_id")
    gateways = [each for each in (journal.resources if journal else ()) if each.intent.role is Role.GATEWAY]
    nonces = {each.nonce for each in gateways if container is None or each.resource_id == container}
    differing = [
        name
        for name, same in (
            ("run", opening.run_id == document.get("run_id")),
            ("spec", opening.spec_sha256 is not None and opening.spec_sha256 == spec_sha256),
            ("gateway", journal is None or opening.nonce in nonces),
        )
        if not same
    ]
    return Proof("ledger.opening", _FOREIGN, not differing, f"it names another {', '.join(differing)}")


def _recorded_check(document: dict[str, Any], spec: RunSpec, ledger: LedgerReport) -> Proof:
    """The record of a run that was concluded names its ledger, or says by null that there is none."""
    key = "ledger_sha256"
    due = key in document or (spec.evidence_version >= BOUND_SINCE and document.get("ended_at") is not None)
    held = not due or (key in document and document[key] == ledger.sha256)
    code = _FOREIGN if ledger.intact else "integrity.ledger_broken"
    return Proof("ledger.recorded", code, held, "not the ledger that the run's record names")


def _is_inside_run(document: dict[str, Any], ledger: LedgerReport) -> bool:
    """Without an end the run was not concluded, and its lines are after its beginning only."""
    if ledger.first_at is None or ledger.last_at is None:
        return True
    started, ended = _moment(document.get("started_at")), _moment(document.get("ended_at"))
    if started is None or (ended is None and document.get("ended_at") is not None):
        return False
    first, last = datetime.fromisoformat(ledger.first_at), datetime.fromisoformat(ledger.last_at)
    return started <= first and (ended is None or last <= ended)


def _moment(text: object) -> datetime | None:
    """A time that can be compared with the ledger's, which are UTC."""
    found = moment(text)
    return found if found is not None and found.tzinfo is not None else None


def _seconds(earlier: str, later: str) -> float:
    """Between two times of the ledger or the attendant's record. Not a number, which is in no interval, when one is no
    time: the record of such a line is broken, which is judged before."""
    begun, ended = _moment(earlier), _moment(later)
    return math.nan if begun is None or ended is None else (ended - begun).total_seconds()
