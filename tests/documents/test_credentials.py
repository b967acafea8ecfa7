"""A credential that is a word of every run cannot be taken out of the evidence, and that is said before the run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runs.documents.credentials import evidence_check, why_not_searched

REAL = Path(__file__).parents[1] / "fixtures/real-run"
SPEC, MANIFEST = (REAL / "spec.json").read_text(), (REAL / "manifest.json").read_text()


@pytest.mark.parametrize("value", ["", "1", "EMPTY", "ollama", "sk-1234", "  1234567  "])
def test_a_short_one_is_not_searched(value: str) -> None:
    assert "8 characters" in why_not_searched(value, SPEC, MANIFEST)


@pytest.mark.parametrize("value", ["scripted-positive", "SCRIPTED-", "environment-smoke", "verifier", "exception_info"])
def test_a_word_of_the_run_is_not_searched(value: str) -> None:
    check = evidence_check(value, SPEC, MANIFEST)
    assert (check.passed, check.code, check.level) == (False, "credential.not_searched", "note")
    assert "own documents" in check.detail and value not in check.sentence


@pytest.mark.parametrize("value", ["12345678", "hunter2hunter2", "sk-of-a-lost-run", "correct horse battery staple"])
def test_any_other_is_searched(value: str) -> None:
    assert evidence_check(value, SPEC, MANIFEST).passed


def names(place: Any) -> Iterator[str]:
    if isinstance(place, dict):
        yield from place
    for below in place.values() if isinstance(place, dict) else place if isinstance(place, list) else ():
        yield from names(below)


def test_no_name_that_harbor_gives_to_a_field_is_searched() -> None:
    """Harbor's files are scrubbed like all that others wrote, and then compared with what it was told."""
    harbors = [*REAL.glob("trials/*/job/*.json"), *REAL.glob("trials/*/job/*/*.json")]
    fields = {name for path in harbors for name in names(json.loads(path.read_bytes()))}
    task = {"config-merge", "file-tree", "ledger-totals", "scripted-positive"}  # of this run's own spec
    missed = {
        name for name in fields if not why_not_searched(name, SPEC, MANIFEST) and not any(t in name for t in task)
    }
    assert len(harbors) >= 12 and not missed
