"""The crash matrix: something is killed at an instant, everything is started again, and the run is judged."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from runs.ownership import Outcome
from tests.crash.places import POINTS, Point
from tests.crash.rig import Rig, statuses
from tests.crash.sentinels import Sentinels, planted
from tests.engine.site import wait_until

REACH_S = 240.0
END_S = 300.0
LAST = "before the final state"  # by then all was removed and verified
NOT_CLEAN = 6  # exit code of a command that left something


class Victim(StrEnum):
    """What is killed with SIGKILL."""

    SANDBOX = "sandbox"
    ATTENDANT = "attendant"
    HORSE = "work-horse"
    WORKER = "worker"
    ALL = "all of them"
    DAEMON = "daemon"


@dataclass
class Cell:
    """One victim at one point: what became of the run, and every reason why the cell is not clean."""

    victim: Victim
    point: Point
    outcome: str = ""
    problems: list[str] = field(default_factory=list)

    @property
    def exists(self) -> bool:
        """Before it was launched and after it ended there is none to kill."""
        if self.victim is Victim.SANDBOX:
            return self.point.sandbox
        return self.victim is not Victim.ATTENDANT or self.point.attendant

    @property
    def clean(self) -> bool:
        return not self.problems


def cells() -> list[Cell]:
    return [Cell(victim, point) for point in POINTS for victim in Victim]


def carry_out(rig: Rig, cell: Cell) -> Cell:
    """Run the cell on the rig, which is whole again afterwards. What goes wrong stands in `cell.problems`."""
    point, conversations = cell.point, rig.endpoint.begun
    point.arm(rig)
    run = rig.start_run()
    try:
        wait_until(lambda: point.is_reached(rig) or rig.has_ended(run), REACH_S)
        assert point.is_reached(rig), f"the run ended before the point: {rig.site.status(run)}"
        victims = _victims(rig, cell, run)
        runs = rig.site.run_folder(run).parent
        with planted(rig.engine, rig.journal(run).read(), runs, rig.image_id) as strangers:
            _kill(rig, cell, *victims)
            point.release(rig)
            _start_again(rig, cell, run)
            wait_until(lambda: rig.has_ended(run), END_S)
            recovered = rig.site.manage("recover", "--json")
            document = rig.site.status(run)
            cell.outcome = " ".join(statuses(document))
            cell.problems += _problems(rig, cell, run, document, strangers)
            if recovered.code != 0:
                cell.problems.append(f"recovery says {recovered.code}: {recovered.out.strip()}")
            if rig.endpoint.begun - conversations > 1:
                cell.problems.append(f"{rig.endpoint.begun - conversations} conversations of one run")
    except AssertionError as error:
        cell.problems.append(str(error)[:2000] or "it never ended")
    finally:
        point.release(rig)
        _make_whole(rig)
    return cell


def _victims(rig: Rig, cell: Cell, run: str) -> tuple[int, int | None, int | None]:
    """The work-horse, and the groups of sandbox and attendant: looked for before their decoys are there."""
    sandbox, attendant = rig.sandbox(run), rig.attendant(run)
    assert (attendant is not None) == cell.point.attendant, f"the attendant at this point: {attendant}"
    # While the journal is held the attendant waits with its record, and so with its launch.
    known = (True, False) if cell.point.attendant and not cell.point.sandbox else (cell.point.sandbox,)
    assert (sandbox is not None) in known, f"the sandbox at this point: {sandbox}"
    return rig.horse(run), sandbox, attendant


def _kill(rig: Rig, cell: Cell, horse: int, sandbox: int | None, attendant: int | None) -> None:
    match cell.victim:
        case Victim.SANDBOX if sandbox is not None:
            os.killpg(sandbox, signal.SIGKILL)
        case Victim.ATTENDANT if attendant is not None:
            os.killpg(attendant, signal.SIGKILL)
        case Victim.HORSE:
            os.kill(horse, signal.SIGKILL)
        case Victim.WORKER:
            rig.worker.kill()
        case Victim.ALL:
            # The worker first: it would conclude the run at once.
            rig.worker.kill()
            os.kill(horse, signal.SIGKILL)
            for group in (attendant, sandbox):
                if group is not None:
                    with suppress(ProcessLookupError):  # the one may have gone with the other
                        os.killpg(group, signal.SIGKILL)
        case Victim.DAEMON:
            rig.engine.kill()


def _start_again(rig: Rig, cell: Cell, run: str) -> None:
    if cell.victim is Victim.DAEMON:
        # The run ends without an engine; only then somebody starts it again.
        wait_until(lambda: rig.has_ended(run), END_S)
        if cell.point.name != LAST:
            cell.problems += _unfounded_claims(rig, run)
        rig.engine.start()
    if not rig.worker.alive:
        rig.worker.start()


def _unfounded_claims(rig: Rig, run: str) -> Iterator[str]:
    """While no engine answers nobody knows what is left, and unknown is not success."""
    seen = statuses(rig.site.status(run))
    if seen[1:] != ("error", "failed"):
        yield f"without an engine it says {seen}"
    if (code := rig.site.manage("recover", "--json").code) != NOT_CLEAN:
        yield f"without an engine recovery says {code}"


def _make_whole(rig: Rig) -> None:
    """Whatever became of the cell, the next one finds an engine, a worker and no run."""
    if not rig.engine.alive:
        rig.engine.start()
    if not rig.worker.alive:
        rig.worker.start()
    with suppress(AssertionError):
        wait_until(lambda: rig.site.value("select id from runs_run where ended_at is null") is None, END_S)


def _problems(rig: Rig, cell: Cell, run: str, document: dict[str, Any], strangers: Sentinels) -> Iterator[str]:
    yield from (f"left behind: {one}" for one in rig.left_behind(run, strangers))
    api = rig.engine.api()
    yield from (f"did not survive: {one}" for one in strangers.missing(api))
    api.close()
    if (executions := rig.executions(run)) > 1:
        yield f"executed {executions} times"
    journal = rig.journal(run).read()
    if journal.fence is None:
        yield "no fence"
    if unknown := [r for r in journal.resources if not r.settled and r.outcome is not Outcome.ABSENT]:
        yield f"not settled in the journal: {unknown}"
    if rig.site.value("select count(*) from runs_run where id = ? and lease_pid is not null", run) != 1:
        yield "its row was changed"
    yield from _untruths(cell, document)


def _untruths(cell: Cell, document: dict[str, Any]) -> Iterator[str]:
    """Does the run say what happened to it?"""
    seen = statuses(document)
    if seen not in allowed(cell):
        yield f"it says {seen}, and {' or '.join(map(str, allowed(cell)))} would be true"
    trial = document["trials"][0]
    told = (trial["bucket"], trial["reward"])
    # A reward that was written while the trial was being stopped is shown, and counts for nothing.
    without_grade = {("error", None)} | ({("error", 1)} if cell.point.name == "mid-verifier" else set())
    if told not in ({("passed", 1)} if cell.point.done or seen[1] == "passed" else without_grade):
        yield f"its trial says {trial['bucket']}, {trial['code']}, reward {trial['reward']}"
    counts = document["counts"]
    if counts["requested"] != counts["evaluated"] + counts["error"] + counts["cancelled"]:
        yield f"its counts do not add up: {counts}"


def allowed(cell: Cell) -> set[tuple[str, str, str]]:
    """(state, verdict, cleanup) that are true for a cell, once everything has been recovered."""
    match cell.victim:
        case Victim.WORKER:
            # The process that executes the run is not the worker's: it goes on, and truly finishes.
            return {("finished", "passed", "clean")}
        case Victim.HORSE | Victim.ALL:
            return {("interrupted", "error", "clean")}
        case Victim.SANDBOX:
            return {("finished", "error", "clean")}
        case Victim.DAEMON if cell.point.name == LAST:
            # All was removed and verified before the daemon died.
            return {("finished", "passed", "clean")}
        case Victim.DAEMON if "gateway:" in cell.point.name or "network:" in cell.point.name:
            return {("failed", "error", "clean")}
    return {("finished", "error", "clean")}
