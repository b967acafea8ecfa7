"""A PostgreSQL server of the test's own, which may be restarted under a run; its port is our network namespace's."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.postgresql import server_programs

PORT = 54331


@dataclass
class OwnDatabase:
    """A running cluster in `folder`, run by the user ``postgres`` when we are root."""

    folder: Path

    @property
    def url(self) -> str:
        return f"postgresql://crash@127.0.0.1:{PORT}/postgres"

    def start(self) -> None:
        options = f"-c listen_addresses=127.0.0.1 -c port={PORT} -c unix_socket_directories={self.folder} -c fsync=off"
        self._control("-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        """At once, as when its machine is switched off: every connection breaks."""
        self._control("-m", "immediate", "stop")

    def rows(self, query: str, *values: object) -> list[Any]:
        """The first column of a query's rows; `?` stands for a value."""
        with psycopg.connect(self.url) as connection:
            return [row[0] for row in connection.execute(query.replace("?", "%s"), values)]  # type: ignore[arg-type]

    def _control(self, *arguments: str) -> None:
        self.run("pg_ctl", "-D", str(self.folder / "data"), *arguments)

    def run(self, program: str, *arguments: str) -> None:
        as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        command = [*as_user, str(server_programs() / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self.folder)


@contextmanager
def own_database() -> Iterator[OwnDatabase]:
    folder = Path(tempfile.mkdtemp(prefix="bs-pg-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    database = OwnDatabase(folder)
    try:
        database.run("initdb", "-D", str(folder / "data"), "-U", "crash", "--auth=trust", "-E", "UTF8", "--no-sync")
        database.start()
        yield database
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            database.stop()
        shutil.rmtree(folder, ignore_errors=True)
