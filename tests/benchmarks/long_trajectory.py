"""A trajectory of 100,000 steps and 200 MB, as mini-swe-agent writes it."""

import json
from pathlib import Path
from typing import TextIO

STEPS = 100_000


def write_trajectory(path: Path) -> None:
    filler = 'a line of output with "quotes" and a tab\t\n' * 13
    with path.open("w") as file:
        file.write('{"info": {"exit_status": "Submitted", "model_stats": {"api_calls": 50000}}, "messages": [')
        for number in range(STEPS):
            file.write(", " if number else "")
            _write_step(file, number, filler)
        file.write('], "trajectory_format": "mini-swe-agent-1.1"}')


def _write_step(file: TextIO, number: int, filler: str) -> None:
    function = {"name": "bash", "arguments": json.dumps({"command": f"echo {number}"})}
    said = {
        "role": "assistant",
        "content": f"step {number}",
        "tool_calls": [{"id": f"c{number}", "function": function}],
    }
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    response = {"choices": [{"message": said}], "usage": usage}
    json.dump({**said, "extra": {"response": response}}, file)
    file.write(", ")
    answer = {"role": "tool", "tool_call_id": f"c{number}", "content": filler}
    json.dump({**answer, "extra": {"raw_output": filler, "returncode": 0}}, file)
