"""The preview page: what would run, what was checked, and what a person must accept. Pure over rows."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.utils.text import capfirst

from benchsite.lib import words
from benchsite.lib.canonical import stored_object
from benchsite.lib.visible_text import visible
from runs.documents.run_spec import RunSpec
from runs.web.presenting import specs
from runs.web.presenting.check_rows import CheckRow, blocked_because, check_rows, check_word, checks_head

if TYPE_CHECKING:
    from runs.models import Preview

_CANNOT = {
    "limit core": "A process that crashes could write a core file into the container's own bounded storage.",
    "limit harness_uid": "Harbor would run as the worker's user, in a sandbox without that user's files.",
}
_AGREED = {"limit core": "core files are not prevented", "limit harness_uid": "the harness runs as the worker's user"}


def preview_page(
    preview: "Preview", now: datetime, *, accepted: Sequence[str] = (), missing: Sequence[str] = ()
) -> dict[str, Any]:
    """``accepted`` is what was ticked when a start was refused, ``missing`` what had to be."""
    spec = specs.read(preview.spec)
    checks = check_rows(preview.checks)
    state, reason = _state(preview, checks, now)
    return {
        "state": state,
        "reason": reason,
        "plain": _plain(spec),
        "coverage": spec.coverage if spec else "",
        "tasks": _tasks(preview, spec),
        "checks": checks,
        "checks_head": checks_head(preview.checks, checks, f"{preview.created_at:%H:%M:%S}"),
        "made": len(preview.checks),
        "reported": not any(check["code"] == "worker.no_report" for check in preview.checks),
        "accepts": _accepts(preview, accepted, missing),
        "notes": len(preview.notes),
        "hash_parts": [preview.spec_sha256[start : start + 8] for start in range(0, len(preview.spec_sha256), 8)],
        "gate": _gate(spec),
        "expires": preview.expires_at,
    }


def _accepts(preview: "Preview", accepted: Sequence[str], missing: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    for index, check in enumerate(preview.to_accept, start=1):
        name = str(check["name"])
        word = check_word(name)
        rows.append(
            {
                "name": name,
                "anchor": f"accept-{index}",
                "word": word,
                "found": str(check["detail"]),
                "means": _CANNOT.get(name, ""),
                "agreed": _AGREED.get(name, f"“{words.lowered(word)}” is not enforced"),
                "chosen": name in accepted,
                "missed": name in missing,
            }
        )
    return rows


def _state(preview: "Preview", checks: Sequence[CheckRow], now: datetime) -> tuple[str, str]:
    if preview.consumed_by_id is not None:
        return "used", "This preview was confirmed and has started its run."
    if preview.blocking:
        return "blocked", blocked_because(len(preview.blocking), checks)
    if not preview.spec_sha256:
        return "blocked", "There is no spec to confirm; the checks say why."
    if preview.expires_at <= now:
        return ("expired", f"It expired at {preview.expires_at:%H:%M} UTC, since things may have changed. Check again.")
    return "open", ""


def _plain(spec: RunSpec | None) -> list[tuple[str, bool]]:
    """The sentence of what will happen, as (words, strong) pieces; empty without a spec."""
    if spec is None:
        return []
    agent = f"{spec.harness.agent} {spec.harness.agent_version}"
    count = len(spec.tasks)
    order = " runs" if count == 1 else " run one after the other"
    return [
        (f"{capfirst(words.spelled(count))} task{'' if count == 1 else 's'}", True),
        (f"{order} on ", False),
        (spec.worker.name, True),
        (". In each, " if count > 1 else ". In it, ", False),
        (agent, True),
        (" works with ", False),
        (spec.endpoint.model, True),
        (f" at {spec.endpoint.host}, then a separate verifier without network grades what it left. ", False),
        ("Each task is tried ", False),
        ("once", True),
        (". The run ends after ", False),
        (words.duration(spec.limits.run_s), True),
        (" at the latest and removes everything it created.", False),
    ]


def _tasks(preview: "Preview", spec: RunSpec | None) -> list[dict[str, Any]]:
    if spec is None:
        return []
    known = {task.get("name"): task for task in stored_object(preview.bundle.manifest).get("tasks") or []}
    rows = []
    for task in spec.tasks:
        entry = known.get(task.name, {})
        files = entry.get("files") or []
        rows.append(
            {
                "ordinal": task.ordinal,
                "name": visible(task.name),
                "title": visible(str(entry.get("title", ""))),
                "checksum": task.checksum,
                "files": words.counted(len(files), "file") if files else words.NOT_RECORDED,
                "size": words.size(sum(int(file.get("size", 0)) for file in files)) if files else "",
                "agent": words.duration(spec.limits.agent_s),
                "verifier": words.duration(spec.limits.verifier_s),
            }
        )
    return rows


def _gate(spec: RunSpec | None) -> list[tuple[str, str]]:
    if spec is None:
        return []
    count = len(spec.tasks)
    most = words.duration(spec.limits.run_s)
    return [
        ("Runs", f"{words.counted(count, 'task')}, one at a time, once each"),
        ("Covers", spec.coverage),
        ("On", spec.worker.name),
        ("With", f"{spec.endpoint.model} at {spec.endpoint.name}"),
        ("At most", f"{most}, {words.number(spec.controls.max_steps * count)} steps in all"),
        ("Creates", f"{2 * count + 4} containers, 2 networks"),
        ("Downloads", "none: images hold everything"),
        ("Disk", "at most 512 MiB of evidence in 2,048 files is kept; everything else is removed"),
    ]
