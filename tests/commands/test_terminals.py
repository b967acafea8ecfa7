"""Whatever terminal, pipe or locale there is, a command says the same and breaks off nothing."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from runs.management.printing import show_table
from tests.commands.schemas import validated

ROOT = Path(__file__).parents[2]
HEADINGS = ("run", "state", "endpoint")
ROWS = [["0f3a9c21", "finished", "http://model.example:8000/v1"], ["77aa12cd", "queued", "http://x/v1"]]


def shown(width: int) -> str:
    out = io.StringIO()
    show_table(Console(file=out, width=width, highlight=False, markup=False), HEADINGS, ROWS)
    return out.getvalue()


def test_a_table_that_fits_has_a_line_for_each_row() -> None:
    lines = shown(60).splitlines()
    assert lines[0].split() == list(HEADINGS) and lines[1].split() == ROWS[0] and len(lines) == 3


@pytest.mark.parametrize("width", [10, 40])
def test_in_a_narrow_terminal_no_word_is_broken(width: int) -> None:
    assert shown(width) == (
        "run: 0f3a9c21\nstate: finished\nendpoint: http://model.example:8000/v1\n\n"
        "run: 77aa12cd\nstate: queued\nendpoint: http://x/v1\n\n"
    )


def test_a_table_without_rows_is_no_lonely_line_of_headings() -> None:
    out = io.StringIO()
    show_table(Console(file=out, width=80), HEADINGS, [])
    assert out.getvalue() == ""


def test_a_wide_column_gives_way_to_the_longest_word_of_another() -> None:
    out = io.StringIO()
    words, prose = "unauthorized-at-once", "an answer that takes more than one line here"
    show_table(Console(file=out, width=50, highlight=False, markup=False), ("a", "b", "c"), [[words, prose, words]])
    lines = out.getvalue().splitlines()
    assert lines[1].split()[0] == lines[1].split()[-1] == words and max(map(len, lines)) <= 50
    assert set(prose.split()) <= set(out.getvalue().split())


def test_in_a_narrow_terminal_a_mark_begins_its_row_and_what_is_not_recorded_takes_no_line() -> None:
    out = io.StringIO()
    rows = [["ok", "limit memory", "-", "It held."]]
    show_table(Console(file=out, width=15, highlight=False, markup=False), ("", "check", "code", "what"), rows)
    assert out.getvalue() == "ok  check: limit memory\nwhat: It held.\n\n"


def manage(*words: str, data: Path, stdout: int = subprocess.PIPE, **variables: str) -> "subprocess.Popen[bytes]":
    env = {**os.environ, "BENCHSITE_DATA": str(data), **variables}
    env.pop("DJANGO_SETTINGS_MODULE", None)
    command = [sys.executable, str(ROOT / "manage.py"), *words]
    return subprocess.Popen(command, env=env, stdout=stdout, stderr=subprocess.PIPE)


FULL = Path("/dev/full")  # takes nothing: every write to it finds the disk full


@pytest.mark.parametrize(
    ("words", "code"), [(["bundle", "verify", "--json"], 4), (["bundle", "verify"], 4), (["nonesuch", "--json"], 2),
                        (["profile", "verify", "/nonexistent", "--json"], 2)]
)  # fmt: skip
@pytest.mark.parametrize("heard", [True, False])
def test_words_that_cannot_be_written_make_no_verdict(words: list[str], code: int, heard: bool, tmp_path: Path) -> None:
    """A CI job's disk may be full: exit 1 would mean evaluated and failed."""
    env = {**os.environ, "BENCHSITE_DATA": str(tmp_path)}
    env.pop("DJANGO_SETTINGS_MODULE", None)
    with FULL.open("wb") as full:
        errors = subprocess.PIPE if heard else full
        ended = subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), *words], env=env, stdout=full, stderr=errors, check=False
        )
    assert ended.returncode == code
    if heard:
        assert ended.stderr.count(b"\n") == 1 and (code == 2 or b"cannot be written: No space left" in ended.stderr)


def test_streams_that_are_closed_are_not_missed(tmp_path: Path) -> None:
    command = f"exec {sys.executable} {ROOT / 'manage.py'} bundle verify <&- >&- 2>&-"
    env = {**os.environ, "BENCHSITE_DATA": str(tmp_path)}
    env.pop("DJANGO_SETTINGS_MODULE", None)
    assert subprocess.run(["sh", "-c", command], env=env, check=False).returncode == 0


def test_an_interrupt_while_a_command_is_being_loaded_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text("raise KeyboardInterrupt\n")  # a signal may be ignored in the background
    variables = {"PYTHONPATH": str(tmp_path), "BENCHSITE_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "interrupted"}
    ended = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "status", "--json"],
        env={**os.environ, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (4, "Stopped by Ctrl-C.\n")
    assert validated(json.loads(ended.stdout))["code"] == "command.interrupted"


@pytest.mark.parametrize("words", [["--help"], ["bundle", "verify"], ["mcp", "--schema"]])
def test_a_reader_that_goes_gets_no_traceback_and_no_verdict(words: list[str], tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)  # before anything was written
    with manage(*words, data=tmp_path, stdout=writer) as process:
        os.close(writer)
        assert process.stderr is not None
        errors = process.stderr.read()
    assert (process.returncode, errors) == (4, b"")


def test_a_locale_without_a_character_shows_its_number(tmp_path: Path) -> None:
    with manage("status", "größer…", data=tmp_path, PYTHONIOENCODING="ascii") as process:
        out, errors = process.communicate()
    assert process.returncode in (2, 4) and b"Traceback" not in errors
    with manage("nönesuch", "--json", data=tmp_path, PYTHONIOENCODING="ascii") as process:
        out, errors = process.communicate()
    assert process.returncode == 2 and b"n\\xf6nesuch" in errors and b"\\u00f6" in out


def test_what_a_database_says_is_one_sentence(tmp_path: Path) -> None:
    url = "postgresql://u:p@127.0.0.1:1/x"
    with manage("status", data=tmp_path, DATABASE_URL=url) as process:
        out, errors = process.communicate()
    assert (process.returncode, out) == (4, b"") and errors.count(b"\n") == 1 and rb"\x0a" not in errors
