"""A window of a trajectory as finished values: what is folded, what is marked, what is found.

Pure. Texts come from the reader already safe and bounded; nothing is cut here without saying so.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.text import get_text_list

from benchsite.lib import words
from benchsite.lib.visible_text import visible
from evidence.trajectory.steps import Call, LedgerMatch, Link, Metrics, Result, Step
from evidence.trajectory.text import MAX_SHOWN, Text
from evidence.trajectory.windows import WINDOW, Window

OPEN_LINES = 14
OPEN_CHARACTERS = 1_600
_NOT_WORTH_FOLDING = 400
_LINES_NOT_WORTH_FOLDING = 5
_PROBLEMS = {
    "ambiguous_link": (
        "Several calls or results share one id; they are shown in the file's order, and the link is ambiguous."
    ),
    "result_without_call": "A result names no call of this step; it is shown after them.",
    "step_too_large": "This step is too large to be shown; the file has all of it.",
    "step_unreadable": "This step is not readable JSON; the file has it as it is.",
    "format_error": "The agent's answer did not have the form that its harness asks for.",
    "differs_from_its_own_response": "The message differs from the model's answer that is stored beside it.",
    "too_many_entries": "The file has more entries than are shown; the first ones are.",
    "file_cut": "The file ends in the middle; what was written before is shown.",
}
# Notes of the gateway's own transcript; `{kind}` words are the ledger's.
_NOTES = {
    "request_not_whole": "This request was not kept whole, so only what it had anew is shown, as it was sent.",
    "settings_changed": "The agent asked with other settings than before.",
    "history_changed": "The agent changed or left out what it had told the endpoint before.",
    "not_said": "The agent told the endpoint that the model had said this. No such answer passed the gateway.",
    "exchange_lost": (
        "This exchange could not be kept: it found no room, or nobody took it in time. The ledger has its line."
    ),
    "no_ledger_line": "The ledger has no such exchange, so what stands here proves nothing.",
    "transcript_broken": "Here the transcript is not as the worker writes it; nothing behind this place is shown.",
    "no_answer": "The endpoint gave no answer that could be passed on.",
    "judged_malformed": "The gateway judged this answer to be no well-formed completion.",
    "judged_wrong_model": "The answer names another model than the declared one.",
    "judged_upstream_error": "The endpoint answered with an error.",
    "judged_answer": "The answer is nobody's words: vectors, or a count of tokens.",
    "judged_refused": "The exchange was broken off before the answer was passed on.",
    "answer_cut": "The answer was cut at the token limit.",
    "answer_refused": "The model refused to answer.",
    "not_compared_cut": "Head and tail of what was larger are kept, so it cannot be held against the ledger.",
    "not_compared_withheld": "The answer held the endpoint's credential: it was withheld, and it is not kept.",
    "not_compared_redacted": "A known secret was taken out of the transcript, so it cannot be held against the ledger.",
    "conversation_cut": "The conversation is longer than is shown here; the file has all of it.",
}
_LEDGER = {LedgerMatch.MATCHES: "matches the ledger", LedgerMatch.DIFFERS: "differs from the ledger"}
_UNREADABLE_METRICS = "This step's token counts could not be read; it is left out of the totals."


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text, marked when it is what was searched for."""

    text: str
    found: bool = False


def place(window: Window) -> dict[str, Any]:
    last_start = (window.total - 1) // WINDOW * WINDOW + 1 if window.total else 0
    return {
        "first": window.first,
        "last": window.last,
        "total": window.total,
        "before": max(1, window.first - WINDOW) if window.first > 1 else 0,
        "after": window.last + 1 if window.last < window.total else 0,
        "end": last_start,
    }


def step_view(step: Step, needle: str = "", *, compared: bool = True) -> dict[str, Any]:
    """``compared`` is false when the ledger has no answer at all, so that no step can differ from it."""
    tokens, known = _tokens(step)
    notes = [_problem(problem) for problem in step.problems]
    if step.copied:
        notes.append("Copied context: shown greyed, left out of tokens and totals.")
    notes += [_NOTES.get(note, f"The gateway says: {visible(note)}.") for note in step.notes]
    if compared and step.ledger is LedgerMatch.DIFFERS:
        notes.append("The answer in this step is not the one that the gateway recorded.")
    return {
        "number": step.number,
        "who": step.source,
        "at": (step.at or "")[11:19],
        "tokens": tokens,
        "tokens_known": known,
        "thought": folded(step.message, needle),
        "reasoning": folded(step.reasoning, needle) if step.reasoning and step.reasoning.text else None,
        "calls": [_call(call, needle) for call in step.calls],
        "loose": [_result(result, needle) for result in step.results],
        "notes": list(dict.fromkeys(notes)),
        "copied": step.copied,
        "failed": step.failed,
        "ended": visible(step.exit_status or ""),
        "ledger": _LEDGER.get(step.ledger, "") if compared else "",
        "agent_says": step.agent_says or "",
        "agent_step": step.agent_step,
    }


