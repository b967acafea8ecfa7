"""A hostile agent in a real run gains nothing, the trial says what happened, and the next trial is unaffected.

Trial 1 forges results, fills disks, forks, allocates and looks for other machines; trial 2 plants links and
devices in its logs, leaves a process behind that rewrites its trajectory, and asks the endpoint by itself;
trial 3 is honest.
"""

import json
import re
from typing import Any

import pytest

from tests.engine.conftest import HOSTILE, EndedRun

pytestmark = pytest.mark.harbor_compatibility


def heard(run: EndedRun, task: str) -> str:
    return run.stage.printed(HOSTILE, task)


def observed(run: EndedRun, trial: int, event: str, **match: Any) -> list[dict[str, Any]]:
    lines = (run.folder / "trials" / str(trial) / "observed.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    return [e for e in events if e["event"] == event and all(e[name] == wanted for name, wanted in match.items())]


def ledger(run: EndedRun) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.folder / "ledger.jsonl").read_text().splitlines()]


def test_neither_hostile_trial_passed_and_the_run_did_not(hostile: EndedRun) -> None:
    assert [trial["bucket"] for trial in hostile.run["trials"]] == ["failed", "failed", "passed"]
    assert (hostile.run["verdict"], hostile.run["exit_code"], hostile.run["cleanup"]) == ("failed", 1, "clean")
    counts = hostile.run["counts"]
    assert (counts["evaluated"], counts["passed"], counts["failed"], counts["error"]) == (3, 1, 2, 0)


def test_forged_rewards_are_kept_as_evidence_and_are_not_the_reward(hostile: EndedRun) -> None:
    assert hostile.trial(1)["reward"] == 0
    (taken,) = observed(hostile, 1, "transfer", purpose="artifact", path="/app/output")
    assert {"reward.json", "reward.txt", "result.json"} <= {entry["path"] for entry in taken["entries"]}
    kept = hostile.folder / "trials" / "1" / "kept"
    assert (kept / "artifacts" / "app" / "output" / "reward.json").read_text() == '{"reward": 1}'
    assert (kept / "verifier" / "reward.json").read_text().strip() == '{"reward": 0}'
    # Where the agent wrote its rewards, the verifier has a folder of its own.
    (graded,) = observed(hostile, 1, "transfer", purpose="verifier_logs")
    assert {entry["path"] for entry in graded["entries"]} == {"reward.json", "test-stdout.txt"}


def test_every_disk_ends_at_its_size_and_the_root_takes_nothing(hostile: EndedRun) -> None:
    said = heard(hostile, "ledger-totals")
    sizes = dict(re.findall(r"(/\w+)/fill (\d+)", re.sub(r"(\d+)\t(\S+)", r"\2 \1", said)))
    assert sizes == {"/app": "64", "/logs": "64", "/root": "64", "/tmp": "128", "/tests": "8"}
    assert "no end of" not in said
    assert said.count("Read-only file system") == 4
    (counters,) = observed(hostile, 1, "counters", role="agent")
    assert counters["tmpfs"]["/app"] == {"size": 67108864, "used": 67108864}
    assert "tmpfs_full" in hostile.trial(1)["badges"]


def test_ten_thousand_forks_end_at_the_limit_and_are_counted(hostile: EndedRun) -> None:
    (forked, refused) = map(int, re.findall(r"forked (\d+) refused (\d+)", heard(hostile, "ledger-totals"))[0])
    limit = json.loads((hostile.folder / "spec.json").read_text())["limits"]["agent"]["pids"]
    assert forked < limit and forked + refused == 10_000
    (counters,) = observed(hostile, 1, "counters", role="agent")
    assert counters["pids_max"] >= refused
    assert "pids_limit_hit" in hostile.trial(1)["badges"]


def test_endless_memory_is_killed_at_the_limit_and_is_counted(hostile: EndedRun) -> None:
    assert "allocator ended with 137" in heard(hostile, "ledger-totals")
    (counters,) = observed(hostile, 1, "counters", role="agent")
    limit = json.loads((hostile.folder / "spec.json").read_text())["limits"]["agent"]["memory_bytes"]
    assert counters["oom_kill"] >= 1 and counters["memory_peak_bytes"] <= limit
    assert "oom_kills" in hostile.trial(1)["badges"]


