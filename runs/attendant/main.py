"""The attendant's process: records itself, launches its sandbox ahead of its turn, waits for the go, serves, ends.

Run as `python -I runs/attendant --run-directory D --trial N --harness H --seconds S --uids F L`. It owns nothing and
creates nothing until one line `{"token": …}` comes on standard input and the fence is still open. `Exit` has its codes.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import IO, NoReturn

from benchsite.lib.strict_json import JsonProblem, load_object
from runs.attendant import container
from runs.attendant.container import record_failure
from runs.attendant.observed import ObservedFile
from runs.attendant.plan import load_plan
from runs.attendant.requests import Ready, request_of
from runs.attendant.sandbox import GO, Sandbox, SandboxMissing, pair, sandbox_user, system_call_filter
from runs.attendant.service import Service, Trial, go_files
from runs.ownership import Journal, JournalError, process_identity
from runs.wire import frames
from runs.wire.failures import AttendantError
from runs.wire.frames import Closed, Violation

MAX_LINE_BYTES = 4096
LOG_BYTES = 8 * 1024 * 1024
STREAM_BUFFER = 512 * 1024
# What TERM leaves Harbor to save its files and to take its containers down; the worker waits a little longer.
GRACE_S = 1.8
OWNER_VARIABLE = "BENCHSITE_OWNER"


class Exit(IntEnum):
    """Why a trial ended before Harbor did, or without its word; above Harbor's own codes."""

    NO_GO = 70
    NOT_ALLOWED = 71
    NOT_READY = 72
    VIOLATION = 73
    SANDBOX_LOST = 74


class NotStarting(Exception):
    """The trial must not start: `exit` and a sentence for the log."""

    def __init__(self, code: Exit, sentence: str) -> None:
        super().__init__(sentence)
        self.exit = code


