"""The scripted endpoint of the crash matrix: solves the task, counts conversations, can keep an agent waiting."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from runs.scripted.scripts import ALIAS_PREFIX, Mode, spoken, task_of
from runs.scripted.server import Answer, ScriptedServer, answer_to

ALIAS = "crash"
KEY = "scripted-key-of-the-crash-matrix"
WAITS_AT = 2  # answers already given when an agent is kept waiting


@dataclass
class Endpoint:
    """`begun` counts conversations: an agent that is executed twice begins a second one."""

    begun: int = 0
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    armed: bool = False

    def arm(self) -> None:
        self.reached, self.released, self.armed = threading.Event(), threading.Event(), True

    def release(self) -> None:
        self.armed = False
        self.released.set()

    def answer(self, request: dict[str, Any]) -> Answer:
        messages = request.get("messages") or []
        said = spoken(messages)
        # What a worker asks by itself, whether the endpoint is ready, is no conversation about a task.
        self.begun += said == 0 and task_of(messages) is not None
        if self.armed and said == WAITS_AT:
            self.armed = False
            self.reached.set()
            self.released.wait()
        given = answer_to({**request, "model": ALIAS_PREFIX + Mode.POSITIVE})
        return Answer(given.status, {**given.body, "model": request.get("model")}, given.delay_s)


class _Server(ScriptedServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """An agent that was killed does not wait for its answer."""


@contextmanager
def serving(endpoint: Endpoint, address: str) -> Iterator[str]:
    """Serve on `address`, in the network namespace of the calling thread; gives the base URL."""
    with _Server(address, 0, KEY, answer=endpoint.answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            yield f"http://{address}:{server.port}/v1"
        finally:
            endpoint.release()
            server.shutdown()
            thread.join(5)
