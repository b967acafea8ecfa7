"""The trajectory page: steps in windows of a fixed grid, with anchors such as ``#step-17``.

What the gateway saw comes first; ``?file=agent`` shows the agent's own file, which a trial without a transcript shows
by itself.
"""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchsite.lib import words
from benchsite.lib.visible_text import visible
from evidence.register.reading import OpenedTrajectory, open_conversation, open_trajectory
from evidence.trajectory.index import OTHER
from evidence.trajectory.windows import MAX_FOUND, WINDOW, Trajectory
from evidence.web.trajectory_page import compared_words, place, step_view
from runs.models import Trial
from runs.services import access
from runs.web.presenting import status_marks

_LONGEST_SEARCH = 200
_FORMATS = {"atif": "ATIF {version}", "gateway": "gateway's transcript"}


@require_safe
def trajectory_page(request: HttpRequest, key: UUID, ordinal: int) -> HttpResponse:
    trial = access.trial_or_404(request.user, key, ordinal, access.READ_PRIVATE)
    with open_conversation(trial) as seen, open_trajectory(trial) as own:
        wanted = request.GET.get("file", "")
        agents = wanted == "agent" or (wanted != "gateway" and seen.artifact is None)
        opened = own if agents else seen
        if (moved := _moved(request, trial, opened.trajectory, agents=agents)) is not None:
            return moved
        context = _context(request, trial, opened) | {
            "agents": agents,
            "keep": _keep(agents=agents),
            "file_key": "agent" if agents else "gateway",
            "has_transcript": seen.artifact is not None,
            "why_no_transcript": seen.reason,
            "compared": compared_words(seen.trajectory.summary.facts) if seen.trajectory is not None else None,
        }
        return render(request, "evidence/trajectory.html", context)


def _keep(*, agents: bool) -> str:
    """The part of an address that says which file is shown."""
    return f"file={'agent' if agents else 'gateway'}"


def _moved(request: HttpRequest, trial: Trial, trajectory: Trajectory | None, *, agents: bool) -> HttpResponse | None:
    """Where ``?step=`` and ``?go=`` lead: the window that holds the step, at its anchor."""
    if trajectory is None:
        return None
    asked = step_asked(request, trajectory)
    if asked is None:
        return None
    first, number = asked
    query: dict[str, Any] = {"file": "agent" if agents else "gateway"} if "file" in request.GET else {}
    query |= {"from": first} | ({"q": _needle(request)} if _needle(request) else {})
    address = reverse("trajectory", args=[trial.run.key, trial.ordinal])
    return HttpResponseRedirect(f"{address}?{urlencode(query)}#step-{number}")


def step_asked(request: HttpRequest, trajectory: Trajectory) -> tuple[int, int] | None:
    """The window's first step and the step that ``?step=`` and ``?go=`` ask for; None when they ask for none."""
    go, step = request.GET.get("go", ""), request.GET.get("step", "")
    number: int | None = int(step) if step.isdecimal() and len(step) < 10 else None
    if go == "error":
        number = trajectory.flagged(after=_number(request, "after"))
        number = number or trajectory.summary.first_failed
    elif go == "other":
        number = trajectory.flagged(OTHER, after=_number(request, "after"))
    elif go == "end":
        number = trajectory.summary.steps
    if not number:
        return None
    window = trajectory.around(min(number, trajectory.summary.steps))
    return window.first, min(max(number, window.first), window.last)


def _context(request: HttpRequest, trial: Trial, opened: OpenedTrajectory) -> dict[str, Any]:
    trajectory, needle = opened.trajectory, _needle(request)
    context: dict[str, Any] = {
        "trial": trial,
        "run_key": trial.run.key,
        "short": trial.run.short,
        "name": visible(trial.task_name),
        "mark": status_marks.of_trial(trial, trial.run),
        "reason": opened.reason,
        "artifact": opened.artifact,
        "needle": needle,
    }
    if trajectory is None or opened.reason:
        return context
    return context | window_context(request, trajectory)


def window_context(request: HttpRequest, trajectory: Trajectory) -> dict[str, Any]:
    """The window that ``?from=`` asks for, what ``?q=`` finds, and the whole file in words."""
    summary, needle = trajectory.summary, _needle(request)
    window = trajectory.around(min(_number(request, "from") or 1, summary.steps))
    return {
        "place": place(window),
        "window_size": WINDOW,
        "steps": [step_view(step, needle, compared=trajectory.ledger.answers > 0) for step in window.steps],
        "summary": summary,
        "size": words.size(summary.size),
        "totals": _totals(summary.totals),
        "format": _FORMATS.get(summary.format, "native format")
        .format(version=(summary.version or "").removeprefix("ATIF-v"))
        .strip(),
        "ledger": _ledger_words(trajectory),
        "needle": needle,
        "found": _found(trajectory, needle),
        "problems": sum(summary.problems.values()),
    }


def _ledger_words(trajectory: Trajectory) -> str:
    if trajectory.summary.format != "gateway":
        return trajectory.ledger.sentence.removesuffix(".")
    return f"{trajectory.ledger.matched:,} of {words.counted(trajectory.ledger.answers, 'exchange')} match the ledger"


def _found(trajectory: Trajectory, needle: str) -> dict[str, Any] | None:
    if not needle:
        return None
    numbers = trajectory.find(needle)
    return {
        "numbers": [(number, (number - 1) // WINDOW * WINDOW + 1) for number in numbers],
        "more": len(numbers) >= MAX_FOUND,
        "most": MAX_FOUND,
    }


def _totals(totals: Any) -> str:
    if totals.prompt_tokens is None and totals.completion_tokens is None:
        return ""
    return f"{words.number(totals.prompt_tokens)} in, {words.number(totals.completion_tokens)} out"


def _needle(request: HttpRequest) -> str:
    return request.GET.get("q", "")[:_LONGEST_SEARCH].strip()


def _number(request: HttpRequest, name: str) -> int:
    value = request.GET.get(name, "")
    return int(value) if value.isdecimal() and len(value) < 10 else 0
