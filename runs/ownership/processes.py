"""Identities of processes and process groups, read from /proc."""

from dataclasses import dataclass
from pathlib import Path

from runs.ownership.document import ProcessIdentity

PROC = Path("/proc")
DEAD_STATES = frozenset("ZXx")


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """The fields of /proc/<pid>/stat that tell processes apart."""

    pid: int
    state: str
    pgid: int
    sid: int
    start_ticks: int


def boot_id() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def process_stat(pid: int) -> ProcessStat | None:
    """What the kernel says of `pid`, or None when there is no such process."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return None
    # The command stands in parentheses and may itself hold spaces and parentheses.
    fields = text[text.rindex(")") + 2 :].split()
    return ProcessStat(pid, fields[0], int(fields[2]), int(fields[3]), int(fields[19]))


def process_identity(pid: int) -> ProcessIdentity | None:
    """The identity of a process that exists now (a zombie still has one), or None."""
    stat = process_stat(pid)
    if stat is None:
        return None
    return ProcessIdentity(stat.pid, stat.start_ticks, stat.pgid, stat.sid, boot_id())


def identity_is_alive(identity: ProcessIdentity) -> bool:
    """Whether exactly this process runs: every field matches and it is no zombie."""
    stat = process_stat(identity.pid)
    return stat is not None and stat.state not in DEAD_STATES and process_identity(identity.pid) == identity


def belongs(stat: ProcessStat | None, identity: ProcessIdentity) -> bool:
    """Whether this process lives in the identity's group and session and began no earlier than its leader."""
    return (
        stat is not None
        and stat.state not in DEAD_STATES
        and (stat.pgid, stat.sid) == (identity.pgid, identity.sid)
        and stat.start_ticks >= identity.start_ticks
    )


def pid_was_reused(identity: ProcessIdentity) -> bool:
    """Whether another process of this boot now has the identity's pid."""
    return identity.boot_id == boot_id() and process_identity(identity.pid) not in (None, identity)


def group_members(identity: ProcessIdentity) -> list[int]:
    """The live pids of the identity's process group, whether its leader still lives or not.

    Empty when the group is gone, when the machine was booted since, or when the leader's pid now belongs to
    another process: the kernel gives a pid out again only after its whole group is gone.
    """
    if identity.boot_id != boot_id() or pid_was_reused(identity):
        return []
    pids = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()]
    return sorted(pid for pid in pids if belongs(process_stat(pid), identity))
