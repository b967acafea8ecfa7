"""Only trials that were graded in both runs are held against each other."""

import re

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from evidence.web.compare import _row
from evidence.web.comparison import Attempt, Change, compare
from tests.pages.conftest import Browser
from tests.pages.factories import Site, make_run
from tests.pages.runs.test_run_page import many_trials, plain

buckets = st.sampled_from(["passed", "failed", "error", "cancelled", ""])
attempts = st.lists(
    st.builds(
        Attempt,
        task=st.sampled_from(["a", "b", "c"]),
        checksum=st.sampled_from(["1", "2"]),
        ordinal=st.integers(1, 9),
        bucket=buckets,
    ),
    max_size=8,
)


def one(bucket: str, checksum: str = "1") -> list[Attempt]:
    return [Attempt("a", checksum, 1, bucket)]


def test_a_pass_that_became_a_failure_regressed() -> None:
    assert compare(one("passed"), one("failed")).pairs[0].change is Change.REGRESSED


def test_a_failure_that_became_a_pass_improved() -> None:
    assert compare(one("failed"), one("passed")).pairs[0].change is Change.IMPROVED


def test_an_error_is_neither_better_nor_worse() -> None:
    assert compare(one("passed"), one("error")).pairs[0].change is Change.NOT_GRADED
    assert compare(one("error"), one("passed")).pairs[0].change is Change.NOT_GRADED


def test_another_checksum_is_another_task() -> None:
    assert compare(one("passed"), one("failed", "2")).pairs[0].change is Change.NOT_COMPARABLE


def test_a_task_of_one_run_only_is_not_comparable() -> None:
    assert compare(one("passed"), []).pairs[0].change is Change.NOT_COMPARABLE


def test_unchanged_tasks_are_left_out_unless_all_are_asked_for() -> None:
    found = compare(one("passed"), one("passed"))
    assert found.chosen("changed") == []
    assert len(found.chosen("all")) == 1
    assert found.chosen("no such tab") == []


def test_what_was_noted_of_the_answers_of_either_run_stands_beside_the_change() -> None:
    before = [Attempt("a", "1", 1, "passed", badges=("tmpfs_full", "context_window_exceeded"))]
    after = [Attempt("a", "1", 1, "failed", badges=("answer_cut",))]
    [pair] = compare(before, after).pairs
    assert _row(pair)["what"] == (
        "Graded with reward 1 before, 0 now. Baseline: the conversation outgrew the model's context window. "
        "Candidate: an answer was cut at the token limit."
    )


def test_rates_count_only_what_was_graded_in_both() -> None:
    before = [Attempt("a", "1", 1, "passed"), Attempt("b", "1", 2, "error"), Attempt("c", "1", 3, "passed")]
    after = [Attempt("a", "1", 1, "failed"), Attempt("b", "1", 2, "passed"), Attempt("c", "2", 3, "passed")]
    found = compare(before, after)
    assert (found.rate("baseline"), found.rate("candidate")) == ((1, 1), (0, 1))


@given(attempts, attempts)
def test_every_trial_of_both_runs_stands_in_exactly_one_pair(before: list[Attempt], after: list[Attempt]) -> None:
    found = compare(before, after)
    for side, given_ in (("baseline", before), ("candidate", after)):
        placed = [getattr(pair, side) for pair in found.pairs if getattr(pair, side) is not None]
        assert sorted(map(id, placed)) == sorted(map(id, given_))
    assert sum(found.counts.values()) == len(found.pairs)


@given(attempts, attempts)
def test_better_and_worse_need_two_grades_of_the_same_task(before: list[Attempt], after: list[Attempt]) -> None:
    for pair in compare(before, after).pairs:
        if pair.change in (Change.REGRESSED, Change.IMPROVED):
            assert pair.same_version
            assert {pair.baseline.bucket, pair.candidate.bucket} == {"passed", "failed"}  # type: ignore[union-attr]


@given(attempts, attempts)
def test_swapping_the_sides_swaps_better_and_worse(before: list[Attempt], after: list[Attempt]) -> None:
    there, back = compare(before, after).counts, compare(after, before).counts
    assert there[Change.REGRESSED] == back[Change.IMPROVED]
    assert there[Change.NOT_GRADED] == back[Change.NOT_GRADED]


def chosen(client: Client, query: str = "") -> list[str]:
    """What the page without two runs offers first: baseline and candidate."""
    return re.findall(r'<option value="(\w+)" selected', client.get(f"/runs/compare/{query}").content.decode())


def test_what_is_offered_first_has_ended_and_is_never_the_other_side_itself(site: Site, browse: Browser) -> None:
    older, newer, live = (make_run(site, kind).key for kind in ("passed", "failed", "running"))
    ended, client = {older, newer}, browse("viewer")
    assert set(chosen(client)) == ended
    for side, other in ((older, newer), (newer, older)):
        assert chosen(client, f"?candidate={side}") == [other, side]
        assert chosen(client, f"?baseline={side}") == [side, other]
    assert chosen(client, f"?candidate={live}")[1] == live


def test_thousands_of_tasks_are_compared_in_windows_that_say_so(site: Site, browse: Browser) -> None:
    good, bad = make_run(site, "passed"), make_run(site, "failed")
    for run in (good, bad):
        many_trials(run, 401)
    path, client = f"/runs/compare/?baseline={good.key}&candidate={bad.key}", browse("viewer")
    texts = [plain(client.get(f"{path}&from={first}").content.decode()) for first in (1, 201, 401, 999)]
    assert ["Tasks 1 to 200 of 401" in texts[0], "Tasks 201 to 400 of 401" in texts[1]] == [True, True]
    assert "Tasks 401 to 401 of 401" in texts[2] and texts[3] == texts[2]
    assert ["task-0200 " in text for text in texts[:2]] == [True, False]
    assert 'href="?baseline' in client.get(path).content.decode() and "from=201" in client.get(path).content.decode()


def test_a_run_compared_with_itself_says_so(site: Site, browse: Browser) -> None:
    run = make_run(site, "passed")
    text = plain(browse("viewer").get(f"/runs/compare/?baseline={run.key}&candidate={run.key}").content.decode())
    assert "Both sides are the same run" in text and "No task changed" in text


def test_how_many_fields_differ_is_counted_beyond_what_is_shown(
    site: Site, browse: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, other = make_run(site, "passed"), make_run(site, "failed", endpoint=site.other_endpoint)
    path, client = f"/runs/compare/?baseline={good.key}&candidate={other.key}", browse("viewer")
    whole = re.search(r"(\d+) of \d+ fields;", client.get(path).content.decode())
    monkeypatch.setattr("evidence.web.compare._SPEC_ROWS", 1)
    text = client.get(path).content.decode()
    cut = re.search(r"(\d+) of \d+ fields;", text)
    assert whole is not None and cut is not None and whole[1] == cut[1]
    assert f"{int(whole[1]) - 1} more fields differ and are not shown" in text
