"""Checks as rows: of a preview, where those that only follow from another are folded into it, and of connection tests.

What commands and tools give stays as it is: each check with its code (design 9).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from django.utils.text import capfirst

from benchsite.lib import words
from runs.models import ConnectionOutcome, EndpointTest
from runs.web.presenting.workers import HARNESS_UID, LIMIT_WORDS

type _Check = dict[str, Any]

_NAMES = {
    "limit harness_uid": HARNESS_UID,
    "spec: harness.adapter_sha256": "Harness adapter",
    "spec: harness.agent_version": "Agent's version",
    "spec: harness.lock_sha256": "Harness lock",
    "spec: harness.tree_sha256": "Harness tree",
    "spec: images.agent": "Agent image",
    "spec: images.gateway": "Gateway image",
    "spec: images.verifier": "Verifier image",
    "spec: worker.capability_sha256": "Worker's capabilities",
    "worker cpus": "Worker's CPUs",
    "worker memory": "Worker's memory",
}
_NO_REPORT, _NO_HARNESS, _NO_IMAGE = "worker.no_report", "spec.no_harness", "spec.no_image"
# What cannot hold because of another check, by that one's code; the first that failed is the cause.
_FOLLOWS = {
    _NO_REPORT: {"spec.no_capabilities", _NO_HARNESS, _NO_IMAGE},
    _NO_HARNESS: {_NO_HARNESS, _NO_IMAGE},
    _NO_IMAGE: {_NO_IMAGE},
}
_WITHOUT_HARNESS = "spec.agent_mismatch"  # no harness has no agent either
_PREPARE = "Run manage.py prepare on that host, then manage.py worker --report."


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One check. ``icon`` is held, attention or blocked; ``word`` what a failed one means.

    ``because`` are the checks, by name and what was found, that cannot hold as long as this one does not.
    """

    icon: str
    tone: str
    name: str
    word: str
    found: str
    remedy: str
    because: tuple[tuple[str, str], ...] = ()


def check_rows(checks: Sequence[_Check]) -> list[CheckRow]:
    """The checks as a page shows them, one row for each cause; the order stays, a cause stands first."""
    failed = {str(check["code"]) for check in checks if not check["passed"]}
    cause = next((code for code in _FOLLOWS if code in failed), None)
    if cause is None:
        return [check_row(check) for check in checks]
    follows = _FOLLOWS[cause] | ({_WITHOUT_HARNESS} if _NO_HARNESS in failed else set())
    first = next(check for check in checks if check["code"] == cause)
    folded = [check for check in checks if check is not first and check["code"] in follows]
    rest = [check for check in checks if check is not first and check not in folded]
    return [_cause_row(first, folded), *(check_row(check) for check in rest)]


def check_row(check: _Check) -> CheckRow:
    """A stored check as a page shows it."""
    name = check_word(str(check["name"]))
    if check["passed"]:
        return CheckRow("held", "", name, "", str(check["detail"]), "")
    icon = "blocked" if check["level"] == "block" else "attention"
    word = {"block": "Blocking.", "accept": "To accept.", "note": "Note."}[check["level"]]
    return CheckRow(icon, "attention", name, word, str(check["detail"]), str(check["remedy"]))


def check_word(name: str) -> str:
    """A check's name for people: ``limit core`` is "No core files"."""
    if name in _NAMES:
        return _NAMES[name]
    if name.startswith("limit "):
        return LIMIT_WORDS.get(name.removeprefix("limit "), name)
    return capfirst(name)


def checks_head(checks: Sequence[_Check], rows: Sequence[CheckRow], clock: str) -> str:
    """How many were made and what came of them; ``clock`` says when. All of them are counted, folded or not."""
    failed = [str(check["level"]) for check in checks if not check["passed"]]
    parts = [f"{len(checks) - len(failed)} passed"]
    parts += [f"{failed.count(level)} to {level}" for level in ("accept", "note") if level in failed]
    blocking = failed.count("block")
    parts.append(f"{blocking} block{_for_reasons(blocking, rows)}" if blocking else "none blocks")
    return f"{len(checks)} checks at {clock}: {', '.join(parts)}. All run again on the worker."


def blocked_because(blocking: int, rows: Sequence[CheckRow]) -> str:
    """Why nothing can be started: how many checks block, and for how many reasons."""
    verb = "check blocks" if blocking == 1 else "checks block"
    reasons = _for_reasons(blocking, rows)
    ends = "It names its remedy." if reasons.endswith("reason") or blocking == 1 else "Each names its remedy."
    return f"{capfirst(words.spelled(blocking))} {verb} the start{reasons}. {ends}"


def _for_reasons(blocking: int, rows: Sequence[CheckRow]) -> str:
    reasons = sum(row.icon == "blocked" for row in rows)
    if reasons == blocking:
        return ""
    return f" for {words.spelled(reasons)} reason{'' if reasons == 1 else 's'}"


def _cause_row(check: _Check, folded: Sequence[_Check]) -> CheckRow:
    row = check_row(check)
    if not folded:
        return row
    because = tuple((check_word(str(one["name"])), str(one["detail"])) for one in folded)
    if check["code"] == _NO_REPORT:
        more = words.counted(len(folded), "other check")
        found = f"{row.found} Without its report {more} could not be made, and its engine and limits are unknown."
        unprepared = {_NO_HARNESS, _NO_IMAGE} & {str(one["code"]) for one in folded}
        return replace(row, found=found, remedy=_PREPARE if unprepared else row.remedy, because=because)
    seen, name = ("No harness is", "Prepared assets") if check["code"] == _NO_HARNESS else ("Images are not", "Images")
    found = f"{seen} prepared there, so {len(folded) + 1} checks cannot hold."
    return replace(row, name=name, found=found, remedy=_PREPARE, because=((row.name, row.found), *because))


_NOT_MADE_IN_TIME = "The worker did not make it in time. Is it running, and is it carrying out a long run?"


class Outcome(NamedTuple):
    """``icon`` goes with ``word``; ``why`` says of a test that was not made what was in its way."""

    icon: str
    word: str
    why: str


def connection_outcome(test: EndpointTest) -> Outcome:
    if test.live:
        return Outcome("queued", test.get_state_display(), "")
    if not test.done:
        return Outcome("attention", ConnectionOutcome.NOT_MADE.label, _NOT_MADE_IN_TIME)
    icons = {ConnectionOutcome.READY: "held", ConnectionOutcome.NOT_READY: "blocked"}
    return Outcome(icons.get(ConnectionOutcome(test.outcome), "attention"), test.get_outcome_display(), test.failure)
