"""The fields of commands and transfers in `observed.jsonl`."""

from pathlib import Path
from typing import Any

from runs.attendant.commands import Purpose
from runs.attendant.downloads import DownloadState, Fetched
from runs.attendant.execs import Ended, Tail
from runs.wire.copies import MAX_ENTRIES, combined_sha256
from runs.wire.tar_writer import Upload


def of_exec(purpose: Purpose, ended: Ended, output: Tail, *, cancelled: bool, extra_bytes: int) -> dict[str, Any]:
    """The `exec` event; `extra_bytes` is what went to standard error."""
    return {
        "purpose": purpose,
        "exit_code": ended.exit_code,
        "duration_s": ended.duration_s,
        "started_mono": ended.started_mono,
        "timed_out": ended.timed_out,
        "cancelled": cancelled,
        "orphaned": ended.orphaned,
        "output_bytes": output.total + extra_bytes,
        "output_truncated": output.truncated,
    }


def of_upload(upload: Upload, code: str, note: str | None = None) -> dict[str, Any]:
    """The `transfer` event of an upload: failed with a `code`, else ok, perhaps with a `note` as its code."""
    return {
        "direction": "upload",
        "purpose": upload.purpose,
        "path": upload.target,
        "outcome": DownloadState.FAILED if code else DownloadState.OK,
        "code": code or note,
        "files": len(upload.entries),
        "size": sum(entry.size for entry in upload.entries),
        "sha256": combined_sha256(upload.entries),
        "kept": None,
        "entries": [entry.as_json() for entry in upload.entries[:MAX_ENTRIES]],
    }


def of_download(fetched: Fetched, trial_directory: Path) -> dict[str, Any]:
    """The `transfer` event of a download."""
    kept = fetched.copy.root if fetched.copy and fetched.copy.root.exists() else None
    return {
        "direction": "download",
        "purpose": fetched.purpose,
        "path": fetched.path,
        "outcome": fetched.outcome,
        "code": fetched.code,
        "files": fetched.files,
        "size": fetched.size,
        "sha256": fetched.copy.sha256 if fetched.copy else None,
        "kept": kept.relative_to(trial_directory).as_posix() if kept else None,
        "entries": [
            {**entry.as_json(), "modified": fetched.modified.get(entry.path)} for entry in fetched.entries[:MAX_ENTRIES]
        ],
        "refusals": [{"path": refusal.path, "code": f"transfer.{refusal.code}"} for refusal in fetched.refusals],
        "refused": {f"transfer.{code}": count for code, count in sorted(fetched.refused.items())},
    }
