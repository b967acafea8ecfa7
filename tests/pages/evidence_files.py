"""A run's folder with believable files, ingested as the worker does it."""

import json
import tempfile
from pathlib import Path
from typing import Any

from evidence.register.ingest import ingest
from runs.models import Run, Trial
from tests.evidence.transcripts import Conversation, call, said

COMMANDS = (
    ("Look at what is there first.", "ls -la /app", 0, "total 12\n-rw-r--r-- 1 root root 812 ledger.csv\n"),
    (
        "The file has malformed lines; count them.",
        "grep -vc '^[a-z]' /app/ledger.csv",
        1,
        "grep: /app/ledger.cvs: No such file\n",
    ),
    (
        "A typo in the name. Again.",
        "wc -l /app/ledger.csv && head -3 /app/ledger.csv",
        0,
        "41 /app/ledger.csv\nalice,10\nbob,20\n",
    ),
    ("Sum by account and skip what cannot be read.", "python3 /app/sum.py > /app/totals.json", 0, ""),
    ("Check the result.", "cat /app/totals.json", 0, "".join(f'"account-{n}": {n * 10},\n' for n in range(60))),
    ("Done.", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", 0, "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n"),
)


def native_trajectory(steps: int = 6) -> dict[str, Any]:
    """mini-swe-agent's own format; one step per command, the second of each six fails."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a helpful assistant that can interact with a computer."},
        {"role": "user", "content": "Write the totals per account of /app/ledger.csv to /app/totals.json."},
    ]
    for number in range(steps):
        thought, command, code, output = COMMANDS[number % len(COMMANDS)]
        call_id = f"call-{number}"
        call = {
            "id": call_id,
            "type": "function",
            "function": {"name": "bash", "arguments": json.dumps({"command": command})},
        }
        message = {"role": "assistant", "content": thought, "tool_calls": [call]}
        usage = {"prompt_tokens": 900 + 40 * number, "completion_tokens": 60, "total_tokens": 960 + 40 * number}
        response = {"choices": [{"message": message}], "model": "coder-medium", "usage": usage}
        messages.append({**message, "extra": {"response": response, "timestamp": 1_795_000_000 + 4 * number}})
        messages.append(
            {
                "role": "tool",
                "tool_call_id": call_id,
                "content": output,
                "extra": {"returncode": code, "raw_output": output},
            }
        )
    messages.append({"role": "exit", "content": "", "extra": {"exit_status": "Submitted", "submission": ""}})
    return {
        "info": {
            "exit_status": "Submitted",
            "submission": "",
            "mini_version": "2.4.6",
            "model_stats": {"api_calls": steps, "instance_cost": 0},
        },
        "messages": messages,
        "trajectory_format": "mini-swe-agent-1.1",
    }


def conversation() -> dict[str, bytes]:
    """Trial 1 as the gateway saw it, with its ledger and an agent's own file that tells some of it otherwise."""
    talk, own = Conversation(), native_trajectory()
    talk.ask(*own["messages"][:2])
    for number, (thought, command, code, output) in enumerate(COMMANDS):
        talk.answer(said(thought, call(f"call-{number}", command)))
        content = json.dumps({"returncode": code, "output": output})
        talk.ask({"role": "tool", "tool_call_id": f"call-{number}", "content": content})
    talk.fail(b'{"error": {"message": "The server is overloaded."}}', kind="upstream_error", code="status", status=503)
    forged = own["messages"][6]
    forged["content"] = forged["extra"]["response"]["choices"][0]["message"]["content"] = "It reads well at once."
    return {
        "ledger.jsonl": talk.whole_ledger,
        "trials/1/transcript.jsonl": talk.file,
        "trials/1/kept/agent/mini-swe-agent.trajectory.json": json.dumps(own).encode(),
    }


def keep(run: Run, extra: dict[str, bytes] | None = None, secrets: tuple[str, ...] = ()) -> None:
    """Register evidence for every started trial of ``run``; ``extra`` are more files by relative path."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "work").mkdir()
        _write(folder, "spec.json", run.spec.encode())
        _write(folder, "run.json", json.dumps({"schema": "benchsite.run-facts/v1", "run_id": run.key}).encode())
        _write(folder, "journal.json", b"{}")
        _write(folder, "ledger.jsonl", b"")
        for trial in run.trials.filter(started_at__isnull=False):
            _trial(folder, trial)
        for path, data in (extra or {}).items():
            _write(folder, path, data)
        ingest(run, folder, secrets=secrets)


def _trial(folder: Path, trial: Trial) -> None:
    base = f"trials/{trial.ordinal}"
    _write(folder, f"{base}/harbor.log", b"harbor run --config config.json --yes\n" * 40)
    _write(folder, f"{base}/observed.jsonl", b'{"seq":0,"event":"opened"}\n')
    if trial.failure_code == "incomplete.agent_deadline" or trial.bucket == "cancelled":
        _write(folder, f"{base}/kept/agent/mini-swe-agent.txt", b"step 1\nstep 2\n")
        return
    trajectory = json.dumps(native_trajectory((trial.steps or 5) - 1)).encode()
    _write(folder, f"{base}/kept/agent/mini-swe-agent.trajectory.json", trajectory)
    if trial.bucket:
        reward = {"passed": b'{"reward": 1}', "failed": b'{"reward": 0}'}.get(trial.bucket, b'{"reward": true}')
        _write(folder, f"{base}/kept/verifier/reward.json", reward)
        _write(folder, f"{base}/kept/verifier/test-stdout.txt", b"+ cd /tests\n.....      [100%]\n5 passed in 1.84s\n")


def _write(folder: Path, path: str, data: bytes) -> None:
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
