"""What commands print: results to stdout, errors to stderr, each for a terminal, a pipe or as JSON.

Results are lines in a pipe, tables on a terminal, one JSON document with ``--json``.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchsite.lib import words
from benchsite.lib.problems import Problem
from benchsite.lib.serializing import Document, Exit
from runs.management.escaping import escape_for_terminal


class OutputLost(Exception):
    """What a command prints could not be written, as onto a full disk. A closed pipe stays a BrokenPipeError."""

    code = "command.output_lost"

    def __init__(self, error: OSError) -> None:
        reason = error.strerror or "unknown error"
        self.sentence = f"What this command prints cannot be written: {reason}. Whatever had been started goes on."
        super().__init__(self.sentence)


def _write(stream: Any, line: str) -> None:
    """One line, at once even in a pipe. Raises OutputLost, or BrokenPipeError where nobody reads any more."""
    try:
        stream.write(line + "\n")
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(error) from error


@dataclass(frozen=True, slots=True)
class Progress:
    """How a waiting command reports: ``line`` prints a line that stays, ``status`` replaces the last line."""

    line: Callable[[str], None]
    status: Callable[[str], None]


class Printer:
    """Writes a command's results to ``out`` and its errors to ``err``. Raises OutputLost when ``out`` takes nothing."""

    def __init__(self, out: Any, err: Any, *, as_json: bool) -> None:
        self.out, self.err, self.as_json = out, err, as_json
        self.on_terminal = bool(getattr(out, "isatty", bool)())

    def line(self, text: str) -> None:
        """One line of plain text, at once even in a pipe; nothing with ``--json``."""
        if not self.as_json:
            _write(self.out, escape_for_terminal(text))

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """What changes while a command waits: lines on stdout, with ``--json`` on stderr; the status on a terminal."""
        if self.as_json or not self.on_terminal:
            yield Progress(self.warn if self.as_json else self.line, lambda text: None)
            return
        console = self._console()
        with console.status("") as status:
            yield Progress(
                lambda text: console.print(Text(escape_for_terminal(text)), soft_wrap=True),
                lambda text: status.update(Text(escape_for_terminal(text))),
            )

    def table(self, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """A table on a terminal, tab-separated lines in a pipe, nothing with ``--json``."""
        if self.as_json:
            return
        cells = [[escape_for_terminal(str(cell)) for cell in row] for row in rows]
        if self.on_terminal:
            show_table(self._console(), headings, cells)
            return
        for row in cells:
            _write(self.out, "\t".join(row))

    def problems(self, subject: object, problems: Sequence[Problem]) -> None:
        """Every problem of a document as a table, and on stderr that it is refused."""
        self.table(
            ("code", "path", "problem"),
            [(problem.code, problem.path or "(document)", problem.sentence) for problem in problems],
        )
        self.warn(f"{subject} is refused: {words.counted(len(problems), 'problem')}, the first is {problems[0]}")

    def json(self, document: Document) -> None:
        """The command's one JSON document; nothing without ``--json``."""
        if self.as_json:
            _write(self.out, json.dumps(document, ensure_ascii=True))

    def warn(self, text: str) -> None:
        """One line on stderr about something beside the result; where it cannot be written, nothing changes."""
        with suppress(OSError):
            self.err.write(escape_for_terminal(text) + "\n")
            self.err.flush()

    def error(self, document: Document) -> Exit:
        """A refusal: the sentence on stderr, with ``--json`` the document on stdout. Returns its exit code."""
        self.warn(str(document["sentence"]))
        with suppress(OutputLost, OSError):  # what cannot be written changes no exit code
            self.json(document)
        return Exit(document["exit_code"])

    def _console(self) -> Console:
        return Console(file=self.out, highlight=False, markup=False)


_GAP = 2  # characters between two columns


def show_table(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of harmless texts; none print nothing. No word is broken: an id can be copied from a narrow window."""
    if not rows:
        return
    columns = list(zip(headings, *rows, strict=True))
    widths = _widths(columns, console.width - _GAP * (len(columns) - 1))
    if widths is not None:
        _show_columns(console, headings, rows, widths)
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


def _show_columns(
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
