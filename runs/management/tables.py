"""How are rows shown on a terminal? As a table where its words fit beside each other, else one line a field."""

from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text


def show_table(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of harmless texts. No word is broken, so that an id can be copied from a narrow window too."""
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*[Text(cell) for cell in row])
    if Measurement.get(console, console.options.update(width=_WIDE), table).minimum <= console.width:
        console.print(table)
        return
    for row in rows:
        for heading, cell in zip(headings, row, strict=True):
            console.print(Text(f"{heading}: {cell}" if heading else cell), soft_wrap=True)
        console.print()


_WIDE = 10_000  # what the table would need, not what there is
