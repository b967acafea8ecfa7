"""Answers one sandbox: the state of a trial's sessions, what may be asked when, and what leaves.

The sandbox is one peer with one question at a time. Its claims choose nothing that decides: containers are made by the
plan, files that a plan has reviewed are sent from the attendant's own copies, and what comes out is kept before it is
passed on. Whatever does not fit ends the trial with a `Violation`.
"""

import asyncio
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from benchsite.lib.strict_json import load_object
from runs.attendant import preloading, requests
from runs.attendant.commands import (
    GRADING,
    Purpose,
    agent_command,
    is_agent_config,
    is_install,
    purpose_of,
    script_made_executable,
)
from runs.attendant.container import Container, ContainerIdentity, record_failure
from runs.attendant.execs import Command
from runs.attendant.observed import ObservedFile
from runs.attendant.plan import Plan
from runs.attendant.session import CONVENTION_ARTIFACTS, Session
from runs.ownership import Journal
from runs.ownership.storage import read_bounded
from runs.wire import frames, tar_writer
from runs.wire.copies import KeptCopy
from runs.wire.failures import AttendantError, StartRefused, translated
from runs.wire.frames import Frame, Violation
from runs.wire.tar_reader import TOO_MUCH, Limits, unpack
from runs.wire.threads import in_thread, settled

