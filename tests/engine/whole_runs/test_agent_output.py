"""Links beside a right answer void nothing in a real run, and spoiling a trial gains nothing over failing it.

Trial 1 solves its task, leaves ten thousand files, fills its disk and kills its own agent; trial 2 is wrong and leaves
links; trial 3 is right and leaves the same links.
"""

import json
from typing import Any

import pytest

from tests.engine.conftest import EndedRun

pytestmark = pytest.mark.harbor_compatibility


def transfer(run: EndedRun, trial: int, purpose: str) -> dict[str, Any]:
    lines = (run.folder / "trials" / str(trial) / "observed.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    found = [event for event in events if event.get("purpose") == purpose and event["path"] == "/app/output"]
    return found[-1]


def by_path(entries: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    return sorted((entry["path"], entry["size"], entry["sha256"]) for entry in entries)


def test_a_spoiled_trial_is_a_failure_like_a_wrong_one(outputs: EndedRun) -> None:
    found = [(trial["bucket"], trial["reward"], trial["code"]) for trial in outputs.run["trials"]]
    assert found == [("failed", 0, "failed.output_refused"), ("failed", 0, None), ("passed", 1, None)]
    counts = outputs.run["counts"]
    assert (outputs.run["verdict"], counts["evaluated"], counts["error"]) == ("failed", 3, 0)


def test_the_spoiled_output_was_refused_and_its_agent_seen_to_die(outputs: EndedRun) -> None:
    assert transfer(outputs, 1, "artifact")["code"] == "output.too_many"
    assert {"agent_exited_nonzero", "tmpfs_full"} <= set(outputs.trial(1)["badges"])


@pytest.mark.parametrize("trial", [2, 3])
def test_the_verifier_got_the_plain_files_and_the_rest_is_listed(outputs: EndedRun, trial: int) -> None:
    taken, given = transfer(outputs, trial, "artifact"), transfer(outputs, trial, "artifacts_in")
    assert taken["outcome"] == "partial"
    assert taken["refused"] == {"transfer.fifo": 1, "transfer.link": 1, "transfer.name": 1}
    assert {refusal["path"] for refusal in taken["refusals"]} == {"latest", "pipe", r"app/output/n\xa0b.txt"}
    assert by_path(given["entries"]) == by_path(taken["entries"])
    assert "b.txt" in {entry["path"] for entry in given["entries"]}
    assert "output_passed_over" in outputs.trial(trial)["badges"]
