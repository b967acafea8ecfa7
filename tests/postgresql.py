"""A PostgreSQL cluster of its own, thrown away afterwards; needs the server's programs (Debian: postgresql)."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote


@contextmanager
def scratch_postgresql() -> Iterator[str]:
    """The URL of a database on a Unix socket; the server runs as the user ``postgres`` when we are root."""
    programs = server_programs()
    folder = Path(tempfile.mkdtemp(prefix="benchsite-pg-"))
    as_user = []
    if os.geteuid() == 0:
        as_user = ["runuser", "-u", "postgres", "--"]
        shutil.chown(folder, "postgres", "postgres")
    data = folder / "data"

    def run(*arguments: str) -> None:
        subprocess.run([*as_user, *arguments], check=True, stdout=subprocess.DEVNULL, cwd=folder)

    run(str(programs / "initdb"), "-D", str(data), "-U", "bench", "--auth=trust", "--encoding=UTF8", "--no-sync")
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    try:
        run(str(programs / "pg_ctl"), "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start")
        yield f"postgresql://bench@/postgres?host={quote(str(folder), safe='')}"
    finally:
        run(str(programs / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def server_programs() -> Path:
    """The newest installed server's folder of programs, pg_dump and pg_restore among them."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    found = found or [Path(shutil.which("initdb") or "")]
    if not found[-1].is_file():
        raise SystemExit("PostgreSQL's server programs are missing; install the package postgresql.")
    return found[-1].parent