AGENT_LOGS_BACK = "agent_logs"
OPEN_DIRECTORY, PLAIN_DIRECTORY = 0o777, tar_writer.DIRECTORY_MODE
# Harbor's limits strike first, since they began to run before a command came here; ours bound a Harbor that waits on.
HARBOR_FIRST_S = 5.0
# How much sooner than a phase's limit its cancel may come: Harbor's clock began before we heard of the phase.
CLOCK_SLACK_S = 2.0
# One request per step and no hidden repeats (design 3.8); nothing is fetched while the agent is imported.
AGENT_ENV = {"MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
# The folder of Harbor's job, as it leaves the sandbox at its end.
EXPORT = Limits(256 * 1024 * 1024, 4096)
# A trial asks some forty times.
MAX_REQUESTS = 5_000
# What may stand in the environment of the adapter's commands: names that no shell and no loader acts on.
AGENT_VARIABLES = re.compile(r"(?:OPENAI|MSWEA|LITELLM)_[A-Z_]{1,60}|DEBIAN_FRONTEND")
MAX_DOCUMENT_BYTES = 1024 * 1024
_READ = 256 * 1024


@dataclass
class Trial:
    """What the attendant knows of its trial, none of it from the sandbox. ``token`` comes from the worker."""

    run_directory: Path
    ordinal: int
    plan: Plan
    observed: ObservedFile
    token: str

    @property
    def folder(self) -> Path:
        return self.run_directory / "trials" / str(self.ordinal)

    @property
    def work(self) -> Path:
        """What a cleanup may delete."""
        return self.run_directory / "work"

    @property
    def task(self) -> Path:
        return self.run_directory / "tasks" / self.plan.task

    @property
    def limits(self) -> Limits:
        return Limits(self.plan.bounds.transfer_bytes, self.plan.bounds.transfer_files)

    def artifacts(self) -> list[str]:
        """The task's declared artifact paths, without a slash at their end."""
        declared = self._toml().get("artifacts", [])
        sources = [item.get("source") if isinstance(item, dict) else item for item in declared]
        return [source.rstrip("/") for source in sources if isinstance(source, str)]

    def grading_workdir(self) -> str | None:
        workdir = self._toml().get("verifier", {}).get("environment", {}).get("workdir")
        return workdir if isinstance(workdir, str) else None

    def instruction(self) -> str:
        return self._read(self.task / "instruction.md").decode()

    def model(self) -> str:
        """The model as Harbor's own config of this trial names it."""
        agent = load_object(self._read(self.folder / "config.json"))["agents"]
        return str(agent[0]["model_name"]) if isinstance(agent, list) and isinstance(agent[0], dict) else ""

    def _toml(self) -> dict[str, Any]:
        return tomllib.loads(self._read(self.task / "task.toml").decode())

    def _read(self, path: Path) -> bytes:
        data = read_bounded(path, MAX_DOCUMENT_BYTES)
        if len(data) > MAX_DOCUMENT_BYTES:
            raise StartRefused("plan.malformed", "A document of this trial is too large.", path.name)
        return data


@dataclass
class Service:
    """One sandbox, from its `go` to its last message."""

    trial: Trial
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    sessions: dict[str, Session] = field(default_factory=dict)
    _opened: dict[str, str] = field(default_factory=dict)
    _stopped: set[str] = field(default_factory=set)
    _graded: bool = False
    _fetched: bool = False
    _sent: set[str] = field(default_factory=set)
    _asked: int = 0
    # When each phase's first command came, by the loop's clock.
    _began: dict[str, float] = field(default_factory=dict)
    # Whether the sandbox was told to end: from then on it may cancel whenever it likes.
    terminating: bool = False
    _next: "asyncio.Task[Frame] | None" = None
    # A cancel may have been on its way while the answer was: one after each answer means nothing.
    _may_cross: bool = False

    async def serve(self) -> int:
        """Answer until the sandbox says that Harbor left; returns Harbor's exit code. Raises Violation, Closed."""
        while True:
            request = requests.request_of(await self._frame())
            if isinstance(request, requests.Cancel) and self._may_cross:
                self._may_cross = False
                continue
            self._asked += 1
            if self._asked > MAX_REQUESTS:
                raise Violation("requests", f"more than {MAX_REQUESTS}")
            if isinstance(request, requests.Left):
                await self._keep_job()
                return request.exit_code
            content = await self._content(request)
            with content:
                await self._answer(request, content)

    async def close(self) -> None:
        """Stop and remove whatever is still open. Never raises."""
        if self._next is not None:
            self._next.cancel()
        for session in self.sessions.values():
            await session.close()
        await in_thread(preloading.discard_all)
        self.writer.close()

    @property
    def role(self) -> str:
        """The role whose turn it is."""
        return "verifier" if "verifier" in self._opened else "agent"

    # -- frames -----------------------------------------------------------------------------------------

    async def _frame(self) -> Frame:
        if self._next is None:
            self._next = asyncio.ensure_future(frames.read(self.reader))
        try:
            return await asyncio.shield(self._next)
        finally:
            if self._next.done():
                self._next = None

    async def _content(self, request: requests.Request) -> IO[bytes]:
        """The content that follows a request, on disk before anything is done with it; empty for most."""
        spool: IO[bytes] = tempfile.TemporaryFile(dir=self.trial.folder)  # noqa: SIM115 - the caller closes it
        if isinstance(request, requests.Upload):
            await _spool(frames.read_stream(self.reader, max_bytes=_archive_bytes(self.trial.limits)), spool)
        return spool

    async def _answer(self, request: requests.Request, content: IO[bytes]) -> None:
        work = asyncio.ensure_future(self._handle(request, content))
        try:
            fields, contents = await self._unless_cancelled(request, work)
        except asyncio.CancelledError:
            if not work.cancelled():
                raise
            fields, contents = {"cancelled": True}, []
        except AttendantError as error:
            kind = type(error).__name__
            fields, contents = {"error": {"kind": kind, "code": error.code, "sentence": error.sentence}}, []
        self.writer.write(frames.message({**fields, "contents": len(contents)}))
        for chunks in contents:
            for part in frames.stream(chunks):
                self.writer.write(part)
                await self.writer.drain()
        await self.writer.drain()
        self._may_cross = True

    async def _unless_cancelled(self, request: requests.Request, work: "asyncio.Task[Answer]") -> "Answer":
        """The answer; meanwhile a `cancel` stops the work, and anything else is a violation."""
        try:
            while not work.done():
                if self._next is None:
                    self._next = asyncio.ensure_future(frames.read(self.reader))
                await asyncio.wait({work, self._next}, return_when=asyncio.FIRST_COMPLETED)
                if self._next.done() and not work.done():
                    said, self._next = self._next, None
                    if not isinstance(requests.request_of(said.result()), requests.Cancel):
                        raise Violation(
                            "frame_order", f"another question before the answer to {type(request).__name__}"
                        )
                    self._require_due(request)
                    work.cancel()
            return work.result()
        except BaseException:
            if not work.done():
                work.cancel()
                await settled(work)
            raise

    # -- requests ---------------------------------------------------------------------------------------

    async def _handle(self, request: requests.Request, content: IO[bytes]) -> "Answer":
        match request:
            case requests.Start():
                return await self._start(request)
            case requests.Exec():
                return await self._exec(request)
            case requests.Directories():
                return {"done": self._directories(request)}, []
            case requests.Upload():
                await self._upload(request, content)
                return {}, []
            case requests.SkipUpload():
                return {"skipped": self._skip(request)}, []
            case requests.Flush():
                await self._session(request).flush()
                return {}, []
            case requests.Look():
                self._require_downloadable(request)
                looked = await self._session(request).download(request.path)
                # Of what is refused Harbor would make an empty folder and send that to the verifier.
                return {"root": looked.root if looked.is_taken else None}, []
            case requests.Download():
                return await self._download(request)
            case requests.Stop():
                await self._stop(request)
                return {}, []
        raise Violation("frame_order", f"{type(request).__name__} at this place")

    async def _start(self, request: requests.Start) -> "Answer":
        role = self._role(request)
        if role in self._opened or request.session in self.sessions:
            raise Violation("session", f"a second {role}")
        self._opened[role] = request.session
        try:
            with translated("start"):
                await in_thread(lambda: self._open(request, role))
        except AttendantError as error:
            record_failure(self.trial.observed, role, "start", error)
            raise
        session = self.sessions[request.session]
        session.make_directories(request.directories, OPEN_DIRECTORY)
        return {}, []

    def _open(self, request: requests.Start, role: str) -> None:
        trial, plan = self.trial, self.trial.plan
        self._check(request, role)
        identity = ContainerIdentity(role, plan.trial, request.session, str(request.trial_uuid))
        ready = preloading.take(request.session)
        container = ready or _container(trial, identity)
        # Known before it is created, so that `close` finds it however far this comes.
        self.sessions[request.session] = Session(
            container,
            identity,
            plan,
            trial.observed,
            artifacts=trial.artifacts(),
            beside_agent=lambda: self._prepare_verifier(identity),
            # Most likely no verifier comes any more; after a deadline one does, and starts on its own.
            after_cancel=preloading.discard_all,
        )
        if ready is None:
            container.start()
        container.announce()

    def _prepare_verifier(self, agent: ContainerIdentity) -> None:
        conduct = self.trial.plan.conduct
        expected = agent.session_id.removesuffix(conduct[agent.role].session) + conduct["verifier"].session
        identity = ContainerIdentity("verifier", agent.trial, expected, agent.trial_uuid)
        preloading.prepare(expected, lambda: _container(self.trial, identity))

    def _check(self, request: requests.Start, role: str) -> None:
        """Refuse whatever would soften the trial: another role, another network, a task that wants more."""
        problems = list(request.refusals)
        if any(not _is_allowed(policy, role, self.trial.plan) for policy in request.policies):
            problems.append("the network policy is not the one that this role has")
        if problems:
            sentence = "This trial asks for something that benchsite does not run."
            raise StartRefused("start.refused", sentence, "; ".join(problems))

    async def _exec(self, request: requests.Exec) -> "Answer":
        session, role = self._session(request), self._role(request)
        if role == "verifier":
            script = script_made_executable(request.command)
            if script is not None and session.make_executable(script):
                return {"exit_code": 0}, [iter(()), iter(())]
        purpose = purpose_of(request.command, role)
        command = self._grading(purpose) if role == "verifier" else self._of_agent(request, purpose, session)
        limit_s = self._limit(request, purpose, role)
        finished = await session.execute(purpose, command, limit_s, command.user)
        if role == "agent" and finished.exit_code == 0 and is_install(request.command):
            session.learn_version(request.user)
        said = [iter((text.encode(),)) for text in (finished.stdout, finished.stderr)]
        return {"exit_code": finished.exit_code}, said

    def _phase(self, purpose: Purpose, role: str) -> str:
        if role == "verifier":
            return "verifier"
        return "setup" if purpose in (Purpose.SETUP, Purpose.VERSION) else "agent"

    def _limit(self, request: requests.Exec, purpose: Purpose, role: str) -> float:
        """The plan's limit of the command's phase, whose clock runs from here on. A shorter one would spoil the trial
        in the name of its own deadline."""
        phase = self._phase(purpose, role)
        limit = float(getattr(self.trial.plan.deadlines, phase))
        if request.timeout_s is not None and request.timeout_s < limit:
            raise Violation("deadline", f"{request.timeout_s} s for {phase}")
        self._began.setdefault(phase, asyncio.get_running_loop().time())
        return limit + HARBOR_FIRST_S

    def _require_due(self, request: requests.Request) -> None:
        """A command may be cancelled when its phase's time is over, or when the sandbox was told to end."""
        if self.terminating or not isinstance(request, requests.Exec):
            return
        role = self._role(request)
        phase = self._phase(purpose_of(request.command, role), role)
        spent = asyncio.get_running_loop().time() - self._began.get(phase, 0.0)
        if phase in self._began and spent < getattr(self.trial.plan.deadlines, phase) - CLOCK_SLACK_S:
            raise Violation("deadline", f"{phase} cancelled after {spent:.1f} s")

    def _grading(self, purpose: Purpose) -> Command:
        """In the verifier's container runs the reviewed grading, once, as the task has it: anything else could write a
        reward. Nothing of it but that it is time comes from the sandbox, no variable, no user and no folder."""
        if purpose is not Purpose.VERIFIER or self._graded:
            raise Violation("command", f"{purpose.value} in the verifier's container")
        self._graded = True
        return Command(("bash", "-c", GRADING), workdir=self.trial.grading_workdir())

    def _of_agent(self, request: requests.Exec, purpose: Purpose, session: Session) -> Command:
        """The adapter's own commands in the agent's container: set-up, then the agent for this task, nothing after."""
        if session.agent_ran or self._fetched:
            raise Violation("command", "a command after the agent's")
        if strange := [name for name in request.env if not AGENT_VARIABLES.fullmatch(name)]:
            raise Violation("command", f"the variable {strange[0]}")
        if purpose is Purpose.AGENT:
            if not agent_command(request.command, self.trial.model(), self.trial.instruction()):
                raise Violation("command", "an agent for another task")
        elif purpose is Purpose.OTHER and not is_agent_config(request.command):
            raise Violation("command", "a command that the adapter does not have")
        env = self._environment(request.env, purpose)
        return Command(("bash", "-c", request.command), user=request.user, workdir=request.cwd, env=env)

    def _require_downloadable(self, request: requests.Look | requests.Download) -> None:
        """A closed set, the plan's; what a verifier left only after the grading."""
        role = self._role(request)
        conduct = self.trial.plan.conduct[role]
        if request.path not in (*conduct.downloads, *(self.trial.artifacts() if conduct.artifacts else ())):
            raise Violation("path", f"{request.path} of the {role}")
        if role == "verifier" and not self._graded:
            raise Violation("path", f"{request.path} before the grading")
        self._fetched = self._fetched or role != "verifier"

    def _environment(self, env: dict[str, str], purpose: Purpose) -> dict[str, str]:
        if purpose is not Purpose.AGENT:
            return dict(env)
        placeholder, token = self.trial.plan.placeholder, self.trial.token
        return {name: token if value == placeholder else value for name, value in {**env, **AGENT_ENV}.items()}

    def _directories(self, request: requests.Directories) -> bool:
        session = self._session(request)
        if self._graded:
            raise Violation("frame_order", "directories after the grading")
        fresh = session.commands_run == 0
        if request.emptied:
            fresh = all(session.is_fresh_below(path) for path in request.paths)
        if self._role(request) != "verifier" or not fresh:
            return False
        session.make_directories(request.paths, OPEN_DIRECTORY if request.world_writable else PLAIN_DIRECTORY)
        return True

    async def _upload(self, request: requests.Upload, content: IO[bytes]) -> None:
        """Send our own copy of what was said; a content that is not that copy is a violation. Agent logs that the
        plan lets come back are nobody's to review, and Harbor may have changed them."""
        session, role = self._session(request), self._role(request)
        back = request.purpose == AGENT_LOGS_BACK
        if self._graded or session.agent_ran is not back or f"{role} {request.target}" in self._sent:
            raise Violation("frame_order", f"{request.purpose} again, or at another time")
        self._sent.add(f"{role} {request.target}")
        if not self._is_planned(role, request.purpose, request.target):
            raise Violation("content", f"{request.purpose} for {role} at {request.target}")
        own = None if back else self._own_copy(request)
        with self._received() as place:
            said = await in_thread(lambda: _unpacked(content, place, self.trial.limits))
            if own is None:
                own = place = place.rename(self.trial.work / f"agent-logs-{uuid4().hex}")
        with translated("upload"):
            upload = await in_thread(lambda: _packed(request, own, self.trial.limits))
        if said != {source.path: tar_writer.sha256_of(source.host) for source in upload.files}:
            raise Violation("content", f"other files than the reviewed {request.purpose}")
        session.queue(upload)

    def _is_planned(self, role: str, purpose: str, target: str) -> bool:
        uploads = self.trial.plan.conduct[role].uploads
        return purpose in uploads and uploads[purpose] in (None, target)

    def _skip(self, request: requests.SkipUpload) -> bool:
        """Whether agent logs stay where they are: Harbor would put them back into a container that it stops next."""
        if self._is_planned(self._role(request), AGENT_LOGS_BACK, request.target):
            return False
        self._session(request).skip_upload(AGENT_LOGS_BACK, request.target)
        return True

    def _own_copy(self, request: requests.Upload) -> Path:
        """Where we have what is sent for this purpose."""
        if request.purpose != "artifacts_in":
            return self.trial.task / request.purpose
        if (kept := self._kept_artifact(request.target)) is not None:
            return kept
        raise Violation("content", f"{request.purpose} at {request.target}")

    def _kept_artifact(self, path: str) -> Path | None:
        """The copy of an artifact that left the agent's container and may enter the verifier's at the same place."""
        agent = self.sessions.get(self._opened.get("agent", ""))
        fetched = agent.downloaded(path) if agent is not None else None
        if fetched is None or fetched.copy is None or path not in (CONVENTION_ARTIFACTS, *self.trial.artifacts()):
            return None
        return fetched.copy.root if fetched.is_taken else None

    @contextmanager
    def _received(self) -> Iterator[Path]:
        """A place in the run's disposable folder for what the sandbox said."""
        self.trial.work.mkdir(mode=0o700, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=self.trial.work, prefix="said-"))
        try:
            yield scratch / "content"
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    async def _download(self, request: requests.Download) -> "Answer":
        self._require_downloadable(request)
        fetched = await self._session(request).download(request.path)
        fields: dict[str, Any] = {
            "outcome": fetched.outcome.value,
            "code": fetched.code,
            "error": None,
            "purpose": fetched.purpose,
        }
        if fetched.error is not None:
            error = fetched.error
            assert isinstance(error, AttendantError)
            return {"error": {"kind": type(error).__name__, "code": error.code, "sentence": error.sentence}}, []
        if fetched.copy is None or fetched.root is None or not fetched.copy.root.exists():
            return fields, []
        return fields, [_archive(fetched.copy.root, self.trial.limits)]

    async def _stop(self, request: requests.Stop) -> None:
        session = self.sessions.get(request.session)
        if session is not None and request.session not in self._stopped:
            self._stopped.add(request.session)
            await session.close()

    def _role(self, request: requests.OfSession) -> str:
        role = self.trial.plan.role_of(request.session)
        if role is None:
            raise Violation("session", "a session without a role")
        return role

    def _session(self, request: requests.OfSession) -> Session:
        session = self.sessions.get(request.session)
        if session is None and request.session in self._opened.values():
            # Its start was refused, and Harbor goes on to save what there is.
            raise StartRefused("container.not_started", "The container was never started.")
        if session is None or request.session in self._stopped:
            raise Violation("session", "a session that is not open")
        return session

    async def _keep_job(self) -> None:
        """Harbor's job folder, as it says that it left it; read strictly, and kept beside our own record."""
        with tempfile.TemporaryFile(dir=self.trial.folder) as spool:
            await _spool(frames.read_stream(self.reader, max_bytes=_archive_bytes(EXPORT)), spool)
            spool.seek(0)
            copy = KeptCopy(self.trial.folder / "job")
            limits = replace(EXPORT, tells=self.trial.observed.tells)
            unpacked = await in_thread(lambda: unpack(iter(lambda: spool.read(_READ), b""), "job", copy, limits))
        # Names and sizes may come from the agent, whose files Harbor took over; links and devices may not.
        strange = [refusal.code for refusal in unpacked.refusals if refusal.code not in {"name", *TOO_MUCH}]
        if strange or not (unpacked.complete or unpacked.refusals):
            raise Violation("archive", ", ".join(strange))


