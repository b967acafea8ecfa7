"""What is tried and what came of it. What has been tried once is not tried again until all of it was."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One thing to try: `act` says in words what came out, and raises where that is not what must."""

    peer: str
    tried: str
    act: Callable[[], str]

    @property
    def name(self) -> str:
        return f"{self.peer}: {self.tried}"


@dataclass(frozen=True)
class Outcome:
    """What came of a row, or why it did not hold."""

    peer: str
    tried: str
    came_out: str
    held: bool
    seconds: float


class Book:
    """The outcomes so far, in a file, so that a broken-off table is gone on with."""

    def __init__(self, path: Path) -> None:
        self._path = path
        kept = json.loads(path.read_text()) if path.exists() else {}
        self._outcomes = {name: Outcome(**said) for name, said in kept.items()}

    def carry_out(self, row: Row) -> Outcome:
        """The outcome of a row that held before, else of trying it now."""
        known = self._outcomes.get(row.name)
        if known is not None and known.held:
            return known
        began = time.monotonic()
        try:
            said, held = row.act(), True
        except Exception as problem:  # a row that breaks is a finding, and the others go on
            said, held = f"{type(problem).__name__}: {str(problem)[:2000]}", False
        found = Outcome(row.peer, row.tried, said, held, round(time.monotonic() - began, 1))
        self._outcomes[row.name] = found
        self._path.write_text(json.dumps({name: asdict(one) for name, one in self._outcomes.items()}, indent=1))
        return found


def table(outcomes: list[Outcome]) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield "| peer | tried | came out |"
    yield "|---|---|---|"
    for one in outcomes:
        said = one.came_out if one.held else f"DID NOT HOLD: {one.came_out}"
        yield f"| {one.peer} | {one.tried} | {' '.join(said.split()).replace('|', '/')} |"
