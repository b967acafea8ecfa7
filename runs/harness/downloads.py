"""Downloads from a container: one bounded archive a path, kept byte-exact before Harbor sees it.

A code `output.*` says that what was left at the path is refused as a whole, for a reason that only what was left
there can have caused; `transfer.*` makes no such claim (docs/evidence.md).
"""

import hashlib
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from runs.harness.container import Container
from runs.harness.execs import Command, Running
from runs.harness.failures import own_error
from runs.harness.transfer import PASSED_OVER, TOO_MUCH, Limits, Refusal, Unpacked, unpack

AGENT_LOGS = "/logs/agent"
VERIFIER_LOGS = "/logs/verifier"
TRANSFER_LIMIT_S = 60.0
KILLED = 128 + 9
MAX_ENTRIES = 200
# A fixed language, and no options from the environment.
TAR_ENV = {"LC_ALL": "C", "TAR_OPTIONS": ""}
_ABSENT = re.compile(r"tar: .*: Cannot stat: (?:No such file or directory|Not a directory)$", re.M)
_LOOP = re.compile(r"tar: .*: Cannot stat: Too many levels of symbolic links$", re.M)
_SOCKET = re.compile(r"^tar: (.*): socket ignored$", re.M)


@dataclass(frozen=True, slots=True)
class Entry:
    """One kept file: `path` relative to what was asked for ("" for a single file), size in bytes."""

    path: str
    size: int
    sha256: str

    def as_json(self) -> dict[str, str | int]:
        return {"path": self.path, "size": self.size, "sha256": self.sha256}


