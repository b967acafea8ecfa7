"""Becomes Harbor inside the sandbox: loads it ahead of its turn, waits for the go, runs it, and hands over its job.

Run as `python -I -m runs.harness.launch --socket FD` by the trial's attendant. Everything that Harbor reads of the run
comes over the socket with the go, and everything that it leaves goes back over it.
"""

import argparse
import gc
import importlib
import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from benchsite.lib.strict_json import JsonProblem, load_object
from runs.harness import client
from runs.wire import frames, tar_writer
from runs.wire.copies import KeptCopy
from runs.wire.failures import AttendantError
from runs.wire.frames import Closed, Violation
from runs.wire.tar_reader import Limits, unpack

LIMITS = Limits(256 * 1024 * 1024, 4096)
NOT_STARTED = 72
FIXED_VARIABLES = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "COLUMNS": "160",
    "HARBOR_TELEMETRY": "off",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "PYTHONDONTWRITEBYTECODE": "1",
}
# What Harbor and the provider would otherwise load only once a trial runs.
NEEDED_LATER = (
    "concurrent.futures.thread", "dirhash", "harbor.agents.installed.mini_swe_agent",
    "harbor.cli.job_plugins", "harbor.cli.job_sharing", "harbor.job", "harbor.trial.single_step",
    "harbor.verifier.verifier", "netrc", "rich._emoji_codes", "runs.harness.environment",
)  # fmt: skip


def main(arguments: list[str]) -> NoReturn:
    """Never returns: ends with Harbor's exit code, or with `NOT_STARTED`."""
    parser = argparse.ArgumentParser(prog="runs.harness.launch")
    parser.add_argument("--socket", type=int, required=True, help="the inherited end of the socket pair")
    connection = socket.socket(fileno=parser.parse_args(arguments).socket)
    prepare(Path.cwd())
    try:
        harbor = load_harbor()
        connection.sendall(frames.message({"do": "ready"}))
        go = receive_go(connection)
    except (ImportError, OSError, Closed, Violation, JsonProblem, ValueError) as error:
        print(f"Harbor does not start: {type(error).__name__}: {error}", file=sys.stderr)
        _leave(NOT_STARTED)
    client.connect(connection)
    code = run_harbor(harbor, go)
    send_job(connection, go.parent / "job", code)
    _leave(code)


def prepare(private: Path) -> None:
    """Nothing but fixed variables, with HOME and TMPDIR in the private folder."""
    os.umask(0o077)
    os.environ.clear()
    os.environ.update({**FIXED_VARIABLES, "HOME": str(private / "home"), "TMPDIR": str(private / "tmp")})
    for name in ("home", "tmp"):
        (private / name).mkdir(mode=0o700, exist_ok=True)


def load_harbor() -> Callable[..., Any]:
    """Harbor's command line as a callable, with everything loaded that a trial will need of it."""
    gc.disable()
    for name in NEEDED_LATER:
        importlib.import_module(name)
    app = importlib.import_module("harbor.cli.main").app
    command: Callable[..., Any] = importlib.import_module("typer.main").get_command(app)
    # What was loaded stays; there is no use in looking through it again and again.
    gc.freeze()
    gc.enable()
    return command


def receive_go(connection: socket.socket) -> Path:
    """Wait for the go and lay out the files that come with it; returns the path of Harbor's config."""
    said = load_object(frames.receive(connection).payload)
    if said.get("say") != "go":
        raise ValueError("no go")
    chunks = frames.receive_stream(connection, max_bytes=LIMITS.bytes + LIMITS.files * 4096)
    unpacked = unpack(chunks, "run", KeptCopy(Path(str(said["root"]))), LIMITS)
    if not unpacked.complete or unpacked.refusals:
        raise ValueError("the files of the run did not come whole")
    return Path(str(said["config"]))


def run_harbor(harbor: Callable[..., Any], config: Path) -> int:
    """`harbor run`; its exit code, as Python itself would make it of whatever ends it."""
    sys.argv = ["harbor", "run", "--config", str(config), "--yes"]
    try:
        harbor(prog_name="harbor")
    except SystemExit as error:
        return exit_code_of(error)
    except KeyboardInterrupt:
        return 130
    except BaseException as error:
        print(f"Harbor ended with {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def exit_code_of(error: SystemExit) -> int:
    """What Python itself would make of this exit."""
    if error.code is None:
        return 0
    return error.code & 0xFF if isinstance(error.code, int) else 1


def send_job(connection: socket.socket, job: Path, code: int) -> None:
    """The last message: Harbor's exit code, and its job folder as far as there is one."""
    upload = tar_writer.Upload("job", "/job")
    for artifacts in job.glob("*/artifacts"):  # the attendant has them, from where they came
        shutil.rmtree(artifacts, ignore_errors=True)
    try:
        if job.is_dir():
            upload = tar_writer.of_directory("job", job, "/job", LIMITS)
    except AttendantError as error:
        print(f"Harbor's job cannot be handed over: {error}", file=sys.stderr)
    upload.directories.insert(0, ("/job", tar_writer.DIRECTORY_MODE))
    connection.sendall(frames.message({"do": "left", "exit_code": code}))
    for part in frames.stream(tar_writer.stream([upload])):
        connection.sendall(part)


def _leave(code: int) -> NoReturn:
    """End at once: what Harbor wrote is handed over, nothing else is worth a wait."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
