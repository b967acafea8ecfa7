"""docs/commands.md names every command, every option of it and every shape; docs/ci.md shows what works."""

import json
import re
from pathlib import Path

import pytest
import yaml
from django.core.management import get_commands, load_command_class

from runs.management.command import SiteCommand
from tests.commands.schemas import names

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "commands.md").read_text(encoding="utf-8")
OURS = sorted(name for name, app in get_commands().items() if app in ("benchsite", "runs", "evidence"))
SHARED = {"--json", "--user", "--help"}
DJANGOS = {
    "--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color", "--force-color",
    "--skip-checks",
}  # fmt: skip
CHOICE = {"--profile", "--endpoint", "--worker", "--task", "--max-trial-seconds", "--max-steps"}


def section(name: str) -> str:
    found = re.search(rf"^### {name}\n(.*?)(?=^##|\Z)", PAGE, re.M | re.S)
    assert found, f"docs/commands.md has no section {name}"
    return found[1]


def options(name: str) -> set[str]:
    command = load_command_class(get_commands()[name], name)
    parser = command.create_parser("manage.py", name)
    return {word for action in parser._actions for word in action.option_strings if word.startswith("--")}


def test_the_commands_are_really_found() -> None:
    assert {"prepare", "preflight", "preview", "start", "evidence", "export"} <= set(OURS)


@pytest.mark.parametrize("name", OURS)
def test_each_command_has_a_section_with_all_its_options(name: str) -> None:
    text = section(name)
    wanted = options(name) - SHARED - DJANGOS
    if "the options of preview" in text:
        wanted -= CHOICE
    assert {option for option in wanted if option not in text} == set()


@pytest.mark.parametrize("name", OURS)
def test_no_section_names_an_option_that_is_not_there(name: str) -> None:
    every = {option for each in OURS for option in options(each)}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", section(name))) <= every


@pytest.mark.parametrize("name", OURS)
def test_each_help_says_in_sentences_what_it_does(name: str) -> None:
    command = load_command_class(get_commands()[name], name)
    assert command.help.endswith(".") and len(command.help) > 30
    parser = command.create_parser("manage.py", name)
    own = [action for action in parser._actions if not set(action.option_strings) & (DJANGOS | SHARED)]
    assert [action.dest for action in own if not action.help] == []


@pytest.mark.parametrize("name", OURS)
def test_each_command_takes_json_but_the_plain_one(name: str) -> None:
    assert ("--json" in options(name)) is (name != "demo_login")
    assert isinstance(load_command_class(get_commands()[name], name), SiteCommand) is (name != "demo_login")


@pytest.mark.parametrize("name", names())
def test_each_shape_is_named(name: str) -> None:
    """By the commands' page, or by that of the HTTP API, which alone answers with some."""
    pages = PAGE + (DOCS / "api.md").read_text(encoding="utf-8")
    assert f"{name}.json" in pages or f"benchsite.{name.replace('.', '/')}" in pages


def test_the_example_workflow_names_all_that_a_runner_shares_with_the_site() -> None:
    """Without the evidence's place its export fails, and without a worker's name nothing can be previewed."""
    [block] = re.findall(r"^```yaml\n(.*?)^```", (DOCS / "ci.md").read_text(encoding="utf-8"), re.M | re.S)
    [job] = yaml.safe_load(block)["jobs"].values()
    shared = {"DATABASE_URL", "REDIS_URL", "BENCHSITE_SECRET_KEY", "BENCHSITE_EVIDENCE_OPTIONS", "BENCHSITE_WORKER"}
    assert set(job["env"]) == shared
    assert set(json.loads(job["env"]["BENCHSITE_EVIDENCE_OPTIONS"])) == {"location"}
    assert {line.split()[0] for step in job["steps"] for line in step.get("run", "").splitlines()} >= {"benchsite"}


def test_the_ci_page_uses_only_options_that_are_there() -> None:
    every = {option for each in OURS for option in options(each)}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", (DOCS / "ci.md").read_text(encoding="utf-8"))) <= every
