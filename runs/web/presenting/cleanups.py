"""The words of each state of a cleanup, the same on every page. A state without its row is an error at once."""

from dataclasses import dataclass

from runs.models.states import Cleanup


@dataclass(frozen=True, slots=True)
class CleanupWords:
    """``word`` and ``icon`` stand in lists, ``tag`` on a run's panel; ``gate`` and ``found`` are its pass criterion.

    Without an icon the word stands quietly; an empty ``tag`` shows none. ``found`` is said where no numbers are known.
    """

    word: str
    icon: str
    tag: str
    gate: str
    found: str

    @property
    def tone(self) -> str:
        return "attention" if self.icon == "attention" else ""


# In the order of the runs list's filter.
CLEANUPS = {
    Cleanup.CLEAN: CleanupWords("clean", "held", "clean", "held", "nothing was created"),
    Cleanup.FAILED: CleanupWords("failed", "attention", "failed", "attention", "failed"),
    # A person's word holds no gate, and nothing has to be done about it.
    Cleanup.DECLARED: CleanupWords("declared", "", "declared, not verified", "attention", "declared, never verified"),
    Cleanup.PENDING: CleanupWords("pending", "", "", "queued", "at the end"),
}


def of(state: str) -> CleanupWords:
    """The words of a run's ``cleanup``. Raises ValueError or KeyError for what is no state, or has no words."""
    return CLEANUPS[Cleanup(state)]