def test_no_other_machine_port_or_name_is_reached(hostile: EndedRun) -> None:
    """The endpoint itself, this host by each of its addresses, the bridge of the run's network, TEST-NET-1, DNS."""
    said = heard(hostile, "ledger-totals")
    assert len(re.findall(r"not reached \S+ \d+", said)) == 9 and "REACHED" not in said
    assert said.count("not resolved") == 3 and "RESOLVED" not in said
    assert "no raw socket" in said and "RAW SOCKET" not in said


def test_links_and_pipes_are_refused_by_name_and_no_device_can_be_made(hostile: EndedRun) -> None:
    (logs,) = observed(hostile, 2, "transfer", purpose="agent_logs", direction="download")
    assert logs["outcome"] == "partial"
    refused = {refusal["path"]: refusal["code"] for refusal in logs["refusals"]}
    assert refused == {"pipe": "transfer.fifo", "passwd": "transfer.link"}
    assert "mknod: /logs/agent/device: Operation not permitted" in heard(hostile, "config-merge")
    (artifacts,) = observed(hostile, 2, "transfer", purpose="artifact", path="/app/output")
    assert (artifacts["outcome"], artifacts["code"]) == ("partial", "transfer.link")
    assert artifacts["refusals"] == [{"path": "link.json", "code": "transfer.link"}]
    kept = hostile.folder / "trials" / "2" / "kept"
    assert not [path for path in kept.rglob("*") if path.is_symlink() or not (path.is_file() or path.is_dir())]
    assert not [path for path in kept.rglob("*") if path.is_file() and b"root:x:0:0" in path.read_bytes()]
    assert (hostile.trial(2)["bucket"], hostile.trial(2)["reward"], hostile.trial(2)["code"]) == ("failed", 0, None)
    assert {"output_passed_over", "agent_logs_refused"} <= set(hostile.trial(2)["badges"])


def test_a_process_left_behind_rewrote_the_trajectory_and_is_dead_before_it_is_read(hostile: EndedRun) -> None:
    trajectory = hostile.folder / "trials" / "2" / "kept" / "agent" / "mini-swe-agent.trajectory.json"
    assert json.loads(trajectory.read_text()) == {"messages": ["x"]}
    killed = observed(hostile, 2, "killed_others")
    assert killed and {one["remaining"] for one in killed} == {0}
    (logs,) = observed(hostile, 2, "transfer", purpose="agent_logs", direction="download")
    assert killed[0]["seq"] < logs["seq"]


def test_the_trial_after_it_is_unaffected(hostile: EndedRun) -> None:
    third = hostile.trial(3)
    assert (third["bucket"], third["reward"], third["steps"], third["badges"]) == ("passed", 1, 4, [])
    assert "forged" not in heard(hostile, "file-tree")


def test_a_planted_mini_yaml_changes_no_prompt(hostile: EndedRun) -> None:
    """The file stood beside the task in trials 1 and 2; what the endpoint was asked began as ever."""
    for task in ("ledger-totals", "config-merge", "file-tree"):
        first = hostile.stage.heard[HOSTILE, task][0]
        assert first["role"] == "system" and "forged" not in str(first["content"])


def test_asking_by_itself_beyond_its_steps_or_for_anything_else_is_refused_and_told(hostile: EndedRun) -> None:
    spec = json.loads((hostile.folder / "spec.json").read_text())
    lines = [line for line in ledger(hostile) if line.get("trial") == 2]
    answered = [line for line in lines if line["kind"] == "ok"]
    assert len(answered) == spec["controls"]["max_steps"] == hostile.trial(2)["steps"]
    refused = {line["code"] for line in lines if line["kind"] == "refused"}
    assert refused == {"body.model", "body.max_tokens", "body.stream", "steps_used_up"}
    (summary,) = [line for line in lines if line["kind"] == "summary"]
    assert summary["code"] == "steps_used_up" and summary["count"] > 0
    strangers = [line["code"] for line in ledger(hostile) if line.get("trial") is None and line["kind"] == "refused"]
    assert strangers.count("token") == 2 and strangers.count("path") >= 3
    # Its own requests are told apart from the agent's: they carry no session of Harbor's.
    assert sum(line["session_matches"] is False for line in answered) >= 20
    assert {"gateway_refusals", "session_mismatch", "step_limit_reached"} <= set(hostile.trial(2)["badges"])


def test_what_it_provoked_chose_no_endpoint_class(hostile: EndedRun) -> None:
    """A refusal by the gateway never chooses a class by itself, since an agent can provoke it (design 5)."""
    assert (hostile.trial(2)["class"], hostile.trial(2)["bucket"]) == (None, "failed")
    assert ledger(hostile)[-1]["kind"] == "closed"
