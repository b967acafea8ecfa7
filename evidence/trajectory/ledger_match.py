"""The answers in a trajectory compared with what the endpoint said by the gateway's ledger.

The trajectory is writable for the agent and litellm re-serialises what it receives, so no step holds the bytes that
came over the wire. What survives is the message: its text and its calls with their ids, names and argument strings.
The gateway hashes exactly that (`message_digest`), so a step that matches was said by the endpoint, in this order, to
this trial.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from evidence.trajectory.steps import LedgerMatch, Step
from runs.documents.ledger import TrialLedger


@dataclass(frozen=True, slots=True)
class MatchSummary:
    """`compared` answers of the trajectory, `matched` of them, and the endpoint's answers without a step."""

    compared: int
    matched: int
    answers: int

    @property
    def unmatched_answers(self) -> int:
        return self.answers - self.matched

    @property
    def sentence(self) -> str:
        if not self.answers:
            return "The ledger has no answers to compare with."
        text = f"{self.matched} of {self.compared} steps match the ledger"
        extra = f"; {self.unmatched_answers} answers of the endpoint have no step" if self.unmatched_answers else ""
        return f"{text}{extra}."


def answer_digests(ledger: TrialLedger) -> tuple[str, ...]:
    """The digests of everything the endpoint said to a trial, in order, usable or not."""
    return tuple(request.message_sha256 for request in ledger.requests if request.message_sha256 is not None)


class LedgerMatcher:
    """Compares steps, in order, with a trial's answers. An answer is used once; skipped ones stay unmatched."""

    def __init__(self, digests: Sequence[str]) -> None:
        self._digests = digests
        self._next = 0
        self._compared = 0
        self._matched = 0

    def compare(self, step: Step) -> LedgerMatch:
        if not step.is_answer or step.copied:
            return LedgerMatch.NOT_COMPARED
        if not step.digests and "differs_from_its_own_response" not in step.problems:
            return LedgerMatch.NOT_COMPARED
        self._compared += 1
        for place in range(self._next, len(self._digests)):
            if self._digests[place] in step.digests:
                self._next = place + 1
                self._matched += 1
                return LedgerMatch.MATCHES
        return LedgerMatch.DIFFERS

    @property
    def summary(self) -> MatchSummary:
        return MatchSummary(self._compared, self._matched, len(self._digests))
