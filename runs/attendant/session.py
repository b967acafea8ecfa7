"""One open container of a trial: the order of what is done with it, its limits and its record.

Uploads wait in an outbox and go in one stream before the next command. Before anything leaves a container that the
plan calls exclusive every other process in it is killed; then all that Harbor will ask for leaves at once.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath

from runs.attendant import records
from runs.attendant.agent_version import ask_version
from runs.attendant.commands import Purpose
from runs.attendant.container import Container, ContainerIdentity, record_failure
from runs.attendant.downloads import AGENT_LOGS, TRANSFER_LIMIT_S, VERIFIER_LOGS, DownloadState, Fetched, fetch, untar
from runs.attendant.execs import Command, Ended, Interrupt, Tail
from runs.attendant.observed import ObservedFile
from runs.attendant.plan import Plan
from runs.wire import tar_writer
from runs.wire.failures import (
    AttendantError,
    EngineFailed,
    ExecTimedOut,
    TransferFailed,
    translated,
)
from runs.wire.frames import Violation
from runs.wire.tar_reader import Limits, Room
from runs.wire.threads import in_thread, settled

CONVENTION_ARTIFACTS = "/logs/artifacts"
DIRECTORIES = "directories"
MOST_WAITING = 256


@dataclass(frozen=True, slots=True)
class Finished:
    """What a command said, cut to the plan's bound, and its exit code."""

    exit_code: int
    stdout: str
    stderr: str


