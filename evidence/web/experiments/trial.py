"""One trial of an experiment: its outcome and who says so, rewards, usage, times, what is not proved, its files."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchsite.lib import words
from benchsite.lib.visible_text import visible
from evidence.experiments.reading import trial_or_404
from evidence.models import ExperimentTrial
from evidence.web.experiments.conversation import is_trajectory
from evidence.web.experiments.experiment import file_row, head_of
from evidence.web.experiments.words import badge_words, case_label, money, outcome_mark, trust_sentence
from runs.services import access

_FILES = 200
_LISTED = 50
_SENTENCES = {
    "reported_passed": "The Harbor that ran it gave it a main reward that reaches the threshold.",
    "reported_failed": "The Harbor that ran it gave it a main reward below the threshold.",
    "observed_passed": "It was graded with a main reward that reaches the threshold.",
    "observed_failed": "It was graded with a main reward below the threshold.",
    "errored": "It has no grade that counts, and stands in no rate.",
    "not_reported": "Nothing that can be read says what became of it, and it stands in no rate.",
    "cancelled": "It was stopped before it was graded, and stands in no rate.",
    "": "It has no outcome so far.",
}
_USAGE = {
    "result": "from the trial's result",
    "model_usage": "from the result, by model",
    "final_metrics": "from the agent's trajectory",
}


@require_safe
def trial_page(request: HttpRequest, key: str, pk: int) -> HttpResponse:
    trial = trial_or_404(request.user, key, pk)
    private = access.may(request.user, access.READ_PRIVATE)
    files = list(trial.files.order_by("path")[: _FILES + 1])
    details = trial.details if isinstance(trial.details, dict) else {}
    context = {
        "trial": trial,
        "experiment": trial.experiment,
        "head": head_of(trial.experiment),
        "name": visible(trial.trial_name),
        "case": case_label(trial.case.name),
        "mark": outcome_mark(trial.outcome),
        "sentence": _SENTENCES[trial.outcome or ""],
        "error": visible(trial.error),
        "error_type": visible(trial.error_type),
        "agent_error": visible(trial.agent_error),
        "trust_sentence": trust_sentence(trial.source, str(details.get("verifier_mode", ""))),
        "rewards": _rewards(trial),
        "usage": _usage(trial),
        "times": _times(trial, details),
        "steps": _steps(details.get("steps")),
        "planted": _planted(details.get("planted")) if private else [],
        "badges": [badge_words(badge) for badge in trial.badges if isinstance(badge, str)],
        "private": private,
        "files": len(files),
        "file_rows": [file_row(file) for file in files[:_FILES]] if private else [],
        "more_files": len(files) > _FILES,
        "most_files": _FILES,
        "conversation": private and any(is_trajectory(file.path) for file in files),
        "conversation_id": visible(trial.conversation_id),
    }
    return render(request, "evidence/experiments/trial.html", context)


def _rewards(trial: ExperimentTrial) -> list[dict[str, Any]]:
    """Every reward with its evaluator; what the main one means for the outcome."""
    return [
        {
            "name": visible(score.name),
            "number": f"{score.number:.6g}",
            "evaluator": visible(score.evaluator),
            "version": score.evaluator_version,
            "main": score.main,
            "means": _means(score.main, score.passed, trial.outcome),
        }
        for score in trial.scores.order_by("-main", "name")
    ]


def _means(main: bool, passed: bool | None, outcome: str | None) -> str:
    if not main:
        return "diagnostic, decides nothing"
    if passed is None:
        return "the main reward; it does not count, since the trial has no grade"
    return f"the main reward; it {'reaches' if passed else 'is below'} the threshold"


def _usage(trial: ExperimentTrial) -> dict[str, Any]:
    """Tokens and cost as they were reported, and where they stand; never 0 for what is missing."""
    parts = (
        ("Input tokens", trial.input_tokens, f"{trial.input_tokens or 0:,}"),
        ("Cached of these", trial.cache_tokens, f"{trial.cache_tokens or 0:,}"),
        ("Output tokens", trial.output_tokens, f"{trial.output_tokens or 0:,}"),
        ("Cost", trial.cost_usd, money(trial.cost_usd)),
    )
    source = _USAGE.get(trial.usage_source, visible(trial.usage_source))
    if trial.regraded:
        source = "not counted: only the grading was done again"
    return {
        "rows": [{"word": word, "value": said if value is not None else ""} for word, value, said in parts],
        "source": source,
    }


def _times(trial: ExperimentTrial, details: dict[str, Any]) -> dict[str, Any]:
    """When it ran; times without a zone stand as they were written, and say so."""
    written = details.get("times")
    naive = []
    if trial.started_at is None and isinstance(written, dict):
        naive = [(visible(str(name)).replace("_", " "), visible(str(at))) for name, at in sorted(written.items())]
    duration = trial.duration_ms
    return {
        "started": trial.started_at,
        "finished": trial.finished_at,
        "took": "" if duration is None else words.duration(duration / 1000, exact=True),
        "naive": naive[:_LISTED],
    }


def _planted(given: Any) -> list[str]:
    """Where a result.json lay that nobody believes."""
    return [visible(str(path)) for path in given[:_LISTED]] if isinstance(given, list) else []


def _steps(given: Any) -> list[dict[str, str]]:
    """The steps of a task of several, as they were read; anything else is left out."""
    if not isinstance(given, list):
        return []
    rows = []
    for step in given[:_LISTED]:
        if isinstance(step, dict):
            rewards = step.get("rewards")
            said = (
                ", ".join(f"{visible(str(name))} {value}" for name, value in rewards.items())
                if isinstance(rewards, dict)
                else ""
            )
            rows.append(
                {
                    "name": visible(str(step.get("name", ""))) or "unnamed step",
                    "rewards": said,
                    "error": visible(str(step.get("error") or step.get("error_type") or "")),
                }
            )
    return rows
