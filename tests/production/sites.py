"""A site in processes of its own: settings from the environment, PostgreSQL, a data folder."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.postgresql import server_programs

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Site:
    """Where a site keeps what it has, and how its commands are called."""

    data: Path
    database: str
    evidence: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        elsewhere = json.dumps({"location": str(self.evidence)})
        return {
            "PATH": f"{server_programs()}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.data.parent),
            "BENCHSITE_DATA": str(self.data),
            "DATABASE_URL": self.database,
            **({"BENCHSITE_EVIDENCE_OPTIONS": elsewhere} if self.evidence else {}),
        }

    def manage(self, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
        """Call a command, whatever its exit code."""
        command = [sys.executable, str(ROOT / "manage.py"), *arguments]
        environment = self.environment | more
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)

    def done(self, *arguments: str, **more: str) -> str:
        """What a command prints; it must end with exit code 0."""
        finished = self.manage(*arguments, **more)
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished.stdout

    def script(self, name: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
        """Run a script of docs/production with the site's environment."""
        command = [str(ROOT / "docs/production" / name), *map(str, arguments)]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120)

    def finished_run(self) -> str:
        """The id of a new finished run with evidence."""
        command = [sys.executable, "-m", "tests.production.finished_run"]
        done = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def ask(self, statement: str) -> list[tuple[object, ...]]:
        """The rows that a statement gives; [] for one that gives none."""
        with psycopg.connect(self.database) as connection:
            answered = connection.execute(statement.encode())
            return answered.fetchall() if answered.description else []


@contextmanager
def new_database(server: str, name: str, template: str = "template1") -> Iterator[str]:
    """The URL of a new database on the scratch server, empty or a copy of another."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'create database "{name}" template "{template}"'.encode())
    yield urlsplit(server)._replace(path=f"/{name}").geturl()
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'drop database "{name}" with (force)'.encode())
