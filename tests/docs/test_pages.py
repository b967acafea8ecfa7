"""The documents as a whole: all are in the index, all commands in them work as written, all requirements are held."""

import re
import shlex
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
STATEMENT = "a scripted smoke proves the adapter, never a model"

# -- the index --------------------------------------------------------------------------------------------


def test_the_index_names_every_document_once_with_what_it_answers() -> None:
    rows = re.findall(r"^\| \[([a-z-]+\.md)\]\(([a-z-]+\.md)\) \| (.+) \|$", (DOCS / "README.md").read_text(), re.M)
    assert all(shown == target and words for shown, target, words in rows)
    assert sorted(target for _, target, _ in rows) == sorted({path.name for path in DOCS.glob("*.md")} - {"README.md"})


def test_the_readme_leads_to_the_index_and_the_quick_start() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](docs/README.md)" in text and "](docs/quick-start.md)" in text and "](docs/production.md)" in text


@pytest.mark.parametrize("name", ["README.md", "docs/quick-start.md", "docs/production.md", "docs/requirements.md"])
def test_no_document_lets_a_smoke_be_taken_for_a_result_of_a_model(name: str) -> None:
    text = " ".join((ROOT / name).read_text(encoding="utf-8").split()).lower()
    assert STATEMENT in text


# -- commands ---------------------------------------------------------------------------------------------

_INLINE = re.compile(r"`(?:\.venv/bin/python )?(?:manage\.py|benchsite|benchsite-site|benchsite-worker) ([a-z][^`]+)`")
_LINE = re.compile(
    r"^[$#] (?:[A-Z_]+=\S+ )*"
    r"(?:\.venv/bin/python manage\.py|(?:/opt/benchsite/bin/)?benchsite(?:-site|-worker)?) ([a-z].*)$"
)


def console_lines(text: str) -> Iterator[str]:
    """What a reader types, with its prompt; what goes on in a further line is one."""
    for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S):
        yield from block.replace("\\\n", "").splitlines()


def shown_commands(path: Path) -> Iterator[str]:
    """What follows `manage.py` in a code span, or after a prompt in a console block, without its comment."""
    text = path.read_text(encoding="utf-8")
    for line in console_lines(text):
        if found := _LINE.match(line):
            yield found[1].split(" #")[0].strip()
    yield from _INLINE.findall(re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


CASES = sorted({(path.name, shown) for path in PAGES for shown in shown_commands(path)})


def options_of(parser: ArgumentParser) -> set[str]:
    """Every option of a parser and of those below it."""
    found = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            found = found.union(*(options_of(below) for below in action.choices.values()))
    return found


def unknown_of(shown: str) -> list[str]:
    """What a command that is shown names and does not have: itself, or options."""
    plain = shown.replace("\\|", " ").replace("[", " ").replace("]", " ").replace("…", "")
    name, *words = shlex.split(plain)
    if name not in get_commands():
        return [name]
    app = get_commands()[name]
    command = load_command_class(app, name) if isinstance(app, str) else app
    known = options_of(command.create_parser("manage.py", name))
    return sorted({word.split("=")[0] for word in words if word.startswith("--")} - known)


@pytest.mark.parametrize(("page", "shown"), CASES, ids=[f"{page}: {shown[:60]}" for page, shown in CASES])
def test_each_command_that_is_shown_exists_with_its_options(page: str, shown: str) -> None:
    assert unknown_of(shown) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_nothing_is_to_be_typed_that_no_shell_finds(path: Path) -> None:
    """`manage.py` alone is in nobody's PATH."""
    assert [
        line for line in console_lines(path.read_text(encoding="utf-8")) if re.match(r"[$#] manage\.py", line)
    ] == []


def test_the_commands_are_really_found_and_a_wrong_one_is_named() -> None:
    shown = {command for _, command in CASES}
    assert {"prepare [--offline]", "check --deploy --fail-level WARNING", "bundle build my-bundle"} <= shown
    assert len(CASES) > 60
    assert unknown_of("start --wait --accpet x") == ["--accpet"]
    assert unknown_of("strat") == ["strat"]


# -- requirements -----------------------------------------------------------------------------------------


def requirements() -> dict[str, list[str]]:
    """Requirement -> what holds it."""
    rows = re.findall(r"^\| (R\d{3}) \| .+? \| (.+) \|$", (DOCS / "requirements.md").read_text(encoding="utf-8"), re.M)
    return {name: re.findall(r"`([^`]+)`", cell) for name, cell in rows}


def test_every_requirement_has_its_row() -> None:
    assert sorted(requirements()) == [f"R{number:03}" for number in range(1, 17)]


@pytest.mark.parametrize("name", sorted(requirements()))
def test_everything_that_holds_a_requirement_is_there(name: str) -> None:
    held = requirements()[name]
    assert [one for one in held if one.startswith("tests/")]
    for one in held:
        path, _, test = one.partition("::")
        assert (ROOT / path).exists(), path
        if test:
            source = (ROOT / path).read_text(encoding="utf-8")
            assert re.search(rf"^\s*(?:async )?def {re.escape(test)}\(", source, re.M), one


def test_a_test_that_is_said_to_be_of_the_gate_is() -> None:
    """And no other is: whoever reads the table knows what needs the real parts."""
    text = (DOCS / "requirements.md").read_text(encoding="utf-8")
    for path, gate in re.findall(r"`(tests/[a-z0-9_/]+/test_[a-z0-9_]+\.py)(?:::\w+)?`( \(gate\))?", text):
        if not gate:
            assert "pytestmark = pytest.mark.harbor_compatibility" not in (ROOT / path).read_text(), path
