"""The conversation of a trial that ran elsewhere: the trajectory as it was handed in, in windows, for operators."""

import re
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchsite.lib.visible_text import visible
from evidence.experiments.reading import trial_or_404
from evidence.models import ExperimentFile, ExperimentTrial
from evidence.register.reading import open_handed_in
from evidence.web.experiments.words import case_label, outcome_mark, trust_words
from evidence.web.trajectory import step_asked, window_context
from runs.services import access

# Of the agent itself, of a task's steps, and of parts that an agent wrote apart: sub-agents and continuations.
_TRAJECTORY = re.compile(r"(steps/[^/]+/)?agent/([^/]+/)*[^/]*trajectory[^/]*\.json")
_MOST = 30


def is_trajectory(path: str) -> bool:
    """Whether this is where Harbor's agents leave their trajectories."""
    return _TRAJECTORY.fullmatch(path) is not None


@require_safe
def conversation_page(request: HttpRequest, key: str, pk: int) -> HttpResponse:
    trial = trial_or_404(request.user, key, pk, access.READ_PRIVATE)
    files = _trajectories(trial)
    if not files:
        raise Http404("No trajectory was handed in with this trial.")
    file = next((one for one in files if one.key == request.GET.get("file")), files[0])
    context = {
        "experiment": trial.experiment,
        "experiment_name": visible(trial.experiment.name),
        "trial": trial,
        "case": case_label(trial.case.name),
        "mark": outcome_mark(trial.outcome),
        "trust": trust_words(trial),
        "path": visible(file.path),
        "keep": f"file={file.key}",
        "file_key": file.key,
        "files": [{"key": one.key, "path": visible(one.path), "current": one is file} for one in files[:_MOST]],
        "more_files": max(0, len(files) - _MOST),
    }
    with open_handed_in(file) as opened:
        if opened.trajectory is None or opened.reason:
            return render(request, "evidence/experiments/conversation.html", context | {"reason": opened.reason})
        if (asked := step_asked(request, opened.trajectory)) is not None:
            query = {"file": file.key, "from": asked[0]} | ({"q": request.GET["q"]} if request.GET.get("q") else {})
            address = reverse("experiment_conversation", args=[trial.experiment.key, trial.pk])
            return HttpResponseRedirect(f"{address}?{urlencode(query)}#step-{asked[1]}")
        window = window_context(request, opened.trajectory)
        return render(request, "evidence/experiments/conversation.html", context | window)


def _trajectories(trial: ExperimentTrial) -> list[ExperimentFile]:
    """The trial's own first, then those of steps and parts by their paths."""
    found = trial.files.filter(path__contains="trajectory", path__endswith=".json").order_by("path")
    return sorted((file for file in found if is_trajectory(file.path)), key=lambda file: file.path.count("/"))
