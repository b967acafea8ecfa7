"""A run's log is bounded, and says how much of it is gone."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase as HypothesisTestCase

from runs.models import LogLine, Run
from runs.models.resources import LOG_BYTES_KEPT, LOG_LINES_KEPT, LOG_TEXT_LIMIT
from runs.services.runlog import Line, append_log, read_log
from tests.runs.rows import run_row

pytestmark = pytest.mark.django_db


def lines(*texts: str) -> list[Line]:
    return [Line(source="engine", text=text) for text in texts]


def test_lines_come_back_in_order_from_a_cursor():
    run = run_row()
    append_log(run.pk, lines("a", "b"))
    append_log(run.key, lines("c"))
    window = read_log(run, cursor=1, limit=1)
    assert [line.text for line in window.lines] == ["b"] and window.next_cursor == 2
    assert [line.text for line in read_log(run, cursor=window.next_cursor).lines] == ["c"]
    assert read_log(run, cursor=3).lines == [] and read_log(run, cursor=3).next_cursor == 3


def test_a_long_line_is_cut_and_says_so():
    run = run_row()
    append_log(run.pk, lines("x" * (LOG_TEXT_LIMIT + 1), "y" * LOG_TEXT_LIMIT))
    first, second = read_log(run).lines
    assert (len(first.text), first.cut) == (LOG_TEXT_LIMIT, True)
    assert (len(second.text), second.cut) == (LOG_TEXT_LIMIT, False)


def test_what_no_database_stores_is_replaced():
    run = run_row()
    append_log(run.pk, lines("a\0b", "half \ud800 pair"))
    assert [line.text for line in read_log(run).lines] == ["a\N{REPLACEMENT CHARACTER}b", "half ? pair"]


def test_older_lines_are_dropped_and_counted():
    run = run_row()
    for start in range(0, LOG_LINES_KEPT + 50, 50):
        append_log(run.pk, lines(*[str(number) for number in range(start, start + 50)]))
    window = read_log(run, limit=LOG_LINES_KEPT + 1)
    assert len(window.lines) == LOG_LINES_KEPT and window.dropped == 50
    assert window.lines[0].text == "50"


def test_more_lines_at_once_than_are_kept():
    run = run_row()
    assert append_log(run.pk, lines(*[str(number) for number in range(LOG_LINES_KEPT + 7)])) == LOG_LINES_KEPT + 7
    window = read_log(run, limit=LOG_LINES_KEPT)
    assert (window.dropped, window.lines[0].seq, window.lines[0].text) == (7, 7, "7")


def test_the_bytes_are_bounded_too():
    run = run_row()
    for _ in range(5):
        append_log(run.pk, lines(*["\N{SNOWMAN}" * LOG_TEXT_LIMIT] * 20))
    kept = read_log(run, limit=1000).lines
    assert sum(line.size for line in kept) <= LOG_BYTES_KEPT < sum(line.size for line in kept) + kept[0].size
    assert read_log(run).dropped == 100 - len(kept)


def test_a_run_that_is_gone_takes_no_lines():
    assert append_log("0" * 32, lines("a")) == 0
    assert append_log(run_row().pk, []) == 0
    assert LogLine.objects.count() == 0


class TestAnyLog(HypothesisTestCase):
    @settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(st.integers(min_value=0, max_value=700), max_size=5))
    def test_kept_and_dropped_always_add_up(self, batches):
        run = run_row()
        for size in batches:
            append_log(run.pk, lines(*["line"] * size))
        kept = list(LogLine.objects.filter(run=run).values_list("seq", flat=True))
        now = Run.objects.get(pk=run.pk)
        assert len(kept) == min(sum(batches), LOG_LINES_KEPT)
        assert len(kept) + now.log_dropped == now.log_next == sum(batches)
        assert kept == list(range(now.log_dropped, now.log_next))
