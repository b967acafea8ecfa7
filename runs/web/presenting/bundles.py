"""A bundle's manifest as rows of its page, and what changed since the reviewed revision."""

from typing import Any

from benchsite.lib import words
from benchsite.lib.canonical import stored_object
from benchsite.lib.visible_text import visible
from runs.documents.specs import SpecDifference, spec_difference
from runs.models import TaskBundle


def files_words(bundle: TaskBundle) -> str:
    """Where the files of a revision are, and what to do when they are nowhere."""
    match bundle.place:
        case "package":
            return "in the package"
        case "storage":
            return "in the evidence storage, by their SHA-256"
        case _:
            return "not stored. Import the same revision again: manage.py bundle import FOLDER"


def review_words(bundle: TaskBundle) -> str:
    """Who reviewed a revision, and when."""
    if bundle.reviewed_at is None:
        return "not reviewed"
    return f"reviewed by {bundle.reviewed_by_name} on {bundle.reviewed_at:%-d %b %Y}"


def bundle_page(manifest: str) -> dict[str, Any]:
    document = stored_object(manifest)
    agent = document.get("agent") or {}
    images = document.get("images") or {}
    ceilings = document.get("ceilings") or {}
    phases = ceilings.get("phases") or {}
    rows = [(word, words.duration(phases.get(key))) for key, word in _PHASES.items()]
    download = ceilings.get("download_bytes")
    nothing = "none; images hold everything" if download == 0 else words.size(download)
    return {
        "description": visible(str(document.get("description", ""))),
        "tasks": [_task(task) for task in document.get("tasks") or []],
        "images": [(role, str(image.get("recipe_sha256", ""))) for role, image in images.items()],
        "ceilings": _ceilings(ceilings),
        "phases": [*rows, ("Downloads", nothing)],
        "agent": f"{agent.get('name', words.NOT_RECORDED)} {agent.get('version', '')}".strip(),
    }


def _task(task: dict[str, Any]) -> dict[str, Any]:
    files = task.get("files") or []
    return {
        "name": visible(str(task.get("name", ""))),
        "title": visible(str(task.get("title", ""))),
        "checksum": str(task.get("checksum", "")),
        "size": f"{words.counted(len(files), 'file')}, {words.size(sum(int(file.get('size', 0)) for file in files))}",
        "files": [
            {
                "path": visible(str(file.get("path", ""))),
                "size": words.size(file.get("size")),
                "sha256": str(file.get("sha256", "")),
            }
            for file in files
        ],
    }


ROLES = ("agent", "verifier", "gateway")


def _ceilings(ceilings: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """One row per resource, one value per role."""
    roles = [ceilings.get(role) or {} for role in ROLES]

    def storage(role: dict[str, Any]) -> str:
        sizes = [size for size in (role.get("tmpfs") or {}).values() if isinstance(size, int)]
        return words.size(sum(sizes)) if sizes else "none"

    return [
        ("CPUs", [str(role.get("cpus", words.NOT_RECORDED)) for role in roles]),
        ("Memory", [words.size(role.get("memory_bytes")) for role in roles]),
        ("Processes", [words.number(role.get("pids")) for role in roles]),
        ("Open files", [words.number(role.get("nofile")) for role in roles]),
        ("Writable storage", [storage(role) for role in roles]),
    ]


_PHASES = {
    "environment_start_s": "Container start",
    "agent_setup_s": "Agent's set-up",
    "agent_s": "Agent",
    "verifier_s": "Verifier",
}


def changes(old: str, new: str) -> list[SpecDifference]:
    """Every place where two manifests differ, files and tasks by their name and not by their position."""
    before, after = _named(stored_object(old)), _named(stored_object(new))
    differences = spec_difference(before, after)
    return [SpecDifference(*map(visible, (found.path, found.old, found.new))) for found in differences]


def _named(document: dict[str, Any]) -> dict[str, Any]:
    tasks = {}
    for task in document.get("tasks") or []:
        files = {file.get("path"): file.get("sha256") for file in task.get("files") or []}
        tasks[task.get("name")] = {**task, "files": files}
    return {**document, "tasks": tasks}
