"""How does a path leave a container? As one bounded archive, kept byte-exact before Harbor sees it."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from runs.harness.container import Container
from runs.harness.execs import Command, Running
from runs.harness.failures import own_error
from runs.harness.kept import Entry, KeptCopy
from runs.harness.transfer import Limits, Refusal, Unpacked, unpack

AGENT_LOGS = "/logs/agent"
VERIFIER_LOGS = "/logs/verifier"
TRANSFER_LIMIT_S = 60.0
# A fixed language, and no options from the environment.
TAR_ENV = {"LC_ALL": "C", "TAR_OPTIONS": ""}
_ABSENT = re.compile(r"tar: .*: Cannot stat: (?:No such file or directory|Not a directory)$", re.M)
_LOOP = re.compile(r"tar: .*: Cannot stat: Too many levels of symbolic links$", re.M)
_SOCKET = re.compile(r"tar: .*: socket ignored$", re.M)


class DownloadState(StrEnum):
    OK = "ok"
    SOURCE_ABSENT = "source_absent"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(slots=True)
class Fetched:
    """One download. `code` says why it is refused or failed, or why Harbor gets less than was kept.

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
    cut_off: bool = False
    withheld: str | None = None
    error: Exception | None = None

    @property
    def entries(self) -> list[Entry]:
        return self.copy.entries if self.copy else []


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
        if check is not None and fetched.outcome in (DownloadState.OK, DownloadState.REFUSED):
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
    if not unpacked.complete and unpacked.members and not _broke_off(unpacked):
        running.close()
        fetched = _of(path, purpose, unpacked, copy)
        fetched.cut_off = True
        return fetched
    return _judged(path, purpose, unpacked, copy, running)


def _judged(path: str, purpose: str, unpacked: Unpacked, copy: KeptCopy, running: Running) -> Fetched:
    """The outcome of an archive that was read to its end, by tar's own word on it."""
    ended = running.finish()
    said = running.stderr.text()
    fetched = _of(path, purpose, unpacked, copy)
    if ended.exit_code == 0 and unpacked.complete:
        if fetched.outcome is DownloadState.OK and _SOCKET.search(said):
            fetched.outcome, fetched.code = DownloadState.REFUSED, "transfer.socket"
        return fetched
    fetched.refusals = [refusal for refusal in fetched.refusals if refusal.code != "truncated"]
    if unpacked.members == 0 and _ABSENT.search(said):
        fetched.outcome, fetched.code = DownloadState.SOURCE_ABSENT, None
    elif unpacked.members == 0 and _LOOP.search(said):
        fetched.outcome, fetched.code = DownloadState.REFUSED, "transfer.link"
    else:
        late = ended.timed_out or ended.exit_code is None
        fetched.outcome, fetched.code = DownloadState.FAILED, "transfer.timeout" if late else "transfer.tar"
        fetched.cut_off = late
    return fetched


def _of(path: str, purpose: str, unpacked: Unpacked, copy: KeptCopy) -> Fetched:
    refused = bool(unpacked.refusals)
    return Fetched(
        path=path,
        purpose=purpose,
        outcome=DownloadState.REFUSED if refused else DownloadState.OK,
        code=f"transfer.{unpacked.refusals[0].code}" if refused else None,
        root=unpacked.root,
        files=len(copy.entries),
        size=sum(entry.size for entry in copy.entries),
        copy=copy,
        refusals=unpacked.refusals,
    )


def _broke_off(unpacked: Unpacked) -> bool:
    """Whether the stream itself ended early, as opposed to us who read no further."""
    return unpacked.refusals[-1].code == "truncated" if unpacked.refusals else True


def _tar(path: str) -> Command:
    argv = ("tar", "-C", "/", "--format=gnu", "--numeric-owner", "-cf", "-", "--", path.strip("/"))
    return Command(argv, user="0:0", workdir="/", env=TAR_ENV)


def untar() -> Command:
    """Unpack a stream made by `packing.stream` at `/`."""
    argv = ("tar", "-C", "/", "--no-same-owner", "-xf", "-")
    return Command(argv, user="0:0", workdir="/", env=TAR_ENV)
