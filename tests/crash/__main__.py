"""`python -m tests.crash [WORD…]`: every cell of the matrix, or those whose victim or point holds a WORD."""

import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.crash.matrix import Cell, Victim, carry_out, cells
from tests.crash.places import POINTS
from tests.crash.rig import crash_rig


def main(words: list[str]) -> int:
    chosen = [cell for cell in cells() if all(word in f"{cell.victim} at {cell.point.name}" for word in words)]
    with crash_rig() as rig:
        for number, cell in enumerate(chosen, 1):
            began = time.monotonic()
            if cell.exists:
                carry_out(rig, cell)
            _say(number, len(chosen), cell, time.monotonic() - began)
    real = [cell for cell in chosen if cell.exists]
    clean = [cell for cell in real if cell.clean]
    Console(width=180).print(_table(chosen))
    print(f"{len(real)} cells, {len(clean)} clean", flush=True)
    return 0 if real and len(clean) == len(real) else 1


def _say(number: int, of: int, cell: Cell, seconds: float) -> None:
    words = "does not exist" if not cell.exists else f"{cell.outcome}, {'clean' if cell.clean else 'NOT CLEAN'}"
    print(f"{number}/{of} {cell.victim} at {cell.point.name}: {words} ({seconds:.0f} s)", file=sys.stderr, flush=True)
    for problem in cell.problems:
        print(f"    {problem}", file=sys.stderr, flush=True)


def _table(chosen: Sequence[Cell]) -> Table:
    """Points as rows, victims as columns; what became of the run in each."""
    table = Table("point", *Victim, title="What became of the run, after kill -9 and recovery")
    for point in POINTS:
        row = {cell.victim: cell for cell in chosen if cell.point is point}
        if row:
            table.add_row(point.name, *(_words(row.get(victim)) for victim in Victim))
    return table


def _words(cell: Cell | None) -> str:
    if cell is None:
        return ""
    if not cell.exists:
        return "no such process"
    return cell.outcome if cell.clean else f"NOT CLEAN {cell.outcome}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
