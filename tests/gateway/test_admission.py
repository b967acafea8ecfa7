"""One request at a time per trial, as many as it has steps, and tokens that only the run key can make."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.engine.network.gateway import new_run_key, trial_token
from runs.images.gateway.model_gateway import tokens as gateway_tokens
from runs.images.gateway.model_gateway.admission import Desk, NotAdmitted
from runs.images.gateway.model_gateway.tokens import TokenBook


def code(desk: Desk) -> str | None:
    try:
        with desk:
            return None
    except NotAdmitted as refusal:
        return refusal.code


def test_a_second_request_at_the_same_time_is_refused_and_a_later_one_is_not() -> None:
    desk = Desk(5)
    with desk:
        assert code(desk) == "busy"
    assert code(desk) is None


def test_after_a_refused_second_request_the_first_still_holds_the_desk() -> None:
    desk = Desk(5)
    with desk:
        assert [code(desk), code(desk)] == ["busy", "busy"]


def test_only_requests_that_go_to_the_endpoint_use_up_steps() -> None:
    desk = Desk(2)
    for _ in range(10):
        assert code(desk) is None
    for _ in range(2):
        with desk:
            desk.take_step()
    assert code(desk) == "steps_used_up"


def test_a_session_is_compared_with_the_first_one() -> None:
    desk = Desk(1)
    values = [None, b"a", b"a", b"b", None]
    assert [desk.compare_session(value) for value in values] == [None, True, True, False, False]


@given(st.binary(min_size=32, max_size=32), st.integers(min_value=1, max_value=10_000))
def test_the_engine_and_the_gateway_derive_the_same_token(run_key: bytes, trial: int) -> None:
    assert trial_token(run_key, trial) == gateway_tokens.derive_token(run_key, trial)


@given(st.binary(min_size=32, max_size=32))
def test_a_token_names_its_own_trial_and_no_other(run_key: bytes) -> None:
    book = TokenBook(run_key, 3)
    bearers = [f"Bearer {trial_token(run_key, trial)}".encode() for trial in range(1, 5)]
    assert [book.trial_of(bearer) for bearer in bearers] == [1, 2, 3, None]


@pytest.mark.parametrize("value", [b"", b"Bearer ", b"Bearer 1", b"Basic x", b"Bearer \xff", "Bearer ä".encode()])
def test_what_is_no_token_names_no_trial(value: bytes) -> None:
    assert TokenBook(b"k" * 32, 3).trial_of(value) is None


def test_run_keys_are_fresh() -> None:
    assert len({new_run_key() for _ in range(10)}) == 10