def compared_words(facts: Mapping[str, int]) -> dict[str, Any]:
    """How the agent's own file stands beside what the gateway saw, in words; ``trouble`` when they differ."""
    lost, differs = facts.get("lost", 0), facts.get("differs", 0)
    gaps = []
    if lost:
        gaps.append(f"{words.counted(lost, 'exchange')} could not be kept")
    if differs:
        gaps.append(f"{words.counted(differs, 'exchange')} {'differs' if differs == 1 else 'differ'} from the ledger")
    if not facts.get("agent_file"):
        return {"text": "The agent left no file of its own", "trouble": False, "gaps": "; ".join(gaps)}
    parts = []
    if other := facts.get("agent_other", 0):
        parts.append(f"says something else in {words.counted(other, 'answer')}")
    if missing := facts.get("agent_missing", 0):
        parts.append(f"leaves out {words.counted(missing, 'answer')}")
    if made_up := facts.get("agent_made_up", 0):
        parts.append(f"has {words.counted(made_up, 'answer')} that the endpoint never gave")
    text = (
        f"The agent's own file {get_text_list(parts, 'and')}" if parts else "The agent's own file has the same answers"
    )
    return {"text": text, "trouble": bool(parts), "gaps": "; ".join(gaps)}


def folded(text: Text, needle: str = "") -> dict[str, Any]:
    """A text: what is open, what is folded (``hidden`` says how much, empty when nothing is), and the reader's cut."""
    whole = text.text
    lines = whole.split("\n")
    head = "\n".join(lines[:OPEN_LINES])[:OPEN_CHARACTERS]
    rest = whole[len(head) :]
    if len(rest) <= _NOT_WORTH_FOLDING and rest.count("\n") <= _LINES_NOT_WORTH_FOLDING:
        head, rest = whole, ""
    hidden = _fold_words(rest) if rest.strip("\n") else ""
    size = words.counted(text.size, "character")
    return {
        "head": pieces(head, needle),
        "empty": not head,
        "rest": pieces(rest.removeprefix("\n"), needle) if hidden else [],
        "hidden": hidden,
        "summary": f"Show {hidden}" if hidden else "",
        "size": size if text.size > OPEN_CHARACTERS else "",
        "cut": f"{MAX_SHOWN:,} of {size} are shown, the middle is left out; the file has all." if text.cut else "",
    }


def pieces(text: str, needle: str) -> list[Piece]:
    """The text with every occurrence of the needle marked, whatever its case."""
    if not text:
        return []
    if not needle.strip():
        return [Piece(text)]
    parts = re.split(f"({re.escape(needle)})", text, flags=re.IGNORECASE)
    return [Piece(part, index % 2 == 1) for index, part in enumerate(parts) if part]


def _fold_words(rest: str) -> str:
    lines = rest.strip("\n").count("\n") + 1
    amount = f"the other {words.counted(lines, 'line')}" if lines > 1 else "the rest"
    return f"{amount}, {words.size(len(rest.encode('utf-8', 'replace')))}"


def _call(call: Call, needle: str) -> dict[str, Any]:
    return {
        "name": visible(call.name),
        "text": folded(call.arguments, needle),
        "results": [_result(r, needle) for r in call.results],
    }


def _result(result: Result, needle: str) -> dict[str, Any]:
    code = "exit code not recorded" if result.returncode is None else f"exit code {result.returncode}"
    return {
        "text": folded(result.text, needle),
        "code": code,
        "failed": result.failed,
        "exception": result.exception.text if result.exception else "",
        "ambiguous": result.link is Link.AMBIGUOUS,
    }


def _tokens(step: Step) -> tuple[str, bool]:
    if step.metrics is None:
        return ("tokens not reported", False) if step.is_answer else ("", True)
    metrics: Metrics = step.metrics
    if metrics.prompt_tokens is None and metrics.completion_tokens is None:
        return "tokens not reported", False
    return f"{words.number(metrics.prompt_tokens)} in, {words.number(metrics.completion_tokens)} out", True


def _problem(problem: str) -> str:
    if "metrics" in problem or "tokens" in problem or "usage" in problem:
        return _UNREADABLE_METRICS
    return _PROBLEMS.get(problem, f"A part of this step could not be read ({visible(problem)}).")
