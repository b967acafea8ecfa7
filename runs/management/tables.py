"""How are rows shown on a terminal? As a table where its words fit beside each other, else one line a field."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

_GAP = 2  # between two columns


def show_table(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of harmless texts; none print nothing. No word is broken: an id can be copied from a narrow window."""
    if not rows:
        return
    columns = list(zip(headings, *rows, strict=True))
    widths = _widths(columns, console.width - _GAP * (len(columns) - 1))
    if widths is not None:
        _show_beside(console, headings, rows, widths)
        return
    for row in rows:
        mark = ""  # of a column without a heading: it stands before the row's first named field
        for heading, cell in zip(headings, row, strict=True):
            if not heading:
                mark = f"{cell}  "
            elif cell != "-":
                console.print(Text(f"{mark}{heading}: {cell}"), soft_wrap=True)
                mark = ""
        console.print()


def _show_beside(
    console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]
) -> None:
    table = Table(box=None, pad_edge=False)
    for heading, width in zip(headings, widths, strict=True):
        table.add_column(heading, width=width, overflow="fold")
    for row in rows:
        table.add_row(*[Text(cell) for cell in row])
    console.print(table)


def _widths(columns: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """How wide each column is, in characters: none below its longest word, and the widest ones give way first.

    None when not even the longest words fit. Rich's own sharing breaks words of a wide column.
    """
    whole = [max(cell_len(cell) for cell in cells) for cells in columns]
    least = [max(cell_len(word) for cell in cells for word in [*cell.split(), ""]) for cells in columns]
    for level in range(room, -1, -1):
        widths = [max(few, min(many, level)) for few, many in zip(least, whole, strict=True)]
        if sum(widths) <= room:
            return widths
    return None
