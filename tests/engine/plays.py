"""The endpoint's answers in the gate's own runs: for each alias a play, for each task a part of it."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from runs.scripted.scripts import ALIAS_PREFIX, Mode, Step, spoken, task_of
from runs.scripted.server import Answer, answer_to, completion

type Part = Mode | list[Step]


@dataclass
class Stage:
    """Answers by alias and task, and remembers what the agent sent back: what its commands printed."""

    plays: Mapping[str, Mapping[str, Part]]
    heard: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: dict[str, Any]) -> Answer:
        alias, messages = str(request.get("model")), request["messages"]
        if "gpt-5" in alias and "max_tokens" in request:  # as those models answer
            error = {"code": "unsupported_parameter", "param": "max_tokens", "type": "invalid_request_error"}
            return Answer(400, {"error": error | {"message": "Use 'max_completion_tokens' instead."}})
        task = task_of(messages)
        if task is None:  # what a hostile command asks by itself
            return Answer(200, completion(alias, Step("Nothing to do.", "true"), messages))
        with self._lock:
            self.heard[alias, task.name] = messages
        part = self.plays[alias][task.name]
        if isinstance(part, Mode):
            return _renamed(answer_to({**request, "model": ALIAS_PREFIX + part}), ALIAS_PREFIX + part, alias)
        return Answer(200, completion(alias, part[min(spoken(messages), len(part) - 1)], messages))

    def forget(self, alias: str) -> None:
        with self._lock:
            self.heard = {place: messages for place, messages in self.heard.items() if place[0] != alias}

    def printed(self, alias: str, task: str) -> str:
        """What the agent's commands printed, as it told the endpoint; the agent leaves out the middle of much."""
        told = [message["content"] for message in self.heard[alias, task] if message["role"] == "tool"]
        return "\n".join(str(part) for content in told for part in json.loads(content).values())


def _renamed(answer: Answer, played: str, alias: str) -> Answer:
    body = answer.body
    return replace(answer, body={**body, "model": body["model"].replace(played, alias)}) if "model" in body else answer


def record(alias: str, base_url: str, key_file: str) -> dict[str, Any]:
    """The endpoint record of an alias; the credential is a file, so that no environment holds it."""
    return {
        "schema": "benchsite.endpoint/v1", "name": alias, "base_url": base_url, "model": alias,
        "served_model": None, "route": "direct", "credential": {"kind": "file", "name": key_file},
        "controls": ["max_tokens"], "request_timeout_s": 120, "scripted": True,
    }  # fmt: skip
