"""Run by the Harbor environment's interpreter: judges the trajectories and rewards given on standard input.

Prints JSON: for each trajectory the problem's code or null, and what Harbor's own adapter raises on it.
"""

import json
import logging
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

from harbor.agents.installed.mini_swe_agent import MiniSweAgent
from harbor.models.agent.context import AgentContext

from runs.harness import downloads


def judge(text: str) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / downloads.NATIVE_TRAJECTORY).write_text(text)
        code = downloads.agent_logs_problem(folder)
        adapter = SimpleNamespace(logs_dir=folder, logger=logging.getLogger("x"), session_id="s")
        try:
            MiniSweAgent.populate_context_post_run(adapter, AgentContext())
            raised = None
        except Exception as error:
            raised = type(error).__name__
        return {"code": code, "raised": raised}


def given_to_harbor(files: dict[str, str]) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        kept, target = Path(name) / "kept", Path(name) / "target"
        kept.mkdir()
        for path, text in files.items():
            (kept / path).write_text(text)
        downloads.verifier_logs(kept, target)
        return sorted(path.name for path in target.iterdir())


cases = json.load(sys.stdin)
logging.disable(logging.CRITICAL)
json.dump(
    {
        "trajectories": [judge(text) for text in cases["trajectories"]],
        "rewards": [given_to_harbor(files) for files in cases["rewards"]],
    },
    sys.stdout,
)
