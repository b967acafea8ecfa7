"""A file of the register as a row of a list. Pure over rows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchsite.lib import words
from benchsite.lib.visible_text import visible
from evidence.register.kinds import TITLES

if TYPE_CHECKING:
    from evidence.models import Artifact

_ICONS = {"ok": "held", "empty": "held", "truncated_source": "attention", "missing": "unseen", "quarantined": "lock"}


@dataclass(frozen=True, slots=True)
class FileRow:
    """One file. ``key`` is empty when there is nothing to download; ``sha256`` and ``size`` may be unknown."""

    key: str
    path: str
    name: str
    title: str
    icon: str
    tone: str
    state: str
    public: bool
    sha256: str
    size: str
    readable_text: bool


def file_row(artifact: "Artifact") -> FileRow:
    readable = artifact.readable
    icon = _ICONS.get(artifact.state, "refused")
    return FileRow(
        key=artifact.key if readable else "",
        path=visible(artifact.path),
        name=visible(artifact.name),
        title=TITLES.get(artifact.kind, "Other"),
        icon=icon,
        tone="" if icon == "held" else "attention",
        state=_state(artifact),
        public=artifact.public,
        sha256=artifact.sha256,
        size=words.size(artifact.size) if readable else words.size(artifact.source_size or None),
        readable_text=readable and artifact.kind not in ("trajectory_index",),
    )


def _state(artifact: "Artifact") -> str:
    word = {"ok": "kept", "empty": "kept, empty"}.get(artifact.state, artifact.get_state_display().lower())
    if artifact.redactions:
        word += f", {words.counted(artifact.redactions, 'secret')} removed"
    return f"{word}: {visible(artifact.note)}" if artifact.note else word
