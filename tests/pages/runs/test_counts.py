"""The count strip adds up, whatever happened; no rate is taken over what was not graded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.models.states import Cleanup
from runs.web.presenting.cleanups import CLEANUPS
from runs.web.presenting.counts import Counts, aloud, gates, rates, shares, strip

small = st.integers(min_value=0, max_value=5000)


@st.composite
def any_counts(draw: st.DrawFn) -> Counts:
    passed, failed, error, cancelled = (draw(small) for _ in range(4))
    ended = draw(st.booleans())
    rest = 0 if ended else draw(small)
    requested = passed + failed + error + cancelled + rest
    unjudged = draw(st.integers(min_value=0, max_value=rest))
    return Counts(requested, passed, failed, error, cancelled, ended, unjudged)


@given(any_counts())
def test_the_strip_is_a_sum_as_its_signs_say(counts: Counts) -> None:
    cells = {cell.word: cell.n for cell in strip(counts)}
    assert cells["Graded"] == cells["Passed"] + cells["Failed"]
    rest = cells.get("Ended", 0) + cells.get("Pending", 0)
    assert cells["Requested"] == cells["Graded"] + cells["Error"] + cells["Cancelled"] + rest


@given(any_counts())
def test_signs_read_as_a_formula_that_python_agrees_with(counts: Counts) -> None:
    cells = strip(counts)
    text = " ".join(f"{cell.sign} {cell.n}" for cell in cells)
    left, _, right = text.strip().partition("=")
    evaluated, _, terms = right.partition("(")
    inner, _, outer = terms.partition(")")
    assert int(left) == eval(inner) + eval(outer)
    assert int(evaluated) == eval(inner)


@given(any_counts())
def test_every_count_has_a_line_that_says_what_it_means(counts: Counts) -> None:
    assert all(cell.means for cell in strip(counts))


@given(any_counts())
def test_the_bar_covers_its_whole_width_exactly_once(counts: Counts) -> None:
    found = shares(counts)
    widths = [float(share.width.rstrip("%")) for share in found]
    assert sum(widths) == pytest.approx(100 if counts.requested else 0, abs=0.001)
    edges = [float(share.x.rstrip("%")) for share in found]
    assert edges == pytest.approx([sum(widths[:index]) for index in range(len(widths))], abs=0.001)


@given(any_counts(), st.sampled_from([None, 0.5, 1.0]))
def test_there_is_no_rate_when_nothing_was_evaluated(counts: Counts, floor: float | None) -> None:
    found = rates(counts, floor)
    assert bool(found.passed) == (counts.evaluated > 0)
    assert found.evaluated == f"{counts.evaluated} of {counts.requested}"


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (Counts(3, 3, 0, 0, 0, True), "reached"),
        (Counts(3, 2, 1, 0, 0, True), "missed"),
        (Counts(3, 2, 0, 1, 0, True), "not applied: 1 trial not graded"),
        (Counts(3, 1, 0, 0, 0, False), "applied at the end"),
    ],
)
def test_the_floor_is_applied_only_to_a_whole_run(counts: Counts, words: str) -> None:
    assert rates(counts, 1.0).applied == words


@pytest.mark.parametrize("owned", ["", "2 of 9 left", "9 of 9 gone"])
def test_a_persons_word_holds_no_gate(owned: str) -> None:
    gate = gates(Counts(1, 1, 0, 0, 0, True), 1.0, True, "declared", owned)[-1]
    assert (gate.icon, gate.found) == ("attention", "declared, never verified")


def test_every_state_of_a_cleanup_has_its_words_and_no_other_word_passes_for_one() -> None:
    assert set(CLEANUPS) == set(Cleanup)
    with pytest.raises(ValueError, match="is not a valid Cleanup"):
        gates(Counts(1, 1, 0, 0, 0, True), 1.0, True, "resolved", "")


def test_an_ungraded_trial_opens_the_first_gate_and_closes_no_other() -> None:
    found = gates(Counts(3, 2, 0, 1, 0, True), 1.0, True, "clean", "9 of 9 gone")
    assert [gate.icon for gate in found] == ["attention", "skipped", "held", "held"]


@given(any_counts())
def test_a_gate_holds_only_when_what_it_says_is_so(counts: Counts) -> None:
    first = gates(counts, 1.0, None, "pending", "")[0]
    assert (first.icon == "held") == (counts.ended and counts.evaluated == counts.requested > 0)


def test_an_unfinished_cleanup_is_never_shown_as_held() -> None:
    assert gates(Counts(1, 1, 0, 0, 0, True), 1.0, True, "failed", "")[3].icon == "attention"


def test_the_bar_is_also_read_aloud() -> None:
    assert aloud(Counts(4, 1, 1, 1, 0, False)) == "1 passed, 1 failed, 1 error and 1 pending"


def test_a_run_without_trials_is_no_pass() -> None:
    assert gates(Counts(0, 0, 0, 0, 0, True), 1.0, True, "clean", "")[0].icon == "attention"