class Session:
    """One open container. Harbor calls its methods one after the other; cancellation is always safe."""

    def __init__(
        self,
        container: Container,
        identity: ContainerIdentity,
        plan: Plan,
        observed: ObservedFile,
        *,
        artifacts: Iterable[str] = (),
        beside_agent: Callable[[], None] = lambda: None,
        after_cancel: Callable[[], None] = lambda: None,
    ) -> None:
        self._container = container
        self._identity = identity
        self._plan = plan
        self._observed = observed
        self._artifacts = tuple(artifacts)
        self._beside_agent = beside_agent
        self._after_cancel = after_cancel
        self._cancelled = False
        self._rooms = {} if identity.role == "verifier" else _rooms(plan.roles["verifier"].tmpfs)
        self._outbox: list[tar_writer.Upload] = []
        self._results: dict[str, Fetched] = {}
        self._version: asyncio.Task[None] | None = None
        self._others_killed = False
        self._exclusive = plan.conduct[identity.role].exclusive
        self.commands_run = 0
        self.agent_ran = False

    # -- commands ---------------------------------------------------------------------------------------

    async def execute(self, purpose: Purpose, command: Command, limit_s: float, user: str) -> Finished:
        """Send what waits, run the command, record it. Raises ExecTimedOut at `limit_s`, EngineFailed."""
        await self.flush()
        if purpose is Purpose.AGENT:
            await self.know_version(user)
            self.agent_ran = True
            self._beside_agent()
        self.commands_run += 1
        self._others_killed = False
        output, interrupt = Tail(self._plan.bounds.exec_output_bytes), Interrupt()
        started = time.monotonic()
        try:
            with translated("exec"):
                ended, errors = await in_thread(
                    lambda: self._container.run(command, limit_s=limit_s, take=output.add, interrupt=interrupt),
                    on_cancel=interrupt,
                )
        except asyncio.CancelledError:
            self._cancelled = True
            self._write_exec(purpose, _cut_short(started), output, cancelled=True)
            await self._kill_after_cancel()
            raise
        except AttendantError as error:
            self._write_exec(purpose, _cut_short(started), output)
            self._failed("exec", error)
            raise
        self._write_exec(purpose, ended, output, extra_bytes=errors.total)
        return await self._finished(ended, output, errors, limit_s)

    async def _finished(self, ended: Ended, output: Tail, errors: Tail, limit_s: float) -> Finished:
        if ended.timed_out:
            await in_thread(self._container.kill_others)
            raise ExecTimedOut(
                "exec.timed_out", "A command did not end within its limit and was stopped.", f"{limit_s} s"
            )
        if ended.exit_code is None:
            error = EngineFailed("exec.no_exit_code", "The container engine did not say how a command ended.")
            self._failed("exec", error)
            raise error
        return Finished(ended.exit_code, output.text(), errors.text())

    def learn_version(self, user: str) -> None:
        """Ask for the agent's version now, beside whatever else is being prepared."""
        if self._version is None:
            self._version = asyncio.ensure_future(self._ask_version(user))

    async def know_version(self, user: str) -> None:
        """The version is recorded when this returns."""
        self.learn_version(user)
        assert self._version is not None
        await self._version

    async def _ask_version(self, user: str) -> None:
        version, exit_code = None, None
        try:
            with translated("version"):
                version, exit_code = await in_thread(lambda: ask_version(self._container, user))
        except AttendantError as error:
            self._failed("exec", error)
        self._observed.write("agent_version", self._identity.role, version=version, exit_code=exit_code)

    # -- files in ---------------------------------------------------------------------------------------

    def make_directories(self, paths: Iterable[str], mode: int) -> None:
        """Let these directories exist, with this mode, before the next command."""
        for path in paths:
            self.queue(tar_writer.Upload(DIRECTORIES, path, directories=[(path, mode)]))

    def is_fresh_below(self, path: str) -> bool:
        """Whether nothing can stand below `path` yet: an own mount, no command run, nothing sent there."""
        place = PurePosixPath(path)
        mounted = any(place.is_relative_to(mount) for mount in self._plan.roles[self._identity.role].tmpfs)
        waiting = any(PurePosixPath(u.target).is_relative_to(place) and u.files for u in self._outbox)
        return mounted and self.commands_run == 0 and not waiting

    def queue(self, upload: tar_writer.Upload) -> None:
        """Let it wait for the next command. Raises Violation when more waits than a trial ever sends."""
        if len(self._outbox) >= MOST_WAITING:
            raise Violation("requests", "too much waits to be sent")
        self._outbox.append(upload)

    def make_executable(self, script: str) -> bool:
        """Give a script that still waits in the outbox its mode; False when it does not wait there."""
        found = [s for upload in self._outbox for s in upload.files if s.target == script]
        for source in found:
            source.mode |= tar_writer.SCRIPT_MODE
        return bool(found)

    async def flush(self) -> None:
        """Send everything that waits, in one stream, and record it. Raises TransferFailed, EngineFailed."""
        uploads, self._outbox = self._outbox, []
        if not uploads:
            return
        interrupt, code = Interrupt(), "cancelled"
        try:
            with translated("upload"):
                ended, said = await in_thread(
                    lambda: self._container.run(
                        untar(), limit_s=TRANSFER_LIMIT_S, take=lambda _: None,
                        stdin=tar_writer.stream(uploads), interrupt=interrupt,
                    ),
                    on_cancel=interrupt,
                )  # fmt: skip
            if ended.exit_code != 0:
                broken = "transfer.timeout" if ended.timed_out else "transfer.untar"
                raise TransferFailed(broken, "Files could not be placed in the container.", said.text())
        except AttendantError as error:
            code = error.code
            self._failed("transfer", error)
            raise
        else:
            code = ""
        finally:
            for upload in uploads:
                self._write_upload(upload, code)

    def skip_upload(self, purpose: str, target: str) -> None:
        """Record that files which nobody can read any more were not sent."""
        upload = tar_writer.Upload(purpose, target)
        self._write_upload(upload, "", note="transfer.not_needed")

    # -- files out --------------------------------------------------------------------------------------

    async def download(self, path: str) -> Fetched:
        """Download `path` into `kept/`, once; the result of an earlier download is given again."""
        if path not in self._results:
            await self._kill_others()
            await self._fetch_all([path, *(p for p in self._expected_with(path) if p not in self._results)])
        return self._results[path]

    def downloaded(self, path: str) -> Fetched | None:
        """What an earlier download of `path` came to."""
        return self._results.get(path)

    def _expected_with(self, path: str) -> list[str]:
        if not self._exclusive or path != AGENT_LOGS:
            return []
        return [p for p in dict.fromkeys((*self._artifacts, CONVENTION_ARTIFACTS)) if p != path]

    async def _kill_others(self) -> None:
        """Kill what an agent left running. TransferFailed when something survives: nothing is read then."""
        await self.flush()
        if not self._exclusive or self._others_killed:
            return
        try:
            with translated("kill"):
                remaining = await in_thread(self._container.kill_others)
        except AttendantError as error:
            self._failed("transfer", error)
            raise
        if remaining != 0:
            busy = TransferFailed("container.busy", "The agent's processes could not be stopped.", f"{remaining}")
            self._failed("transfer", busy)
            raise busy
        self._others_killed = True

    async def _fetch_all(self, paths: list[str]) -> None:
        """All downloads and the counters at once; in an exclusive container nothing but us runs by now."""
        await asyncio.gather(
            *(in_thread(partial(self._fetch, path)) for path in paths),
            in_thread(self._container.count),
        )
        if self._exclusive and any(self._results[path].cut_off for path in paths):
            await in_thread(self._container.kill_others)

    def _fetch(self, path: str) -> None:
        purpose, kept = self._purpose(path)
        bounds, tells = self._plan.bounds, self._observed.tells
        limits = Limits(bounds.transfer_bytes, bounds.transfer_files, self._room(purpose, path), tells)
        fetched = fetch(self._container, path, purpose, self._plan.directory / "kept" / kept, limits)
        self._results[path] = fetched
        self._observed.write("transfer", self._identity.role, **records.of_download(fetched, self._plan.directory))
        if fetched.outcome is DownloadState.FAILED and fetched.error is not None:
            self._failed("transfer", fetched.error)

    def _room(self, purpose: str, path: str) -> Room | None:
        """Where an artifact goes in the verifier's container; nothing that does not fit there is taken."""
        mounts = [mount for mount in self._rooms if PurePosixPath(path).is_relative_to(mount)]
        return self._rooms[max(mounts, key=len)] if mounts and purpose == "artifact" else None

    def _purpose(self, path: str) -> tuple[str, str]:
        """The record's word for a download and its place below `kept/`."""
        if self._identity.role == "agent" and path == AGENT_LOGS:
            return "agent_logs", "agent"
        if self._identity.role == "verifier" and path == VERIFIER_LOGS:
            return "verifier_logs", "verifier"
        return "artifact", f"artifacts/{path.strip('/')}"

    # -- the end ----------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stop, look, remove. Never raises."""
        if self._version is not None:
            await settled(self._version)
        closing = [in_thread(self._container.close)]
        if self._cancelled:
            closing.append(in_thread(self._after_cancel))
        await asyncio.gather(*closing)

    async def _kill_after_cancel(self) -> None:
        future = asyncio.get_running_loop().run_in_executor(None, self._container.kill_others)
        await settled(future)
        if not future.cancelled() and (error := future.exception()) is not None:
            self._failed("exec", error)
        else:
            self._others_killed = not future.cancelled() and future.result() == 0

    # -- the record -------------------------------------------------------------------------------------

    def _failed(self, where: str, error: BaseException) -> None:
        record_failure(self._observed, self._identity.role, where, error)

    def _write_exec(
        self, purpose: Purpose, ended: Ended, output: Tail, *, cancelled: bool = False, extra_bytes: int = 0
    ) -> None:
        fields = records.of_exec(purpose, ended, output, cancelled=cancelled, extra_bytes=extra_bytes)
        self._observed.write("exec", self._identity.role, **fields)

    def _write_upload(self, upload: tar_writer.Upload, code: str, note: str | None = None) -> None:
        if upload.purpose != DIRECTORIES:
            self._observed.write("transfer", self._identity.role, **records.of_upload(upload, code, note))


def _rooms(tmpfs: dict[str, int]) -> dict[str, Room]:
    """The verifier's writable folders; a quarter of the one with its logs stays free for what it writes itself."""
    logs = PurePosixPath(VERIFIER_LOGS)
    return {path: Room(size - size // 4 if logs.is_relative_to(path) else size) for path, size in tmpfs.items()}


def _cut_short(started: float) -> Ended:
    """The end of a command that ended otherwise than by itself."""
    return Ended(exit_code=None, duration_s=round(time.monotonic() - started, 6), started_mono=started)
