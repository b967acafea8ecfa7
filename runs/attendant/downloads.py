"""Downloads from a container: one bounded archive a path, kept byte-exact before Harbor sees it.

A code `output.*` says that what was left at the path is refused as a whole, for a reason that only what was left
there can have caused; `transfer.*` makes no such claim (docs/evidence.md).
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from runs.attendant.container import Container
from runs.attendant.execs import Command, Running
from runs.wire.copies import Entry, KeptCopy
from runs.wire.failures import own_error
from runs.wire.tar_reader import PASSED_OVER, TOO_MUCH, Limits, Refusal, Unpacked, unpack

AGENT_LOGS = "/logs/agent"
VERIFIER_LOGS = "/logs/verifier"
TRANSFER_LIMIT_S = 60.0
KILLED = 128 + 9
# A fixed language, and no options from the environment.
TAR_ENV = {"LC_ALL": "C", "TAR_OPTIONS": ""}
_ABSENT = re.compile(r"tar: .*: Cannot stat: (?:No such file or directory|Not a directory)$", re.M)
_LOOP = re.compile(r"tar: .*: Cannot stat: Too many levels of symbolic links$", re.M)
_SOCKET = re.compile(r"^tar: (.*): socket ignored$", re.M)


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

    `modified` has the container's own time of each file, in seconds since 1970. `cut_off` means that reading ended
    early, so a blocked `tar` still stands in the container.
    """

    path: str
    purpose: str
    outcome: DownloadState
    code: str | None = None
    root: str | None = None
    files: int = 0
    size: int = 0
    copy: KeptCopy | None = None
    modified: dict[str, int] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    cut_off: bool = False
    error: Exception | None = None

    @property
    def is_taken(self) -> bool:
        """Whether what was kept may go on, to Harbor and to a verifier."""
        return self.outcome in (DownloadState.OK, DownloadState.PARTIAL)

    @property
    def entries(self) -> list[Entry]:
        return self.copy.entries if self.copy else []


def fetch(
    container: Container,
    path: str,
    purpose: str,
    kept: Path,
    limits: Limits,
) -> Fetched:
    """Download `path` into `kept`. Never raises."""
    try:
        fetched = _fetch(container, path, purpose, kept, limits)
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
        modified=unpacked.modified,
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
