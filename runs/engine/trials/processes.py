"""Launching of processes, and stopping of their groups for certain.

A process group is stopped member by member through pid file descriptors: each descriptor is opened first and
the process behind it verified after, so that no signal can reach a process that took over a pid.
"""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

from runs.ownership import ProcessIdentity, group_members, process_identity
from runs.ownership.processes import PROC, belongs, pid_was_reused, process_stat

OWNER_VARIABLE = "BENCHSITE_OWNER"
TERM_WAIT_S = 2.0
KILL_WAIT_S = 2.0
POLL_S = 0.02
# When memory ends, the kernel takes a trial's process before the worker, however large each is.
OOM_SCORE_ADJUST = 500


class Stopped(StrEnum):
    """What stopping a group came to. `unverifiable` and `survived` are failures: something may still run."""

    ALREADY_GONE = "already_gone"
    TERMINATED = "terminated"
    KILLED = "killed"
    UNVERIFIABLE = "unverifiable"
    SURVIVED = "survived"

    @property
    def gone(self) -> bool:
        return self in (Stopped.ALREADY_GONE, Stopped.TERMINATED, Stopped.KILLED)


@dataclass(frozen=True, slots=True)
class StopReport:
    """`left` are the pids that still live and `signalled` those that got a signal; both are private."""

    outcome: Stopped
    signalled: tuple[int, ...] = ()
    left: tuple[int, ...] = ()


@dataclass(slots=True)
class Launched:
    """A child in its own session and process group. `poll` gives its exit code (negative: signal) or None."""

    process: subprocess.Popen[bytes]
    identity: ProcessIdentity

    def poll(self) -> int | None:
        return self.process.poll()

    def tell(self, line: bytes) -> None:
        """Write the one line that the program waits for, then close its standard input."""
        _write_line(self.process, line)

    def wait(self, seconds: float) -> None:
        """Wait so long for the program's end, and no longer."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)


class LaunchFailed(Exception):
    """The program could not be started: `code`, `sentence`, private `detail`."""

    def __init__(self, detail: str) -> None:
        self.code = "launch_failed"
        self.sentence = "The harness could not be started on this worker. Run `manage.py prepare` and try again."
        self.detail = detail
        super().__init__(self.sentence)


def launch(
    arguments: Sequence[str],
    *,
    owner: str,
    environment: Mapping[str, str],
    directory: Path,
    output: IO[bytes],
    first_line: bytes | None = b"",
    limits: Mapping[int, int] | None = None,
) -> Launched:
    """Start a program as an argument list in a session of its own, with exactly this environment.

    `owner` is the journal's ownership id; it stands in the environment as BENCHSITE_OWNER, by which members
    of the group are known when their leader is gone. `first_line` is written to standard input, which is then
    closed; None leaves it open until `tell`. `limits` (resource.RLIMIT_* → value) are in force before that.
    Raises LaunchFailed.
    """
    try:
        process = subprocess.Popen(
            list(arguments),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env={**environment, OWNER_VARIABLE: owner},
            start_new_session=True,
            close_fds=True,
        )
    except (OSError, ValueError) as error:
        raise LaunchFailed(f"{type(error).__name__}: {error}") from error
    # The child is not reaped yet, so its pid is its own even if it ended already.
    identity = process_identity(process.pid)
    try:
        if identity is None:
            raise ProcessLookupError(process.pid)
        # A program that ended already needs neither; its exit code tells the rest.
        with suppress(FileNotFoundError, ProcessLookupError):
            (PROC / str(process.pid) / "oom_score_adj").write_text(str(OOM_SCORE_ADJUST))
        for kind, value in (limits or {}).items():
            with suppress(ProcessLookupError):
                resource.prlimit(process.pid, kind, (value, value))
        if first_line is not None:
            _write_line(process, first_line)
    except (OSError, ValueError) as error:
        process.kill()
        process.wait()
        raise LaunchFailed(f"{type(error).__name__}: {error}") from error
    return Launched(process, identity)


def _write_line(process: subprocess.Popen[bytes], first_line: bytes) -> None:
    if process.stdin is not None:
        with suppress(BrokenPipeError), process.stdin:
            process.stdin.write(first_line)


def stop_group(
    identity: ProcessIdentity,
    *,
    owner: str,
    term_wait_s: float = TERM_WAIT_S,
    kill_wait_s: float = KILL_WAIT_S,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> StopReport:
    """Stop every process of a verified group: TERM, wait, KILL, wait; repeating it is harmless.

    A group whose leader is gone is stopped through those members that carry `owner` in their environment.
    Members without it, and a leader's pid that belongs to another process now, are `unverifiable`: nothing
    gets a signal, and the caller's cleanup fails.
    """
    if pid_was_reused(identity):
        return StopReport(Stopped.UNVERIFIABLE)
    ladder = _Ladder(identity, owner, monotonic, sleep)
    gone = ladder.climb(signal.SIGTERM, term_wait_s) or ladder.climb(signal.SIGKILL, kill_wait_s)
    return ladder.report(gone)


class _Ladder:
    def __init__(
        self,
        identity: ProcessIdentity,
        owner: str,
        monotonic: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self.identity = identity
        self.marker = f"{OWNER_VARIABLE}={owner}".encode()
        self.monotonic = monotonic
        self.sleep = sleep
        self.signalled: dict[signal.Signals, set[int]] = {signal.SIGTERM: set(), signal.SIGKILL: set()}

    def climb(self, number: signal.Signals, wait_s: float) -> bool:
        """One rung: signal each verified member once, then wait. True when the group is empty."""
        deadline = self.monotonic() + wait_s
        reached = self.signalled[number]
        while members := group_members(self.identity):
            reached |= {pid for pid in members if pid not in reached and self._send(pid, number)}
            if not reached or self.monotonic() >= deadline:
                return not group_members(self.identity)
            self.sleep(POLL_S)
        return True

    def report(self, gone: bool) -> StopReport:
        killed = self.signalled[signal.SIGKILL]
        signalled = tuple(sorted(killed | self.signalled[signal.SIGTERM]))
        if gone and not signalled:
            return StopReport(Stopped.ALREADY_GONE)
        if gone:
            return StopReport(Stopped.KILLED if killed else Stopped.TERMINATED, signalled)
        left = tuple(group_members(self.identity))
        outcome = Stopped.SURVIVED if any(map(self.is_ours, left)) else Stopped.UNVERIFIABLE
        return StopReport(outcome, signalled, left)

    def _send(self, pid: int, number: signal.Signals) -> bool:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        try:
            if not self.is_ours(pid):
                return False
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True

    def is_ours(self, pid: int) -> bool:
        """Verified now: in the group, and either its leader is the verified one or it carries the mark."""
        if not belongs(process_stat(pid), self.identity):
            return False
        if process_identity(self.identity.pid) == self.identity:
            return True
        try:
            return self.marker in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            return False
