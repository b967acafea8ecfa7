"""Nothing but the attendant's own errors leaves it, and none of them can be taken for an agent's timeout."""

import asyncio

import pytest
import requests

from runs.containers import EngineError
from runs.ownership import Fenced
from runs.wire import failures
from runs.wire.failures import AttendantError, translated


def own_types() -> list[type[AttendantError]]:
    found = [value for value in vars(failures).values() if isinstance(value, type)]
    return [value for value in found if issubclass(value, AttendantError)]


def test_no_own_error_is_a_timeout_error() -> None:
    assert len(own_types()) > 5
    assert not any(issubclass(kind, TimeoutError) for kind in own_types())


@pytest.mark.parametrize("error", [TimeoutError(), requests.Timeout(), OSError(28, "no space"), RuntimeError("x")])
def test_foreign_errors_become_own_ones_and_keep_the_detail_private(error: Exception) -> None:
    with pytest.raises(AttendantError) as caught, translated("exec"):
        raise error
    assert caught.value.code == "engine.exec"
    assert type(error).__name__ in caught.value.detail
    assert caught.value.detail not in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [EngineError("engine_timeout", "Slow.", "private"), Fenced("fenced", "Stopped.", "private")],
)
def test_an_error_with_a_code_keeps_it(error: Exception) -> None:
    with pytest.raises(AttendantError) as caught, translated("start"):
        raise error
    assert caught.value.code in ("engine_timeout", "fenced")
    assert "private" not in str(caught.value)


def test_a_cancellation_passes_through_untouched() -> None:
    with pytest.raises(asyncio.CancelledError), translated("exec"):
        raise asyncio.CancelledError
