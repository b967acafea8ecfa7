"""A part of the crash matrix, one cell for each victim and for the hardest instants; the whole is `script/crash`."""

import pytest

from tests.crash.matrix import Cell, Victim, allowed, carry_out, cells
from tests.crash.places import POINTS
from tests.crash.rig import Rig

PART = (
    (Victim.SANDBOX, "created, id not persisted"),
    (Victim.SANDBOX, "mid-artifacts"),
    (Victim.ATTENDANT, "after intent"),
    (Victim.ATTENDANT, "mid-verifier"),
    (Victim.HORSE, "after intent"),
    (Victim.WORKER, "mid-verifier"),
    (Victim.ALL, "mid-agent"),
    (Victim.ALL, "mid-ingest"),
    (Victim.DAEMON, "mid-cleanup"),
)


def cell_of(victim: Victim, point: str) -> Cell:
    return next(cell for cell in cells() if (cell.victim, cell.point.name) == (victim, point))


@pytest.mark.harbor_compatibility
# The engine's client does not close its socket when the engine dies under it.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("victim", "point"), PART, ids=[f"{victim} at {point}" for victim, point in PART])
def test_after_a_kill_nothing_is_left_and_the_run_says_what_happened(rig: Rig, victim: Victim, point: str) -> None:
    cell = carry_out(rig, cell_of(victim, point))
    assert cell.problems == []


def test_the_matrix_has_every_victim_at_every_instant_that_is_promised() -> None:
    names = {point.name for point in POINTS}
    assert names >= {
        "after intent", "created, id not persisted", "after persist", "after start", "mid-setup", "mid-agent",
        "mid-artifacts", "mid-verifier", "before ingest", "mid-ingest", "mid-cleanup", "before the final state",
    }  # fmt: skip
    assert len(cells()) == len(names) * len(Victim)


def test_a_run_whose_executing_process_was_killed_is_allowed_to_pass_nowhere() -> None:
    for cell in cells():
        if cell.victim in (Victim.SANDBOX, Victim.HORSE, Victim.ALL):
            assert all(verdict == "error" for _, verdict, _ in allowed(cell))
