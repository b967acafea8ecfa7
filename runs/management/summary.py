"""What does a CI system's summary page say of a run? Markdown from a ``benchsite.run/v1`` document. Pure.

Texts from elsewhere stand in code spans and hold no character that Markdown, HTML or a forge gives a meaning to
(issue 7.1): no links, no mentions, no markup.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from runs.management.inert import inert_markup
from runs.outcomes.codes import CODES

STATEMENT = "A scripted smoke proves the adapter, never a model."


def markdown_summary(run: Mapping[str, Any], *, counts: str, coverage: str) -> str:
    """The summary. ``counts`` is the count strip and ``coverage`` the sentence beside it, in words of our own."""
    return "\n".join(_lines(run, counts, coverage)) + "\n"


def _lines(run: Mapping[str, Any], counts: str, coverage: str) -> Iterator[str]:
    yield f"## benchsite: {run['verdict'] or 'no verdict yet'}"
    yield ""
    yield f"{counts}  "
    yield f"**{coverage}**"
    yield ""
    if run["cleanup"] == "failed":
        yield "**Cleanup failed:** something that the run owned may be left behind."
        yield ""
    if run["cleanup"] == "declared":
        yield "**Cleanup declared resolved by a person:** nobody verified that nothing is left."
        yield ""
    if run["failure"] is not None:
        yield f"**The run as a whole failed:** {_reason(run['failure']['code'])}"
        yield ""
    yield "| # | task | result | why | reward | steps |"
    yield "|---|---|---|---|---|---|"
    for trial in run["trials"]:
        yield _row(trial)
    yield ""
    yield f"Run {_code(run['run'])}, profile {_code(run['profile'])}, endpoint {_code(_endpoint(run))}, "
    yield f"worker {_code(run['worker'])}, spec {_code(run['spec_sha256'])}."
    yield ""
    yield STATEMENT


def _row(trial: Mapping[str, Any]) -> str:
    result = trial["bucket"] or "not ended"
    why = _reason(trial["code"]) if trial["code"] else ""
    reward = "not graded" if trial["reward"] is None else trial["reward"]
    steps = "not recorded" if trial["steps"] is None else trial["steps"]
    return f"| {trial['ordinal']} | {_code(trial['task'])} | {result} | {why} | {reward} | {steps} |"


def _reason(code: object) -> str:
    known = CODES.get(str(code))
    return _code(code) + (f" {known.title}" if known else "")


def _endpoint(run: Mapping[str, Any]) -> str:
    return f"{run['endpoint']['name']} version {run['endpoint']['version']}"


def _code(text: object) -> str:
    """Text from elsewhere; it holds no backtick and no bar, so the span and the table cell end where they should."""
    return f"`{inert_markup(str(text))}`"
