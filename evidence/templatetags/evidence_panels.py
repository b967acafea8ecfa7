"""Evidence panels of the pages of a run and a trial, placed by templates of the runs app."""

from typing import Any

from django import template
from django.template.context import RequestContext
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from evidence.models import Artifact
from evidence.register import reading
from evidence.web.listing import file_row, totals
from evidence.web.origin import origin_of
from evidence.web.trajectory_page import step_view
from runs.models import Run, Trial
from runs.services import access

register = template.Library()

_RUN_FILES = 10
_TRIAL_FILES = 40
_LAST_STEPS = 3
# What Harbor and the worker wrote for themselves; listed with all files, not beside the result.
_OF_THE_HARNESS = (
    "harbor_copy",
    "harbor_log",
    "harbor_config",
    "harbor_lock",
    "harness_config",
    "environment_plan",
    "trajectory_index",
)
_REWARD_SHOWN = 512


@register.simple_tag(takes_context=True)
def evidence_panel(context: RequestContext, run: Run) -> SafeString:
    """The register of a run in short: files of the whole run, totals, a way to all."""
    request = context["request"]
    private = access.may(request.user, access.READ_PRIVATE)
    found = Artifact.objects.filter(run=run) if private else Artifact.objects.filter(run=run, public=True)
    rows = [file_row(row) for row in found.filter(trial=None).order_by("path")[:_RUN_FILES]]
    inner = {"rows": rows, "totals": totals(run), "private": private, "run_key": run.key, "ended": run.terminal}
    return render_to_string("evidence/panel.html", inner, request)


@register.simple_tag(takes_context=True)
def origin_panel(context: RequestContext, run: Run) -> SafeString | str:
    """Where the evidence of a run that has ended comes from."""
    if not run.terminal:
        return ""
    return render_to_string("evidence/origin.html", origin_of(run), context["request"])


@register.simple_tag(takes_context=True)
def trial_evidence(context: RequestContext, trial: Trial) -> SafeString:
    """The agent's last steps, the verifier's words and reward as bytes, and the trial's files."""
    request = context["request"]
    if not access.may(request.user, access.READ_PRIVATE):
        return render_to_string("evidence/operators_only.html", {}, request)
    every = Artifact.objects.filter(run=trial.run, trial=trial.ordinal)
    files = list(every.exclude(kind__in=_OF_THE_HARNESS).order_by("path")[:_TRIAL_FILES])
    inner: dict[str, Any] = {
        "run_key": trial.run.key,
        "trial": trial,
        "rows": [file_row(row) for row in files],
        "more": every.count() - len(files),
        "outputs": _outputs(files),
        "reward": _reward(files),
        **_last_steps(trial),
    }
    return render_to_string("evidence/trial_panels.html", inner, request)


def _last_steps(trial: Trial) -> dict[str, Any]:
    """The end of the conversation as the gateway saw it; of a trial without that, of the agent's own file."""
    for file, title, opening in (
        ("gateway", "Last steps, as the gateway saw them", reading.open_conversation),
        ("agent", "Last steps of the agent's own file", reading.open_trajectory),
    ):
        with opening(trial) as opened:
            if opened.trajectory is not None and not opened.reason:
                total = opened.trajectory.summary.steps
                window = opened.trajectory.window(max(1, total - _LAST_STEPS + 1), _LAST_STEPS)
                steps = [step_view(step) for step in window.steps]
                return {"steps": steps, "steps_total": total, "steps_title": title, "steps_file": file}
            reason = opened.reason
    return {"steps": [], "reason": reason, "steps_total": 0, "steps_title": "Last steps"}


def _outputs(files: list[Artifact]) -> list[dict[str, Any]]:
    """What the verifier said: each of its readable texts, the end of long ones."""
    found = [row for row in files if row.kind == "verifier_output" and row.readable][:3]
    return [{"row": file_row(row), "window": reading.text_window(row, length=8192)} for row in found]


def _reward(files: list[Artifact]) -> list[dict[str, Any]]:
    found = [row for row in files if row.kind == "reward" and row.readable]
    return [{"row": file_row(row), "window": reading.text_window(row, 0, _REWARD_SHOWN)} for row in found]
