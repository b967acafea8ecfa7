"""The documentation names every code, badge and state there is."""

from pathlib import Path

import pytest

from evidence.models import ArtifactState
from runs.outcomes.buckets import Verdict
from runs.outcomes.codes import BADGES, CODES

TEXT = (Path(__file__).parents[2] / "docs/evidence.md").read_text()


@pytest.mark.parametrize("word", [*CODES, *BADGES, *ArtifactState.values, *(verdict.value for verdict in Verdict)])
def test_the_documentation_names_it(word: str) -> None:
    assert f"`{word}`" in TEXT


def test_a_documented_code_says_what_the_code_says() -> None:
    for code in CODES.values():
        line = next(line for line in TEXT.splitlines() if line.startswith(f"| `{code.name}` |"))
        assert f"| {code.title} |" in line
        assert code.sentence.split(". ")[0] in line