type Answer = tuple[dict[str, Any], list[Iterator[bytes]]]


def go_files(trial: Trial) -> Iterator[bytes]:
    """What Harbor reads of the run: its config and this trial's own task, as one archive below `run`."""
    config = tar_writer.of_file("go", trial.folder / "config.json", f"/run/trials/{trial.ordinal}/config.json", EXPORT)
    task = tar_writer.of_directory("go", trial.task, f"/run/tasks/{trial.plan.task}", EXPORT)
    return tar_writer.stream([config, task])


def _container(trial: Trial, identity: ContainerIdentity) -> Container:
    journal = Journal(trial.plan.journal_directory, process=os.getpid())
    return Container(journal, identity, trial.plan.roles[identity.role], trial.observed)


def _is_allowed(policy: requests.Policy, role: str, plan: Plan) -> bool:
    if plan.roles[role].network_id is None:
        return policy.mode == "no-network"
    return policy.mode == "allowlist" and policy.hosts == [plan.roles[role].gateway_host]


def _unpacked(content: IO[bytes], place: Path, limits: Limits) -> dict[str, str]:
    """Path -> SHA-256 of the files in the content, read strictly and laid out at `place`."""
    copy = KeptCopy(place)
    content.seek(0)
    unpacked = unpack(iter(lambda: content.read(_READ), b""), "content", copy, limits)
    if not unpacked.complete or unpacked.refusals:
        raise Violation("archive", ", ".join(refusal.code for refusal in unpacked.refusals))
    return {entry.path: entry.sha256 for entry in copy.entries}


def _packed(request: requests.Upload, own: Path, limits: Limits) -> tar_writer.Upload:
    pack: Callable[..., tar_writer.Upload] = tar_writer.of_directory if own.is_dir() else tar_writer.of_file
    return pack(request.purpose, own, request.target, limits)


def _archive(root: Path, limits: Limits) -> Iterator[bytes]:
    pack: Callable[..., tar_writer.Upload] = tar_writer.of_directory if root.is_dir() else tar_writer.of_file
    upload = pack("download", root, "/content", limits)
    if root.is_dir():
        upload.directories.insert(0, ("/content", PLAIN_DIRECTORY))
    return tar_writer.stream([upload])


def _archive_bytes(limits: Limits) -> int:
    """The longest archive of files within these limits: their bytes, and headers and padding for each."""
    return limits.bytes + limits.files * 4096 + 64 * 1024


async def _spool(chunks: AsyncIterator[bytes], spool: IO[bytes]) -> None:
    async for chunk in chunks:
        await asyncio.to_thread(spool.write, chunk)
