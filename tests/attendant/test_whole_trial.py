"""Whole trials through the real launcher and the real Harbor: what comes out, and in which order."""

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evidence.harbor.applied import config_differences, lock_differences, trial_lock_differences
from runs.ownership import ResourceStage, Role
from tests.attendant.real_parts import Bench
from tests.attendant.whole_trial import TASK_TOML, TOKEN, run_trial, spec_of

pytestmark = pytest.mark.harbor_compatibility

SOLVE = "mkdir -p /app/output && echo 42 > /app/output/answer.txt"
TRAJECTORY = "mini-swe-agent.trajectory.json"


def load(path: Path) -> object:
    return json.loads(path.read_text())


def contents(transfer: dict[str, Any]) -> list[tuple[str, int, str]]:
    """What went over, without the times, which only a download has."""
    return sorted((entry["path"], entry["size"], entry["sha256"]) for entry in transfer["entries"])


def wait_until(holds: Callable[[], object], limit_s: float = 120.0) -> None:
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        time.sleep(0.05)


def works(bench: Bench, command: str) -> bool:
    """Whether the agent carries this command out, and the verifier's container stands ready beside it."""
    started = {r.intent.role: r.resource_id for r in bench.journal.read().resources if r.stage is ResourceStage.STARTED}
    agent = started.get(Role.AGENT)
    running = bench.running_in(agent) if agent is not None and Role.VERIFIER in started else []
    return any(line.endswith(command) for line in running)


def test_a_solved_task_is_graded_by_its_verifier_and_everything_is_on_record(bench: Bench) -> None:
    ended = run_trial(bench, ["cat /app/question.txt", SOLVE])
    assert ended.exit_code == 0, ended.log
    result = ended.result
    assert result["verifier_result"] == {"rewards": {"reward": 1}}
    assert result["exception_info"] is None

    (agent, verifier) = ended.of("opened")
    assert (agent["role"], agent["image_id"]) == ("agent", bench.parts.agent)
    assert (verifier["role"], verifier["image_id"], verifier["network"]) == (
        "verifier",
        bench.parts.verifier,
        None,
    )
    assert agent["trial_uuid"] == verifier["trial_uuid"] == result["id"]
    resources = [r for r in bench.journal.read().resources if r.intent.trial == 1]
    assert {r.intent.trial_uuid for r in resources} == {result["id"]}

    (version,), (command,), (graded,) = (
        ended.of("agent_version"),
        ended.of("exec", purpose="agent"),
        ended.of("exec", purpose="verifier"),
    )
    assert (version["version"], command["exit_code"], graded["exit_code"]) == ("2.4.6", 0, 0)
    assert version["mono"] < command["started_mono"]
    assert {event["outcome"] for event in ended.of("transfer", role="verifier")} == {"ok"}
    assert {event["outcome"] for event in ended.of("removed")} == {"removed"}
    assert ended.of("failure") == []
    assert [event["seq"] for event in ended.events] == list(range(len(ended.events)))

    told = load(ended.directory / "config.json")
    assert isinstance(told, dict)
    assert config_differences(told, load(ended.directory / "job/config.json")) == []
    assert lock_differences(told, load(ended.directory / "job/lock.json"), harbor_version="0.22.0") == []
    assert trial_lock_differences(told, load(ended.harbor_folder / "lock.json")) == []


def test_what_the_verifier_got_is_byte_for_byte_what_the_agents_container_gave(bench: Bench) -> None:
    ended = run_trial(bench, [SOLVE])
    (taken,) = ended.of("transfer", purpose="artifact", path="/app/output")
    (given,) = ended.of("transfer", purpose="artifacts_in", path="/app/output")
    assert contents(taken) == contents(given) != []
    assert (ended.directory / taken["kept"] / "answer.txt").read_text() == "42\n"
    assert (ended.directory / "kept/verifier/reward.json").read_text() == '{"reward": 1}'


LINKS = "cd /app/output && ln answer.txt b.txt; ln -s answer.txt latest; touch $'n\\u00a0b.txt'; mkfifo pipe"


@pytest.mark.parametrize(("answer", "reward"), [(42, 1), (41, 0)])
def test_links_among_the_outputs_leave_the_grade_to_the_content(bench: Bench, answer: int, reward: int) -> None:
    """What the verifier got is exactly what was taken, the hard link as a file of its own."""
    ended = run_trial(bench, [SOLVE.replace("42", str(answer)), f"bash -c {shlex.quote(LINKS)}"])
    assert ended.result["verifier_result"] == {"rewards": {"reward": reward}}
    (taken,) = ended.of("transfer", purpose="artifact", path="/app/output")
    assert (taken["outcome"], taken["refused"]) == (
        "partial",
        {"transfer.fifo": 1, "transfer.link": 1, "transfer.name": 1},
    )
    (given,) = ended.of("transfer", purpose="artifacts_in", path="/app/output")
    assert given["outcome"] == "ok"
    assert contents(given) == contents(taken)
    assert [entry["path"] for entry in given["entries"]] == ["answer.txt", "b.txt"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("mkdir -p /app/output; ln -s /etc/passwd /app/output/answer.txt", "output.nothing_plain"),
        ("ln -s /app /app/output", "output.nothing_plain"),
        (f"{SOLVE}; truncate -s 8G /app/output/huge", "output.too_large"),
        (f"{SOLVE}; cd /app/output; seq 10000 | xargs touch", "output.too_many"),
    ],
)
def test_nothing_of_an_output_that_is_refused_as_a_whole_reaches_the_verifier(
    bench: Bench, line: str, code: str
) -> None:
    ended = run_trial(bench, [line])
    (taken,) = ended.of("transfer", purpose="artifact", path="/app/output")
    assert (taken["outcome"], taken["code"]) == ("refused", code)
    assert [event["files"] for event in ended.of("transfer", purpose="artifacts_in", path="/app/output")] in ([], [0])
    assert ended.result["verifier_result"] == {"rewards": {"reward": 0}}
    assert ended.of("failure") == []


