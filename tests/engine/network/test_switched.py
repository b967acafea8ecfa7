"""A gateway of a stopped endpoint is ended even when the engine fails at first."""

import threading
from contextlib import nullcontext
from typing import Any

import pytest

from runs.containers import EngineError
from runs.engine.network import switched


class Gateway:
    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.ended = threading.Event()

    def end_traffic(self, api: object) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.ended.set()


def test_it_is_asked_again_until_the_engine_did_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switched, "_is_stopped", lambda endpoint: True)
    monkeypatch.setattr(switched, "connect", lambda timeout: nullcontext())
    monkeypatch.setattr(switched, "closing", lambda client: client)
    busy = EngineError("engine.busy", "The engine is busy.", "")
    gateway: Any = Gateway(busy, busy)
    with switched.ended_by_switch("any", gateway):
        assert gateway.ended.wait(60)