@dataclass
class Attendant:
    """One trial's attendant and the sandbox that it launched."""

    run_directory: Path
    ordinal: int
    harness: Path
    seconds: int
    uids: range
    journal: Journal = field(init=False)
    process: "subprocess.Popen[bytes]" = field(init=False)
    service: Service | None = None

    def __post_init__(self) -> None:
        self.journal = Journal(self.run_directory)

    async def attend(self) -> int:
        """The whole life of the trial; returns the exit code. Raises NotStarting."""
        self._record(os.getpid())
        with ExitStack() as held:
            return await self._with_sandbox(held)

    async def _with_sandbox(self, held: ExitStack) -> int:
        reader, writer = await self._launch(held)
        try:
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGTERM, self._terminate, writer)
            loop.run_in_executor(None, _warm_engine)
            trial = await self._until_go(reader)
            loop.call_later(self.seconds, self._terminate, writer)
            return await self._serve(trial, reader, writer)
        finally:
            await self._end_sandbox()

    async def _launch(self, held: ExitStack) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The sandbox, which holds its user until it is gone; it begins only once it is recorded."""
        ours, theirs = pair()
        try:
            user = held.enter_context(sandbox_user(self.uids))
            sandbox = Sandbox(self.harness, self.run_directory, self.seconds, user)
            program = [str(sandbox.python), "-I", "-B", "-m", "runs.harness.launch", "--socket", str(theirs.fileno())]
            with theirs, system_call_filter() as filter_file:
                self.process = subprocess.Popen(
                    sandbox.command(program, seccomp=filter_file.fileno()),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=[theirs.fileno(), filter_file.fileno(), *sandbox.descriptors],
                    env={"PATH": os.environ["PATH"], OWNER_VARIABLE: os.environ[OWNER_VARIABLE]},
                    # Not in our group: a TERM for us must not reach bubblewrap, which would kill Harbor at once.
                    start_new_session=True,
                )
        except (OSError, SandboxMissing) as error:
            raise NotStarting(Exit.NOT_READY, f"The sandbox cannot be started: {error}") from error
        assert self.process.stdout is not None and self.process.stdin is not None
        threading.Thread(target=_copy_log, args=(self.process.stdout, sys.stdout.buffer), daemon=True).start()
        self._record(self.process.pid)
        with suppress(BrokenPipeError), self.process.stdin as begin:
            begin.write(GO)
        return await asyncio.open_connection(sock=ours, limit=STREAM_BUFFER)

    def _record(self, pid: int) -> None:
        identity = process_identity(pid)
        try:
            if identity is None:
                raise NotStarting(Exit.NOT_READY, "A process ended before it could be recorded.")
            self.journal.record_process(identity, trial=self.ordinal)
        except JournalError as error:
            raise NotStarting(Exit.NOT_ALLOWED, f"{error.sentence} [{error.code}]") from error

    async def _until_go(self, reader: asyncio.StreamReader) -> Trial:
        """The trial, once Harbor is loaded, the worker gave the token, and the fence is open."""
        ready = asyncio.ensure_future(frames.read(reader))
        token = read_token(await _first_line())
        try:
            if not isinstance(request_of(await ready), Ready):
                raise Violation("frame_order", "not ready")
        except (Violation, Closed) as error:
            raise NotStarting(Exit.NOT_READY, f"Harbor was not loaded: {type(error).__name__} {error}") from error
        folder = self.run_directory / "trials" / str(self.ordinal)
        try:
            self.journal.check_open()
            plan = load_plan(folder / "environment.json")
        except (JournalError, AttendantError) as error:
            raise NotStarting(Exit.NOT_ALLOWED, f"{error.sentence} [{error.code}]") from error
        observed = ObservedFile(folder / "observed.jsonl")
        observed.hide(token)
        observed.write("launched", None, network_namespace=True, detail=None)
        return Trial(self.run_directory, self.ordinal, plan, observed, token)

    async def _serve(self, trial: Trial, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        self.service = Service(trial, reader, writer)
        try:
            config = trial.folder / "config.json"
            writer.write(frames.message({"say": "go", "root": str(self.run_directory), "config": str(config)}))
            for part in frames.stream(go_files(trial)):
                writer.write(part)
                await writer.drain()
            return await self.service.serve()
        except Violation as violation:
            if violation.code == "sandbox.frame_cut":  # killed while it spoke, which is no crime
                return Exit.SANDBOX_LOST
            print(f"The sandbox broke the protocol: {violation.code} {violation.detail}", file=sys.stderr)
            record_failure(trial.observed, self.service.role, "sandbox", violation)
            return Exit.VIOLATION
        except (Closed, ConnectionError):
            return Exit.SANDBOX_LOST
        except OSError as error:
            record_failure(trial.observed, self.service.role, "transfer", error)
            return Exit.SANDBOX_LOST
        finally:
            await self._end_sandbox()
            await self.service.close()

    def _terminate(self, writer: asyncio.StreamWriter) -> None:
        """Ask Harbor to end, and kill a sandbox that does not; one that was never told to go has nothing to save."""
        if self.service is None:
            self.process.kill()
            self.process.wait()
            os._exit(Exit.NO_GO)
        self.service.terminating = True
        loop = asyncio.get_running_loop()
        with suppress(Exception):
            writer.write(frames.message({"say": "terminate"}))
        loop.call_later(GRACE_S, self.process.kill)

    async def _end_sandbox(self) -> None:
        """Harbor has left or must: nothing of it lives when this returns."""
        with suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self.process.wait, 0.2)
        self.process.kill()
        await asyncio.to_thread(self.process.wait)


def main(arguments: list[str]) -> NoReturn:
    """Never returns: ends with Harbor's exit code, or with one of `Exit`."""
    options = _options(arguments)
    os.umask(0o077)
    code: int
    uids = range(options.uids[0], options.uids[1] + 1)
    try:
        attendant = Attendant(options.run_directory, options.trial, options.harness, options.seconds, uids)
        code = asyncio.run(attendant.attend())
    except NotStarting as error:
        print(error, file=sys.stderr)
        code = error.exit
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def read_token(line: bytes) -> str:
    """The token of the one line `{"token": "…"}`. Raises NotStarting when it is anything else, or nothing."""
    if not line:
        raise NotStarting(Exit.NO_GO, "This trial was never told to go.")
    try:
        document = load_object(line, size=MAX_LINE_BYTES)
    except JsonProblem:
        document = {}
    token = document.get("token")
    if set(document) != {"token"} or not isinstance(token, str) or not token:
        raise NotStarting(Exit.NO_GO, "The line that starts a trial does not have its form.")
    return token


async def _first_line() -> bytes:
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    try:
        return await reader.readline()
    except ValueError:
        return b"\n"


def _warm_engine() -> None:
    """Make the engine's client now; whoever needs it later says what is wrong with it."""
    with suppress(Exception):
        container.engine()


def _copy_log(source: IO[bytes], target: IO[bytes]) -> None:
    """What the sandbox prints, up to a bound; the rest is read and dropped, so that nothing waits for it."""
    left = LOG_BYTES
    read: Callable[[int], bytes] = source.read1  # type: ignore[attr-defined]
    while data := read(64 * 1024):
        kept = data[:left]
        left -= len(kept)
        if kept:
            target.write(kept)
            target.flush()


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="runs.attendant")
    parser.add_argument("--run-directory", type=Path, required=True)
    parser.add_argument("--trial", type=int, required=True)
    parser.add_argument("--harness", type=Path, required=True)
    parser.add_argument("--seconds", type=int, required=True, help="the longest that the trial may take")
    parser.add_argument("--uids", type=int, nargs=2, required=True, help="first and last user id for sandboxes")
    return parser.parse_args(arguments)
