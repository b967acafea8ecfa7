"""What the agent's own files made of the hand-over to the verifier: what was passed over, and what was refused whole.

Only these codes are the agent's failure, and nobody else can have caused them: no process but our reader runs while an
output is copied out, the archive is made by the image's own tar, and each header's checksum holds. Any other code,
above all one that is not known, is our own side's (`own_failures`).
"""

from collections import Counter

from evidence.reading.observed import AGENT, Observed, Transfer
from evidence.trial.facts import OutputFacts

# Always offered to the verifier beside the task's own outputs, and never part of a task.
UNDECLARED = "/logs/artifacts"
NOTHING_PLAIN = "output.nothing_plain"
REASONS = {
    "output.too_large": "more bytes than the limit of a transfer, or than the verifier has room for",
    "output.too_many": "more files than the limit of a transfer",
    "output.no_memory": "its container so full of memory that nothing could be read in it",
    NOTHING_PLAIN: "nothing but links, special files or names that cannot be shown",
}


def output_facts(observed: Observed) -> OutputFacts:
    """All outputs together: what was passed over, and the code of why the task's own outputs are refused."""
    own = [each for each in outputs(observed) if each.path != UNDECLARED]
    refused = sorted({str(each.code) for each in own if is_agents_refusal(each)} - {NOTHING_PLAIN})
    delivered = any(each.outcome in ("ok", "partial") and each.files for each in own)
    if not refused and not delivered and any(is_agents_refusal(each) for each in own):
        refused = [NOTHING_PLAIN]
    passed_over: Counter[str] = Counter()
    for each in outputs(observed):
        passed_over.update(each.refused)
    return OutputFacts(refused[0] if refused else "", dict(sorted(passed_over.items())))


def outputs(observed: Observed) -> list[Transfer]:
    """Every attempt to copy an output out of the agent's container, whatever became of it."""
    return [each for each in observed.transfers if _is_output(each)]


def is_agents_refusal(transfer: Transfer) -> bool:
    return _is_output(transfer) and transfer.outcome == "refused" and transfer.code in REASONS


def _is_output(transfer: Transfer) -> bool:
    return (transfer.role, transfer.direction, transfer.purpose) == (AGENT, "download", "artifact")
