"""An endpoint that fails, end to end: the class comes from the ledger, and a grade that came anyway is not counted."""

import json

import pytest

from tests.engine.conftest import EndedRun

pytestmark = pytest.mark.harbor_compatibility


@pytest.mark.parametrize(
    ("ordinal", "code", "kinds"),
    [
        pytest.param(1, "serving_runtime.upstream_status", ["upstream_error"], id="unavailable"),
        pytest.param(2, "serving_runtime.malformed_answer", ["malformed"], id="malformed"),
        pytest.param(3, "serving_runtime.upstream_status", ["ok", "ok", "upstream_error"], id="late failure"),
    ],
)
def test_each_failure_is_asked_once_and_is_the_serving_runtimes(
    failing: EndedRun, ordinal: int, code: str, kinds: list[str]
) -> None:
    """Exactly one request to a failing endpoint: no retry of Harbor's, the agent's or the client's."""
    trial = failing.trial(ordinal)
    assert (trial["bucket"], trial["class"], trial["code"]) == ("error", "serving_runtime", code)
    lines = [json.loads(line) for line in (failing.folder / "ledger.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines if line.get("trial") == ordinal] == kinds
    config = json.loads((failing.folder / "trials" / str(ordinal) / "config.json").read_text())
    assert config["retry"]["max_retries"] == 0 and config["n_attempts"] == 1 and config["n_concurrent_trials"] == 1


def test_a_reward_that_came_after_a_late_failure_is_kept_and_not_counted(failing: EndedRun) -> None:
    trial = failing.trial(3)
    assert (trial["reward"], trial["bucket"]) == (None, "error") and "reward_not_counted" in trial["badges"]
    counts = failing.run["counts"]
    assert (counts["requested"], counts["evaluated"], counts["passed"], counts["error"]) == (3, 0, 0, 3)
    assert (failing.run["verdict"], failing.run["exit_code"], failing.run["cleanup"]) == ("incomplete", 4, "clean")
