"""The limit that stopped a trial, and whether it was graded before: the rules of the limits by themselves."""

import pytest

from evidence.reading.observed import Exec
from evidence.trial.deadlines import LIMIT_SLACK_S, moment_after, stopped_at_limit


def command(exit_code: int | None, duration_s: float, *, timed_out: bool = False) -> Exec:
    return Exec(
        seq=1,
        at="2026-01-01T00:00:00.000000Z",
        mono=1000.0,
        role="agent",
        purpose="agent",
        exit_code=exit_code,
        duration_s=duration_s,
        started_mono=100.0,
        timed_out=timed_out,
        cancelled=False,
        orphaned=False,
        output_bytes=0,
        output_truncated=False,
    )


@pytest.mark.parametrize(
    ("found", "limit", "stopped"),
    [
        (command(0, 1.0, timed_out=True), 300.0, True),
        (command(None, 1.0, timed_out=True), None, True),
        (command(None, 299.0), 300.0, True),
        (command(None, 298.9), 300.0, False),
        (command(None, 500.0), 300.0, True),
        (command(0, 500.0), 300.0, False),
        (command(137, 300.0), 300.0, False),
        (command(None, 500.0), None, False),
    ],
)
def test_a_command_was_stopped_at_its_limit(found: Exec, limit: float | None, stopped: bool) -> None:
    assert stopped_at_limit(found, limit) is stopped


def test_the_slack_is_a_second() -> None:
    assert LIMIT_SLACK_S == 1.0


@pytest.mark.parametrize(
    ("start", "limit", "found"),
    [
        ("2026-01-01T00:00:00Z", 90.0, "2026-01-01T00:01:30+00:00"),
        ("2026-01-01T00:00:00", 0.0, "2026-01-01T00:00:00"),
        ("soon", 90.0, None),
        (None, 90.0, None),
        ("2026-01-01T00:00:00Z", None, None),
    ],
)
def test_a_limits_moment_needs_its_beginning(start: object, limit: float | None, found: str | None) -> None:
    assert moment_after(start, limit) == found
