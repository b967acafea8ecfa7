"""The lines that people read while a run lives, made from what the attendant observed."""

from typing import Any

from runs.engine.trials.trial_process import Reason
from runs.services import runlog


class RunLog:
    """Writes the run's log in words of our own; text from inside a container never enters it."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._stage: dict[int, str] = {}

    def say(self, text: str, *, source: str = "engine") -> None:
        runlog.append_log(self._run_id, [runlog.Line(source=source, text=text)])

    def observed(self, ordinal: int, event: dict[str, Any]) -> str | None:
        """Log one event of the attendant; returns the trial's new stage when it changed."""
        text = _words(event)
        if text is not None:
            self.say(f"Trial {ordinal}: {text}", source="harness")
        stage = _stage(event)
        if stage is None or self._stage.get(ordinal) == stage:
            return None
        self._stage[ordinal] = stage
        return stage

    def trial_ended(self, ordinal: int, reason: Reason) -> None:
        if reason.deadline is not None:
            self.say(f"Trial {ordinal}: stopped at the {reason.deadline}'s limit")
        elif reason.cancelled:
            self.say(f"Trial {ordinal}: stopped, a cancellation was asked for")
        else:
            self.say(f"Trial {ordinal}: its harness process ended")


def _stage(event: dict[str, Any]) -> str | None:
    match event:
        case {"event": "opened", "role": "verifier"}:
            return "verifier"
        case {"event": "opened"}:
            return "setup"
        case {"event": "agent_version"}:
            return "agent"
    return None


def _words(event: dict[str, Any]) -> str | None:
    role = "verifier" if event.get("role") == "verifier" else "agent"
    match event:
        case {"event": "opened", "container_id": str(container)}:
            return f"{role} container {container[:12]} started"
        case {"event": "agent_version", "version": version}:
            return f"agent version {version} found in the container" if version else "agent version not found"
        case {"event": "exec", "purpose": "agent" | "verifier" as purpose, "exit_code": code}:
            return f"{purpose} ended with exit code {'not recorded' if code is None else code}"
        case {"event": "transfer", "outcome": "refused" | "failed" as outcome, "purpose": str(purpose)}:
            return f"transfer of {purpose} {outcome} ({event.get('code')})"
        case {"event": "failure", "code": str(code)}:
            return f"{role} environment failed: {code}"
        case {"event": "removed", "outcome": outcome}:
            return f"{role} container {outcome}"
    return None