def test_the_token_reaches_the_agent_and_no_file_of_the_run(bench: Bench) -> None:
    ended = run_trial(bench, [SOLVE])
    assert ended.result["verifier_result"]["rewards"] == {"reward": 1}
    found = [str(path) for path in bench.directory.rglob("*") if path.is_file() and TOKEN in path.read_text("latin-1")]
    assert found == []


def test_a_forged_reward_and_a_rewritten_trajectory_gain_nothing(bench: Bench) -> None:
    forge = (
        "mkdir -p /logs/verifier /app/output; echo '{\"reward\": 1}' > /logs/verifier/reward.json; "
        "echo 41 > /app/output/answer.txt; ln -s /etc/passwd /logs/agent/passwd; "
        "echo '{\"forged\": 1}' > /logs/agent/trajectory.json"
    )
    rewrite = f"while true; do printf '%s' '{{\"messages\": [\"x\"]}}' > /logs/agent/{TRAJECTORY}; done"
    leave = f"cat > /tmp/r.sh << 'END'\n{rewrite}\nEND\nsetsid nohup bash /tmp/r.sh >/dev/null 2>&1 &"
    ended = run_trial(bench, [forge, leave])
    assert ended.exit_code == 0, ended.log
    assert ended.result["verifier_result"] == {"rewards": {"reward": 0}}
    (logs,) = ended.of("transfer", purpose="agent_logs", direction="download")
    assert (logs["outcome"], logs["code"]) == ("partial", "transfer.link")
    assert {"path": "passwd", "code": "transfer.link"} in logs["refusals"]
    assert {event["remaining"] for event in ended.of("killed_others")} == {0}
    assert not (ended.harbor_folder / "agent" / "passwd").exists()
    assert "forged" not in "".join(path.read_text() for path in (ended.harbor_folder / "agent").glob("*.json"))


def test_a_failing_agent_ends_with_its_own_exit_code_and_is_still_graded(bench: Bench) -> None:
    ended = run_trial(bench, ["exit 1", "kill -9 $PPID; sleep 1"])
    (command,) = ended.of("exec", purpose="agent")
    assert command["exit_code"] not in (0, None)
    assert ended.result["exception_info"]["exception_type"] == "NonZeroAgentExitCodeError"
    assert ended.result["verifier_result"] == {"rewards": {"reward": 0}}


def test_an_agent_past_its_limit_is_killed_and_its_logs_are_kept(bench: Bench) -> None:
    ended = run_trial(bench, ["echo begun; sleep 25", "sleep 25"], spec=spec_of(bench, agent_s=12))
    assert ended.result["exception_info"]["exception_type"] == "AgentTimeoutError"
    (command,) = ended.of("exec", purpose="agent")
    assert (command["cancelled"], command["exit_code"]) == (True, None)
    assert {event["remaining"] for event in ended.of("killed_others")} == {0}
    assert (ended.directory / "kept/agent/mini-swe-agent.txt").exists()


def test_a_terminated_trial_saves_its_logs_and_removes_its_container_at_once(bench: Bench) -> None:
    stopped: list[float] = []

    def stop(process: subprocess.Popen[bytes], trial: Path) -> None:
        wait_until(lambda: works(bench, "sleep 25"))
        stopped.append(time.monotonic())
        bench.journal.fence("cancelled")
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(120)
        stopped.append(time.monotonic())

    ended = run_trial(bench, ["sleep 25"], meanwhile=stop)
    assert {event["outcome"] for event in ended.of("removed")} == {"removed"}
    assert [event["role"] for event in ended.of("opened")] == ["agent"]
    of_trial = [r for r in bench.journal.read().resources if r.intent.trial == 1]
    assert {r.stage for r in of_trial} == {ResourceStage.REMOVED}
    assert {r.intent.role for r in of_trial} == {Role.AGENT, Role.VERIFIER}
    assert (ended.directory / "kept/agent").is_dir()
    assert ended.result["exception_info"]["exception_type"] == "CancelledError"


def test_a_task_that_asks_for_another_network_is_refused_and_no_container_is_made(bench: Bench) -> None:
    open_network = TASK_TOML.replace('"allowlist"', '"public"').replace('allowed_hosts = ["model-gateway"]', "")
    ended = run_trial(bench, [SOLVE], files={"task.toml": open_network})
    assert ended.of("opened") == []
    (failure,) = ended.of("failure")
    assert (failure["where"], failure["code"]) == ("start", "start.refused")
    assert ended.result["exception_info"]["exception_type"] == "StartRefused"
    assert ended.result["verifier_result"] is None
