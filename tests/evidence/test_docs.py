"""The documentation names every code, badge and state there is."""

import re
from pathlib import Path

import pytest

from evidence.models import ArtifactState
from runs.outcomes.buckets import Verdict
from runs.outcomes.codes import BADGES, CODES, STEP_OF_ROW

TEXT = (Path(__file__).parents[2] / "docs/evidence.md").read_text()


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
