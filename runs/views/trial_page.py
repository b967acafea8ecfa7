"""One trial: a sentence, its proof, its stages and limits; what the agent and the verifier said beside it."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from runs import access, svg
from runs.models import Trial
from runs.presenting import trial_page as presenting
from runs.presenting.run_head import head
from runs.presenting.specs import read


@require_safe
def trial_page(request: HttpRequest, key: UUID, ordinal: int) -> HttpResponse:
    trial = access.trial_or_404(request.user, key, ordinal)
    run = trial.run
    page = presenting.trial_page(trial, run)
    context = {
        "trial": trial,
        "run": run,
        "run_key": run.key,
        "head": head(run, read(run.spec)),
        "page": page,
        "timeline": svg.timeline(page.stretches, label=page.aloud, limit=page.limit_line),
        "limits": [
            (row, "" if row.share is None else svg.meter(row.share, "hit" if row.reached else ""))
            for row in page.limits
        ],
        "around": _around(trial),
        "private": access.may(request.user, access.READ_PRIVATE),
    }
    return render(request, "runs/trial.html", context)


def _around(trial: Trial) -> dict[str, Trial]:
    """The trials before and after, by word."""
    near = trial.run.trials.filter(ordinal__in=[trial.ordinal - 1, trial.ordinal + 1])
    found = {row.ordinal: row for row in near.only("ordinal", "task_name")}
    words = {"Previous": trial.ordinal - 1, "Next": trial.ordinal + 1}
    return {word: found[ordinal] for word, ordinal in words.items() if ordinal in found}
