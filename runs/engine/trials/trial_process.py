"""The process of one trial: launched ahead, watched, stopped and recorded.

The process is launched ahead of its turn, so that Harbor's own start-up overlaps with the work before it; it
records its identity and then waits. It becomes Harbor only when it is told its token, and only while the fence is open.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import runs
from runs.containers import engine_address
from runs.engine.host.folder import SUPERVISION_SCHEMA, RunFolder, write_document
from runs.engine.trials.processes import Launched, StopReport, launch, stop_group
from runs.ownership import Journal, ProcessIdentity, utc_now

TICK_S = 0.1
ATTENDANT = Path(runs.__file__).resolve().parent / "attendant"
# TERM lets Harbor save its logs and take its containers down; measured at under a second, and up to 1.7 s on a
# busy host. A group that is gone is not waited for.
TERM_WAIT_S = 2.5
KILL_WAIT_S = 2.0
LONGEST_OBSERVED_LINE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a trial was stopped before its process ended by itself; nothing is set when it was not."""

    deadline: str | None = None
    cancelled: bool = False


@dataclass
class ObservedTail:
    """The lines that the attendant has added to ``observed.jsonl`` since the last look."""

    path: Path
    offset: int = 0

    def new_lines(self) -> Iterator[dict[str, Any]]:
        """Whole, readable lines only: what is broken is judged at the end, by the parser of the evidence."""
        try:
            with os.fdopen(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                file.seek(self.offset)
                content = file.read(LONGEST_OBSERVED_LINE)
        except FileNotFoundError:
            return
        whole = content[: content.rfind(b"\n") + 1]
        # A line longer than is ever read is passed over: an agent chooses the names in it, and so its length.
        self.offset += len(whole) or (len(content) if len(content) == LONGEST_OBSERVED_LINE else 0)
        for line in whole.splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event


@dataclass
class TrialProcess:
    """One Harbor process of one trial, from its launch to its end."""

    folder: RunFolder
    journal: Journal
    ordinal: int
    harness: Path
    seconds: int
    uids: range
    child: Launched = field(init=False)
    started_at: str = ""
    mono_started: float = 0.0

    def start_early(self) -> None:
        """Launch the process; it records its identity in the journal, loads Harbor, and waits for ``go``."""
        command = [sys.executable, "-I", str(ATTENDANT), "--harness", str(self.harness)]
        command += ["--run-directory", str(self.folder.path), "--trial", str(self.ordinal)]
        command += ["--seconds", str(self.seconds), "--uids", str(self.uids[0]), str(self.uids[-1])]
        log = os.open(self.folder.trial(self.ordinal) / "harbor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(log, "wb") as output:
            self.child = launch(
                command,
                owner=self.journal.read().owner,
                environment=_environment(),
                directory=self.folder.work,
                output=output,
                first_line=None,
            )

    def go(self, token: str) -> None:
        """Tell the waiting process its trial's token: the trial's clock starts here."""
        self.started_at, self.mono_started = utc_now(), time.monotonic()
        self.child.tell(json.dumps({"token": token}).encode() + b"\n")

    def watch(self, reason_to_stop: Callable[[], Reason | None], on_event: Callable[[dict[str, Any]], None]) -> Reason:
        """Wait for the process's end, or stop it for a reason; returns the reason (empty when it ended itself)."""
        tail = ObservedTail(self.folder.trial(self.ordinal) / "observed.jsonl")
        reason = None
        while reason is None and self.child.poll() is None:
            for event in tail.new_lines():
                on_event(event)
            reason = reason_to_stop()
            self.child.wait(TICK_S)
        if reason is not None:
            self.stop()
        for event in tail.new_lines():
            on_event(event)
        return reason or Reason()

    def stop(self) -> StopReport:
        """TERM, wait, KILL to the verified group. What is left alive is for the conclusion to see."""
        return stop_group(
            self.child.identity,
            owner=self.journal.read().owner,
            term_wait_s=TERM_WAIT_S,
            kill_wait_s=KILL_WAIT_S,
        )

    def record(self, reason: Reason, *, interrupted: bool = False) -> None:
        """Write ``supervision.json``: what the supervisor saw of this trial."""
        code = self.child.poll()
        write_document(
            self.folder.trial(self.ordinal) / "supervision.json",
            {
                "schema": SUPERVISION_SCHEMA,
                "trial": self.ordinal,
                "started_at": self.started_at,
                "ended_at": utc_now(),
                "mono_started": self.mono_started,
                "mono_ended": time.monotonic(),
                "exit_code": code if code is not None and code >= 0 else None,
                "signal": -code if code is not None and code < 0 else None,
                "deadline": reason.deadline,
                "cancel_requested": reason.cancelled,
                "interrupted": interrupted,
                "process": identity_document(self.child.identity),
            },
        )


def identity_document(identity: ProcessIdentity) -> dict[str, Any]:
    return {name: getattr(identity, name) for name in ("pid", "start_ticks", "pgid", "sid", "boot_id")}


def _environment() -> dict[str, str]:
    """Nothing is inherited but which engine it is and where programs are: no proxy, no key."""
    engine = engine_address()
    return {"PATH": os.environ.get("PATH", os.defpath), **({"DOCKER_HOST": engine.url} if engine.named else {})}