class KeptCopy:
    """Writes one download below `root`, which must not exist yet. Implements `transfer.Place`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.entries: list[Entry] = []
        root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    def directory(self, path: str) -> None:
        (self.root / path).mkdir(mode=0o700, parents=True, exist_ok=True)

    def file(self, path: str, chunks: Iterator[bytes]) -> None:
        target = self.root / path if path else self.root
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        digest, size = hashlib.sha256(), 0
        try:
            with os.fdopen(os.open(target, flags, 0o600), "wb") as file:
                for chunk in chunks:
                    digest.update(chunk)
                    size += len(chunk)
                    file.write(chunk)
        except BaseException:
            # Half a file is no copy: what is kept is whole or not there.
            target.unlink(missing_ok=True)
            raise
        self.entries.append(Entry(path, size, digest.hexdigest()))

    def copy_to(self, target: Path) -> None:
        """Give Harbor a copy of its own at `target`; it rewrites files, so never a link to ours."""
        if self.root.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.root, target)
            return
        target.mkdir(parents=True, exist_ok=True)
        for source in sorted(self.root.rglob("*")):
            copy = target / source.relative_to(self.root)
            if source.is_dir():
                copy.mkdir(exist_ok=True)
            else:
                shutil.copyfile(source, copy)


class DownloadState(StrEnum):
    """PARTIAL: the plain files were taken, what else stood among them is listed. REFUSED: nothing of it is used."""

    OK = "ok"
    PARTIAL = "partial"
    SOURCE_ABSENT = "source_absent"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(slots=True)
class Fetched:
    """One download. `code` says why it is partial, refused or failed, or why Harbor gets less than was kept.

    `withheld` names why Harbor gets no trajectory. `cut_off` means that reading ended early, so a blocked
    `tar` still stands in the container.
    """

    path: str
    purpose: str
    outcome: DownloadState
    code: str | None = None
    root: str | None = None
    files: int = 0
    size: int = 0
    copy: KeptCopy | None = None
    refusals: list[Refusal] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    cut_off: bool = False
    withheld: str | None = None
    error: Exception | None = None

    @property
    def entries(self) -> list[Entry]:
        return self.copy.entries if self.copy else []

    def as_event(self, trial_directory: Path) -> dict[str, Any]:
        """The fields of its `transfer` event."""
        kept = self.copy.root if self.copy and self.copy.root.exists() else None
        return {
            "direction": "download",
            "purpose": self.purpose,
            "path": self.path,
            "outcome": self.outcome,
            "code": self.code,
            "files": self.files,
            "size": self.size,
            "sha256": combined_sha256(self.entries),
            "kept": kept.relative_to(trial_directory).as_posix() if kept else None,
            "entries": [entry.as_json() for entry in self.entries[:MAX_ENTRIES]],
            "refusals": [{"path": refusal.path, "code": f"transfer.{refusal.code}"} for refusal in self.refusals],
            "refused": {f"transfer.{code}": count for code, count in sorted(self.refused.items())},
        }


def fetch(
    container: Container,
    path: str,
    purpose: str,
    kept: Path,
    limits: Limits,
    check: Callable[[Path], str | None] | None = None,
) -> Fetched:
    """Download `path` into `kept`. Never raises; `check` may name a reason to hand less to Harbor."""
    try:
        fetched = _fetch(container, path, purpose, kept, limits)
        if check is not None and fetched.outcome in (DownloadState.OK, DownloadState.PARTIAL, DownloadState.REFUSED):
            fetched.withheld = check(kept)
            fetched.code = fetched.code or fetched.withheld
    except Exception as error:
        own = own_error("download", error)
        return Fetched(path, purpose, DownloadState.FAILED, code=own.code, cut_off=True, error=own)
    return fetched


def _fetch(container: Container, path: str, purpose: str, kept: Path, limits: Limits) -> Fetched:
    running = container.begin(_tar(path), limit_s=TRANSFER_LIMIT_S)
    copy = KeptCopy(kept)
    try:
        unpacked = unpack(running.chunks(), path, copy, limits)
    except BaseException:
        running.close()
        raise
    fetched = Fetched(
        path=path,
        purpose=purpose,
        outcome=DownloadState.OK,
        root=unpacked.root,
        files=len(copy.entries),
        size=sum(entry.size for entry in copy.entries),
        copy=copy,
        refusals=unpacked.refusals,
        refused=unpacked.refused,
    )
    if unpacked.ended_by in (None, "truncated"):
        _judge(fetched, unpacked, running, container)
    else:  # we read no further, whatever tar would still have sent
        running.close()
        fetched.cut_off = True
        _refuse(fetched, "output" if unpacked.ended_by in TOO_MUCH else "transfer", unpacked.ended_by)
    return fetched


def _judge(fetched: Fetched, unpacked: Unpacked, running: Running, container: Container) -> None:
    """Set the outcome of an archive that was read to its end, by tar's own word on it."""
    ended = running.finish()
    said = running.stderr.text()
    if ended.exit_code == 0 and unpacked.complete:
        for name in _SOCKET.findall(said):
            unpacked.refuse(name.removeprefix(fetched.path.strip("/")).strip("/")[:200], "socket")
        if strange := sorted(set(unpacked.refused) - PASSED_OVER):
            _refuse(fetched, "transfer", strange[0])
        elif unpacked.refused and not fetched.files:
            _refuse(fetched, "output", "nothing_plain")
        elif unpacked.refused:
            fetched.outcome, fetched.code = DownloadState.PARTIAL, f"transfer.{unpacked.refusals[0].code}"
        return
    # That the archive is cut off is no refusal: tar's own end says why.
    fetched.refusals = [refusal for refusal in fetched.refusals if refusal.code != "truncated"]
    del fetched.refused["truncated"]
    if unpacked.members == 0 and _ABSENT.search(said):
        fetched.outcome = DownloadState.SOURCE_ABSENT
    elif unpacked.members == 0 and _LOOP.search(said):
        fetched.refusals, fetched.refused = [Refusal("", "link")], Counter(link=1)
        _refuse(fetched, "output", "nothing_plain")
    elif ended.exit_code == KILLED and container.is_left_full():
        _refuse(fetched, "output", "no_memory")
    else:
        late = ended.timed_out or ended.exit_code is None
        fetched.outcome, fetched.code = DownloadState.FAILED, "transfer.timeout" if late else "transfer.tar"
        fetched.cut_off = late


def _refuse(fetched: Fetched, kind: str, code: str | None) -> None:
    fetched.outcome, fetched.code = DownloadState.REFUSED, f"{kind}.{code}"


def _tar(path: str) -> Command:
    options = ("--format=gnu", "--numeric-owner", "--hard-dereference")
    return Command(
        ("tar", "-C", "/", *options, "-cf", "-", "--", path.strip("/")), user="0:0", workdir="/", env=TAR_ENV
    )


def untar() -> Command:
    """Unpack a stream made by `packing.stream` at `/`."""
    argv = ("tar", "-C", "/", "--no-same-owner", "-xf", "-")
    return Command(argv, user="0:0", workdir="/", env=TAR_ENV)


def combined_sha256(entries: list[Entry]) -> str | None:
    """One hash for a transfer: the only file's own, else over sorted lines `sha256 size path`."""
    if not entries:
        return None
    if len(entries) == 1 and entries[0].path == "":
        return entries[0].sha256
    lines = (f"{e.sha256} {e.size} {e.path}\n" for e in sorted(entries, key=lambda e: e.path))
    return hashlib.sha256("".join(lines).encode()).hexdigest()
