"""Every way in which a trial can go wrong gets its documented code, and only a proved grade counts."""

from pathlib import Path

import pytest

from evidence.classify import classify_trial
from evidence.codes import CODES, Bucket
from evidence.results import read_run
from tests.evidence.folders import passing_run
from tests.evidence.variants import GRADED, WRONG, Variant


def code_of(variant: Variant, where: Path) -> str:
    run = passing_run(2)
    variant.change(run)
    facts = read_run(run.write(where / "run"))
    return classify_trial(facts.trials[0]).code


@pytest.mark.parametrize("variant", WRONG, ids=lambda variant: variant.id)
def test_a_corrupted_trial_gets_its_documented_code_and_never_a_grade(variant: Variant, tmp_path: Path) -> None:
    assert code_of(variant, tmp_path) == variant.code
    assert CODES[variant.code].bucket in (Bucket.ERROR, Bucket.CANCELLED)


@pytest.mark.parametrize("variant", GRADED, ids=lambda variant: variant.id)
def test_a_proved_grade_counts_as_it_stands(variant: Variant, tmp_path: Path) -> None:
    assert code_of(variant, tmp_path) == variant.code


def test_there_are_at_least_300_corrupted_variants() -> None:
    assert len(WRONG) >= 300
    assert len({(variant.id, variant.code) for variant in WRONG}) >= 300
