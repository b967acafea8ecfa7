"""A whole site for a real browser: web server, worker, queue, engine and Harbor are all real processes.

Only the model is scripted: it answers as its alias says, and waits where a test holds it.
"""

import secrets
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runs.scripted.scripts import TASKS, Mode, task_of
from runs.scripted.server import Answer
from tests.engine.plays import Stage
from tests.engine.site import GateSite, prepared_site, serving, wait_until
from tests.pages.factories import PASSWORD

FIRST, SECOND = TASKS[0].name, TASKS[1].name
HOLD_S = 120.0
_PEOPLE = """
import os
from django.contrib.auth.models import Group, User
for name, role, staff in (("operator-1", "operator", False), ("admin-1", "admin", True)):
    user = User.objects.create_user(name, password=os.environ["PASSWORD"], is_staff=staff)
    user.groups.set(Group.objects.filter(name=role))
"""


@dataclass
class HeldStage(Stage):
    """A stage on which the model waits before it says anything about a held task."""

    held: dict[tuple[str, str], threading.Event] = field(default_factory=dict)

    def answer(self, request: dict[str, Any]) -> Answer:
        task = task_of(request["messages"])
        gate = self.held.get((str(request.get("model")), task.name if task else ""))
        if gate is not None:
            gate.wait(HOLD_S)
        return super().answer(request)

    def hold(self, alias: str, task: str) -> threading.Event:
        """Let the model wait with its first words about ``task`` until the event is set."""
        return self.held.setdefault((alias, task), threading.Event())


@dataclass(frozen=True)
class RealSite:
    """Where the site answers, its data and commands, the model's address and what it plays."""

    url: str
    site: GateSite
    stage: HeldStage
    base_url: str
    key_file: Path

    def plays(self, alias: str, mode: Mode) -> None:
        self.stage.plays = {**self.stage.plays, alias: {task.name: mode for task in TASKS}}


@contextmanager
def real_site() -> Iterator[RealSite]:
    """Prepared, with two people, serving; everything is stopped and removed afterwards."""
    site = prepared_site()
    key = f"sk-{secrets.token_urlsafe(18)}"
    key_file = site.data / "endpoint-key"
    key_file.touch(0o600)
    key_file.write_text(key + "\n")
    stage = HeldStage({})
    try:
        site.done("shell", "-v0", "-c", _PEOPLE, PASSWORD=PASSWORD)
        with serving(stage, key) as base_url, _web(site) as url, site.worker():
            yield RealSite(url, site, stage, base_url, key_file)
    finally:
        for gate in stage.held.values():
            gate.set()
        site.stop_queue()
        shutil.rmtree(site.data)


@contextmanager
def _web(site: GateSite) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", port]
    with (site.data / "web.log").open("ab") as log:
        command += ["--no-ws", "--no-access-log", "benchsite.wsgi:application"]
        server = subprocess.Popen(command, env=site.environment, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: server.poll() is not None or _answers(url))
        assert server.poll() is None, (site.data / "web.log").read_text()
        yield url
    finally:
        server.terminate()
        server.wait(120)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/sign-in/", timeout=5).close()
    except OSError:
        return False
    return True
