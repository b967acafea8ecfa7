"""The list of a run's evidence files, each as a row with its state and visibility."""

from collections import Counter
from typing import Any
from uuid import UUID

from django.db.models import Count, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchsite.lib import words
from benchsite.lib.visible_text import visible
from evidence.models import READABLE, Artifact, ArtifactState
from evidence.register import retention
from evidence.register.kinds import TITLES
from evidence.register.streaming import artifacts_for
from runs.models import Run
from runs.services import access

PAGE = 200


@require_safe
def evidence_list(request: HttpRequest, key: UUID) -> HttpResponse:
    run = access.run_or_404(request.user, key)
    private = access.may(request.user, access.READ_PRIVATE)
    found = artifacts_for(request.user, run)
    trial = request.GET.get("trial", "")
    if trial.isdecimal() and len(trial) < 6:
        found = found.filter(trial=int(trial))
    asked = request.GET.get("page", "")
    page = min(max(int(asked), 1), 1000) if asked.isdecimal() and len(asked) < 6 else 1
    rows = list(found.order_by("trial", "path")[(page - 1) * PAGE : page * PAGE + 1])
    context = {
        "run": run,
        "run_key": run.key,
        "short": run.short,
        "private": private,
        "groups": _grouped([(row.trial, file_row(row)) for row in rows[:PAGE]], run),
        "totals": totals(run),
        "hold": retention.held(run),
        "trial": trial,
        "later": page + 1 if len(rows) > PAGE else 0,
        "earlier": page - 1,
    }
    return render(request, "evidence/list.html", context)


def totals(run: Run) -> dict[str, object]:
    """How many files, how large, how many in trouble: one query, one row for each state that occurs."""
    sorts = Artifact.objects.filter(run=run).order_by().values_list("state", "public")
    found = list(sorts.annotate(files=Count("pk"), size=Sum("size")))
    of: Counter[str] = Counter()
    for state, _public, files, _size in found:
        of[state] += files
    every, kept = of.total(), sum(of[state] for state in READABLE)
    octets = sum(size or 0 for *_, size in found)
    return {
        "files": every,
        "size": octets,
        "kept": kept,
        "quarantined": of[ArtifactState.QUARANTINED],
        "removed": of[ArtifactState.REMOVED],
        "public": sum(files for _state, public, files, _size in found if public),
        "size_words": words.size(octets),
        "refused": every - kept - of[ArtifactState.REMOVED],
    }


def _grouped(rows: list[tuple[int | None, object]], run: Run) -> list[tuple[str, list[object]]]:
    """Files of the whole run first, then by trial."""
    names = dict(run.trials.values_list("ordinal", "task_name")) if run.count_requested <= PAGE else {}
    groups: dict[str, list[object]] = {}
    for ordinal, row in rows:
        name = "Run" if ordinal is None else f"Trial {ordinal}: {visible(names.get(ordinal, ''))}".rstrip(": ")
        groups.setdefault(name, []).append(row)
    return sorted(groups.items(), key=lambda group: group[0] != "Run")


FILE_ICONS = {
    "ok": "held",
    "empty": "held",
    "truncated_source": "attention",
    "missing": "unseen",
    "quarantined": "lock",
}


def file_row(artifact: Artifact) -> dict[str, Any]:
    readable = artifact.readable
    icon = FILE_ICONS.get(artifact.state, "refused")
    return {
        "key": artifact.key if readable else "",
        "path": visible(artifact.path),
        "name": visible(artifact.name),
        "title": TITLES.get(artifact.kind, "Other"),
        "icon": icon,
        "tone": "" if icon == "held" else "attention",
        "state": _state(artifact),
        "public": artifact.public,
        "sha256": artifact.sha256,
        "size": words.size(artifact.size) if readable else words.size(artifact.source_size or None),
        "readable_text": readable and artifact.kind not in ("trajectory_index",),
    }


def _state(artifact: Artifact) -> str:
    word = {"ok": "kept", "empty": "kept, empty"}.get(artifact.state, artifact.get_state_display().lower())
    if artifact.redactions:
        word += f", {words.counted(artifact.redactions, 'secret')} removed"
    return f"{word}: {visible(artifact.note)}" if artifact.note else word
