"""The documentation names every code, badge and state there is."""

import re
from pathlib import Path

import pytest

from evidence.models import ArtifactState
from runs.outcomes.buckets import Verdict
from runs.outcomes.codes import BADGES, CODES, STEP_OF_ROW
from tests.evidence.trial_facts import UNJUDGED

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "evidence.md").read_text()


@pytest.mark.parametrize("word", [*CODES, *BADGES, *ArtifactState.values, *(verdict.value for verdict in Verdict)])
def test_the_documentation_names_it(word: str) -> None:
    assert f"`{word}`" in TEXT


def test_a_documented_code_says_what_the_code_says() -> None:
    for code in CODES.values():
        line = next(line for line in TEXT.splitlines() if line.startswith(f"| `{code.name}` |"))
        assert f"| {code.title} |" in line
        assert f"| {', '.join(map(str, code.rows))} |" in line
        assert code.sentence.split(". ")[0] in line


def test_the_documented_table_names_the_step_of_each_row() -> None:
    documented = re.findall(r"^\| (\d+) \| `(\w+)` \|", TEXT, re.MULTILINE)
    assert documented == [(str(row), step.value) for row, step in STEP_OF_ROW.items()]


def test_the_one_code_that_no_row_gives_is_the_one_that_the_documentation_excepts() -> None:
    """`harness.config_differs` was documented as such when a row gave it."""
    pages = " ".join(page.read_text() for page in DOCS.glob("*.md"))
    assert re.findall(r"`(\S+)` is written by `[^`]+` [^.;]*; the classifier does not know it", pages) == [UNJUDGED]
    assert not re.search(r"no (rule|row)( of the (table|classifier))? gives", pages)
