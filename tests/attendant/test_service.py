"""The attendant against a peer that says anything: each step out of place is a violation, and nothing is created."""

import asyncio
import errno
import json
import socket
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runs.attendant import service as module
from runs.attendant.downloads import DownloadState, Fetched
from runs.attendant.plan import Bounds, Conduct, Deadlines, Plan, RolePlan
from runs.attendant.service import Service, Trial
from runs.engine.trials.harbor_config import CONDUCT
from runs.wire import frames, tar_writer
from runs.wire.copies import KeptCopy
from runs.wire.failures import ExecTimedOut
from runs.wire.frames import Violation

AGENT, VERIFIER = "task__x__env", "task__x__verifier__trial"
ROLE = RolePlan("sha256:" + "0" * 64, 1.0, 1 << 28, 64, 256, {"/app": 1 << 20})
ROLES = {"agent": replace(ROLE, network_id="n", gateway_host="model-gateway"), "verifier": ROLE}
REVIEWED = {role: Conduct(**{**found, "downloads": tuple(found["downloads"])}) for role, found in CONDUCT.items()}
DEADLINES = Deadlines(60, 100, 30)


class FakeSession:
    """Stands where a container would; notes what it is asked."""

    def __init__(self, role: str, kept: Path) -> None:
        self.role, self.kept = role, kept
        self.said: list[Any] = []
        self.commands_run, self.agent_ran = 0, False
        self.forever: asyncio.Event | None = None
        self.outcome = DownloadState.OK

    def make_directories(self, paths: Any, mode: int) -> None:
        self.said.append(("directories", tuple(paths)))

    def make_executable(self, script: str) -> bool:
        return True

    def is_fresh_below(self, path: str) -> bool:
        return True

    def queue(self, upload: tar_writer.Upload) -> None:
        self.said.append(("upload", upload.purpose, sorted(source.target for source in upload.files)))

    def skip_upload(self, purpose: str, target: str) -> None:
        self.said.append(("skip", target))

    def learn_version(self, user: str) -> None:
        self.said.append(("version", user))

    async def flush(self) -> None:
        self.said.append("flush")

    async def execute(self, purpose: Any, command: Any, limit_s: float, user: str) -> Any:
        self.commands_run += 1
        self.agent_ran = self.agent_ran or purpose.value == "agent"
        self.said.append(("exec", purpose.value, dict(command.env), limit_s))
        if "forever" in command.argv[-1]:
            self.forever = asyncio.Event()
            await self.forever.wait()
        if "late" in command.argv[-1]:
            raise ExecTimedOut("exec.timed_out", "Too late.", "private")
        return SimpleNamespace(exit_code=3, stdout="out", stderr="err")

    async def download(self, path: str) -> Fetched:
        copy = KeptCopy(self.kept)
        return Fetched(path, "artifact", self.outcome, root="directory", copy=copy)

    def downloaded(self, path: str) -> Fetched | None:
        return Fetched(path, "artifact", self.outcome, copy=KeptCopy(self.kept)) if path == "/app/output" else None

    async def close(self) -> None:
        self.said.append("close")


class Peer:
    """One attendant's service, and the other end of its socket in the test's hands."""

    def __init__(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conduct: dict[str, Conduct] | None = None
    ) -> None:
        self.run = tmp_path / uuid.uuid4().hex
        for name, data in {
            "tasks/task/environment/a.txt": b"a",
            "tasks/task/tests/test.sh": b"t",
            "tasks/task/task.toml": b'artifacts = ["/app/output"]',
            "tasks/task/instruction.md": b"Do 'it'.",
            "trials/1/config.json": b'{"agents": [{"model_name": "openai/m"}]}',
            "kept/out.txt": b"kept",
        }.items():
            (self.run / name).parent.mkdir(parents=True, exist_ok=True)
            (self.run / name).write_bytes(data)
        plan = Plan(
            self.run / "trials/1", "r", 1, "task", self.run, "placeholder", Bounds(1000, 10**6, 50),
            ROLES, conduct or REVIEWED, DEADLINES,
        )  # fmt: skip
        self.failures: list[Any] = []
        self.terminating = False
        observed: Any = SimpleNamespace(
            write=lambda *args, **fields: self.failures.append((args, fields)), tells=lambda name: "the-token" in name
        )
        self.trial = Trial(self.run, 1, plan, observed, "the-token")
        self.sessions: dict[str, FakeSession] = {}

        def opened(service: Service, request: Any, role: str) -> None:
            service._check(request, role)
            self.sessions[role] = FakeSession(role, self.run / "kept")
            service.sessions[request.session] = self.sessions[role]  # type: ignore[assignment]

        monkeypatch.setattr(Service, "_open", opened)

    def talk(self, act: Callable[["Talk"], Awaitable[None]]) -> int | str:
        """What the service makes of the conversation: an exit code, or a violation's code."""

        async def both() -> int | str:
            ours, theirs = socket.socketpair()
            reader, writer = await asyncio.open_connection(sock=ours)
            service = Service(self.trial, reader, writer, terminating=self.terminating)
            talk = Talk(*await asyncio.open_connection(sock=theirs))
            acting = asyncio.ensure_future(act(talk))
            try:
                return await asyncio.wait_for(service.serve(), 30)
            except Violation as violation:
                return violation.code
            except frames.Closed:
                return "closed"
            finally:
                acting.cancel()
                await asyncio.gather(acting, return_exceptions=True)
                await service.close()
                talk.writer.close()

        return asyncio.run(both())


class Talk:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.answers: list[dict[str, Any]] = []

    def send(self, do: str, **fields: Any) -> None:
        self.writer.write(frames.message({"do": do, **fields}))

    def raw(self, data: bytes) -> None:
        self.writer.write(data)

    def content(self, files: dict[str, bytes], root: Path) -> None:
        for name, data in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        upload = tar_writer.of_directory("x", root, "/content", module.EXPORT)
        for part in frames.stream(tar_writer.stream([upload])):
            self.writer.write(part)

    async def answer(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads((await frames.read(self.reader)).payload)
        answer["said"] = [
            b"".join([chunk async for chunk in frames.read_stream(self.reader, max_bytes=10**7)])
            for _ in range(answer["contents"])
        ]
        self.answers.append(answer)
        return answer

    async def start(self, session: str) -> dict[str, Any]:
        verifier = session in (VERIFIER, "task__grader")
        policy = {"mode": "no-network"} if verifier else {"mode": "allowlist", "hosts": ["model-gateway"]}
        self.send(
            "start",
            session=session,
            trial_uuid=str(uuid.uuid4()),
            policies=[policy],
            refusals=[],
            directories=["/logs"],
        )
        return await self.answer()

    def left(self, code: int = 0) -> None:
        self.send("left", exit_code=code)
        upload = tar_writer.Upload("job", "/job", directories=[("/job", 0o755)])
        for part in frames.stream(tar_writer.stream([upload])):
            self.raw(part)


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Peer:
    return Peer(tmp_path, monkeypatch)


def command(session: str, text: str = "mkdir -p /x", **fields: Any) -> dict[str, Any]:
    return {"session": session, "command": text, "cwd": None, "env": {}, "timeout_s": None, "user": "", **fields}


AGENT_COMMAND = (
    'if [ -f "$HOME/.local/bin/env" ]; then . "$HOME/.local/bin/env"; '
    'else export PATH="$HOME/.local/bin:$PATH"; fi; mini-swe-agent --yolo --model=openai/m '
    "--task='Do '\"'\"'it'\"'\"'.' --output=/logs/agent/t.json -c mini -c model.model_kwargs.max_tokens=9 "
    "--exit-immediately 2>&1 </dev/null | tee /logs/agent/mini-swe-agent.txt"
)
GRADING = "(/tests/test.sh) > /logs/verifier/test-stdout.txt 2>&1"


@pytest.mark.parametrize("outcome", DownloadState)
def test_only_an_output_that_was_taken_looks_like_a_folder_and_enters_the_verifier(
    peer: Peer, outcome: DownloadState
) -> None:
    """Of another Harbor would send an empty folder: an error of ours, and not the agent's failure."""
    taken = outcome in (DownloadState.OK, DownloadState.PARTIAL)

    async def act(talk: Talk) -> None:
        await talk.start(AGENT)
        peer.sessions["agent"].outcome = outcome
        talk.send("look", session=AGENT, path="/app/output")
        assert (await talk.answer())["root"] == ("directory" if taken else None)
        await talk.start(VERIFIER)
        talk.send("upload", session=VERIFIER, purpose="artifacts_in", target="/app/output")
        talk.content({"out.txt": b"kept"}, peer.run / "sent")
        await talk.answer()
        talk.left()

    assert peer.talk(act) == (0 if taken else "sandbox.content")
    sent = [said for said in peer.sessions["verifier"].said if said[0] == "upload"]
    assert sent == ([("upload", "artifacts_in", ["/app/output/out.txt"])] if taken else [])


def test_an_honest_conversation_is_carried_out_in_its_order(peer: Peer) -> None:
    async def act(talk: Talk) -> None:
        await talk.start(AGENT)
        talk.send("upload", session=AGENT, purpose="environment", target="/app")
        talk.content({"a.txt": b"a"}, peer.run / "sent")
        await talk.answer()
        talk.send(
            "exec",
            **command(AGENT, AGENT_COMMAND, env={"OPENAI_API_KEY": "placeholder", "MSWEA_OTHER": "xplaceholder"}),
        )
        await talk.answer()
        talk.send("download", session=AGENT, path="/app/output")
        await talk.answer()
        talk.send("stop", session=AGENT)
        await talk.answer()
        await talk.start(VERIFIER)
        talk.send("exec", **command(VERIFIER, GRADING))
        await talk.answer()
        assert [answer.get("error") for answer in talk.answers] == [None] * 7
        assert talk.answers[2]["exit_code"] == 3 and talk.answers[2]["said"] == [b"out", b"err"]
        talk.left(5)

    assert peer.talk(act) == 5
    agent = peer.sessions["agent"].said
    assert ("upload", "environment", ["/app/a.txt"]) in agent
    env = next(each[2] for each in agent if each[:2] == ("exec", "agent"))
    assert env["OPENAI_API_KEY"] == "the-token" and env["MSWEA_OTHER"] == "xplaceholder"


async def _second_agent(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    await talk.start(AGENT)


async def _foreign_session(talk: Talk, peer: Peer) -> None:
    await talk.start("other__gateway")


async def _not_open(talk: Talk, peer: Peer) -> None:
    talk.send("exec", **command(AGENT))


async def _after_stop(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    talk.send("stop", session=AGENT)
    await talk.answer()
    talk.send("exec", **command(AGENT))


async def _own_command_beside_the_grader(talk: Talk, peer: Peer) -> None:
    await talk.start(VERIFIER)
    talk.send("exec", **command(VERIFIER, "mkdir -p /x; echo 1 > /logs/verifier/reward.txt"))


async def _graded_twice(talk: Talk, peer: Peer) -> None:
    await talk.start(VERIFIER)
    for _ in range(2):
        talk.send("exec", **command(VERIFIER, GRADING))
        await talk.answer()


async def _agent_twice(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    for _ in range(2):
        talk.send("exec", **command(AGENT, AGENT_COMMAND))
        await talk.answer()


async def _agent_and_more(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    talk.send("exec", **command(AGENT, AGENT_COMMAND + "; cp /answer /app/output"))


async def _agent_for_another_task(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    talk.send("exec", **command(AGENT, AGENT_COMMAND.replace("Do ", "Do not ")))


async def _command_that_the_adapter_does_not_have(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    talk.send("exec", **command(AGENT, "cat /etc/passwd"))


async def _variable_that_a_shell_acts_on(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    talk.send("exec", **command(AGENT, AGENT_COMMAND, env={"BASH_ENV": "$(id)"}))


async def _command_after_a_download(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    talk.send("download", session=AGENT, path="/app/output")
    await talk.answer()
    talk.send("exec", **command(AGENT, AGENT_COMMAND))


async def _a_way_up(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    talk.send("download", session=AGENT, path="/../../../../journal.json")


async def _a_path_that_nobody_declared(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    talk.send("download", session=AGENT, path="/tests")


async def _the_grade_before_the_grading(talk: Talk, peer: Peer) -> None:
    await talk.start(VERIFIER)
    talk.send("look", session=VERIFIER, path="/logs/verifier")


async def _other_files_of_the_verifier(talk: Talk, peer: Peer) -> None:
    await talk.start(VERIFIER)
    talk.send("exec", **command(VERIFIER, GRADING))
    await talk.answer()
    talk.send("download", session=VERIFIER, path="/app/output")


async def _upload_after_the_grading(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    await talk.start(VERIFIER)
    talk.send("exec", **command(VERIFIER, GRADING))
    await talk.answer()
    talk.send("upload", session=VERIFIER, purpose="artifacts_in", target="/app/output")
    talk.content({"out.txt": b"kept"}, peer.run / "sent")


async def _grading_with_more(talk: Talk, peer: Peer) -> None:
    await talk.start(VERIFIER)
    text = "(/tests/x||echo${IFS}1>/logs/verifier/reward.txt) > /logs/verifier/test-stdout.txt 2>&1"
    talk.send("exec", **command(VERIFIER, text))


async def _more_requests_than_a_trial_has(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    for _ in range(module.MAX_REQUESTS):
        talk.send("flush", session=AGENT)
        await talk.answer()


async def _other_tests(talk: Talk, peer: Peer) -> None:
    await talk.start(VERIFIER)
    talk.send("upload", session=VERIFIER, purpose="tests", target="/tests")
    talk.content({"test.sh": b"echo 1 > /logs/verifier/reward.txt"}, peer.run / "sent")


async def _more_tests(talk: Talk, peer: Peer) -> None:
    await talk.start(VERIFIER)
    talk.send("upload", session=VERIFIER, purpose="tests", target="/tests")
    talk.content({"test.sh": b"t", "conftest.py": b"1"}, peer.run / "sent")


async def _other_artifacts(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    await talk.start(VERIFIER)
    talk.send("upload", session=VERIFIER, purpose="artifacts_in", target="/app/output")
    talk.content({"out.txt": b"forged"}, peer.run / "sent")


async def _artifacts_over_the_tests(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    await talk.start(VERIFIER)
    talk.send("upload", session=VERIFIER, purpose="artifacts_in", target="/tests")
    talk.content({"out.txt": b"kept"}, peer.run / "sent")


async def _tests_for_the_agent(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    talk.send("upload", session=AGENT, purpose="tests", target="/tests")
    talk.content({"test.sh": b"t"}, peer.run / "sent")


async def _two_questions(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    talk.send("exec", **command(AGENT, "mkdir -p /forever"))
    talk.send("flush", session=AGENT)
    await asyncio.sleep(3600)


async def _cancel_of_nothing(talk: Talk, peer: Peer) -> None:
    talk.send("cancel")


async def _content_of_nothing(talk: Talk, peer: Peer) -> None:
    talk.raw(frames.encode(frames.CHUNK, b"x"))


async def _not_json(talk: Talk, peer: Peer) -> None:
    talk.raw(frames.encode(frames.MESSAGE, b"{" * 10_000))


async def _unknown(talk: Talk, peer: Peer) -> None:
    talk.send("become_root")


async def _extra_field(talk: Talk, peer: Peer) -> None:
    talk.send("flush", session=AGENT, path="/etc/shadow")


async def _mistyped(talk: Talk, peer: Peer) -> None:
    talk.send("exec", **command(AGENT, timeout_s="10"))


async def _endless(talk: Talk, peer: Peer) -> None:
    talk.send("exec", **command(AGENT, timeout_s=1e300))


async def _relative(talk: Talk, peer: Peer) -> None:
    talk.send("download", session=AGENT, path="../../etc")


async def _a_tiny_deadline_for_the_agent(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    talk.send("exec", **command(AGENT, AGENT_COMMAND, timeout_s=0.5))


async def _a_tiny_deadline_for_the_grading(talk: Talk, peer: Peer) -> None:
    await talk.start(VERIFIER)
    talk.send("exec", **command(VERIFIER, GRADING, timeout_s=29.0))


async def _an_agent_that_is_cut_short(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    talk.send("exec", **command(AGENT, AGENT_COMMAND.replace("--exit-immediately", "-c forever --exit-immediately")))
    talk.send("cancel")


async def _logs_back_where_the_plan_leaves_them(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    talk.send("exec", **command(AGENT, AGENT_COMMAND))
    await talk.answer()
    talk.send("upload", session=AGENT, purpose="agent_logs", target="/logs/agent")
    talk.content({"forged.json": b"1"}, peer.run / "sent")


async def _ready_again(talk: Talk, peer: Peer) -> None:
    talk.send("ready")


async def _broken_archive(talk: Talk, peer: Peer) -> None:
    await talk.start(AGENT)
    talk.send("upload", session=AGENT, purpose="environment", target="/app")
    for part in frames.stream([b"not a tar archive" * 100]):
        talk.raw(part)


async def _link_in_the_job(talk: Talk, peer: Peer) -> None:
    talk.send("left", exit_code=0)
    header = bytearray(next(iter(tar_writer.stream([tar_writer.Upload("j", "/", directories=[("/job/x", 0o755)])]))))
    header[156:157] = b"2"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    for part in frames.stream([bytes(header) + bytes(1024)]):
        talk.raw(part)


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (_second_agent, "session"), (_foreign_session, "session"), (_not_open, "session"), (_after_stop, "session"),
        (_grading_with_more, "command"), (_agent_twice, "command"), (_agent_and_more, "command"),
        (_agent_for_another_task, "command"), (_command_that_the_adapter_does_not_have, "command"),
        (_variable_that_a_shell_acts_on, "command"), (_command_after_a_download, "command"), (_a_way_up, "message"),
        (_a_path_that_nobody_declared, "path"), (_the_grade_before_the_grading, "path"),
        (_other_files_of_the_verifier, "path"), (_upload_after_the_grading, "frame_order"),
        (_more_requests_than_a_trial_has, "requests"),
        (_own_command_beside_the_grader, "command"), (_graded_twice, "command"),
        (_other_tests, "content"), (_more_tests, "content"), (_other_artifacts, "content"),
        (_a_tiny_deadline_for_the_agent, "deadline"), (_a_tiny_deadline_for_the_grading, "deadline"),
        (_an_agent_that_is_cut_short, "deadline"), (_logs_back_where_the_plan_leaves_them, "content"),
        (_artifacts_over_the_tests, "content"), (_tests_for_the_agent, "content"),
        (_two_questions, "frame_order"), (_cancel_of_nothing, "frame_order"), (_content_of_nothing, "frame_order"),
        (_ready_again, "frame_order"),
        (_not_json, "message"), (_unknown, "message"), (_extra_field, "message"), (_mistyped, "message"),
        (_endless, "message"), (_relative, "message"),
        (_broken_archive, "archive"), (_link_in_the_job, "archive"),
    ],
)  # fmt: skip
def test_what_does_not_fit_ends_the_conversation(peer: Peer, act: Any, code: str) -> None:
    assert peer.talk(lambda talk: act(talk, peer)) == f"sandbox.{code}"
    assert not (peer.run / "trials/1/job").exists() or not any((peer.run / "trials/1/job").iterdir())


def test_what_was_sent_in_place_of_the_reviewed_files_never_reaches_a_container(peer: Peer) -> None:
    peer.talk(lambda talk: _other_tests(talk, peer))
    assert not [each for each in peer.sessions["verifier"].said if each[0] == "upload"]


def test_a_cancelled_command_is_answered_as_cancelled_and_the_conversation_goes_on(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLOCK_SLACK_S", 60.0)

    async def act(talk: Talk) -> None:
        await talk.start(AGENT)
        talk.send("exec", **command(AGENT, "mkdir -p /forever"))
        talk.send("cancel")
        assert (await talk.answer())["cancelled"] is True
        talk.send("exec", **command(AGENT))
        assert (await talk.answer())["exit_code"] == 3
        talk.left()

    assert peer.talk(act) == 0


def test_the_plans_deadline_bounds_a_harbor_that_names_none_or_a_longer_one(peer: Peer) -> None:
    async def act(talk: Talk) -> None:
        await talk.start(AGENT)
        for text, timeout in (("mkdir -p /x", None), ("mkdir -p /y", 60.0), (AGENT_COMMAND, 86_000.0)):
            talk.send("exec", **command(AGENT, text, timeout_s=timeout))
            await talk.answer()
        talk.left()

    assert peer.talk(act) == 0
    limits = [each[3] for each in peer.sessions["agent"].said if each[0] == "exec"]
    assert limits == [65.0, 65.0, 105.0]


def test_at_its_deadline_or_at_a_stop_a_command_may_be_cancelled(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    forever = AGENT_COMMAND.replace("--exit-immediately", "-c forever --exit-immediately")

    async def act(talk: Talk) -> None:
        await talk.start(AGENT)
        talk.send("exec", **command(AGENT, forever))
        talk.send("cancel")
        assert (await talk.answer())["cancelled"] is True
        talk.left()

    with monkeypatch.context() as patched:
        patched.setattr(module, "CLOCK_SLACK_S", 100.0)  # as if that much of its 100 s had passed
        assert peer.talk(act) == 0
    assert peer.talk(act) == "sandbox.deadline"
    peer.terminating = True
    assert peer.talk(act) == 0


@pytest.mark.parametrize(
    "swapped",
    [
        "kept", "kept/out.txt", "tasks/task/tests", "tasks/task/tests/test.sh", "tasks/task/environment",
        "tasks/task/environment/a.txt", "tasks/task/task.toml", "tasks/task/instruction.md", "trials/1/config.json",
    ],
)  # fmt: skip
def test_a_link_that_stands_where_the_attendant_reads_is_never_followed(peer: Peer, swapped: str) -> None:
    """Whatever is sent on: what stands behind the link is the very content that would be accepted in its place."""

    async def act(talk: Talk) -> None:
        place, moved = peer.run / swapped, peer.run / "elsewhere"
        place.rename(moved)
        place.symlink_to(moved)
        await talk.start(AGENT)
        talk.send("upload", session=AGENT, purpose="environment", target="/app")
        talk.content({"a.txt": b"a"}, peer.run / "sent")
        await talk.answer()
        talk.send("exec", **command(AGENT, AGENT_COMMAND))
        await talk.answer()
        talk.send("download", session=AGENT, path="/app/output")
        await talk.answer()
        await talk.start(VERIFIER)
        for purpose, target, files in (
            ("tests", "/tests", {"test.sh": b"t"}),
            ("artifacts_in", "/app/output", {"out.txt": b"kept"}),
        ):
            talk.send("upload", session=VERIFIER, purpose=purpose, target=target)
            talk.content(files, peer.run / purpose)
            await talk.answer()
        talk.left()

    try:
        peer.talk(act)
    except OSError as error:
        assert error.errno == errno.ELOOP
    done = [said for session in peer.sessions.values() for said in session.said if said[0] in ("upload", "exec")]
    whole = [
        ("upload", "environment", ["/app/a.txt"]), ("exec", "agent"), ("upload", "tests", ["/tests/test.sh"]),
        ("upload", "artifacts_in", ["/app/output/out.txt"]),
    ]  # fmt: skip
    assert len(done) < len(whole)


ANOTHER = {
    "agent": replace(
        REVIEWED["agent"], session="__main", exclusive=False, artifacts=False, downloads=("/logs/agent", "/srv/state"),
        uploads={"environment": "/srv", "agent_logs": "/logs/agent"},
    ),
    "verifier": replace(REVIEWED["verifier"], session="__grader"),
}  # fmt: skip


@pytest.fixture
def another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Peer:
    """A peer of a trial with another plan."""
    return Peer(tmp_path, monkeypatch, ANOTHER)


def test_another_plan_has_other_sessions_transfers_and_lets_logs_come_back(another: Peer) -> None:
    async def act(talk: Talk) -> None:
        await talk.start("task__main")
        talk.send("upload", session="task__main", purpose="environment", target="/srv")
        talk.content({"a.txt": b"a"}, another.run / "sent")
        await talk.answer()
        talk.send("exec", **command("task__main", AGENT_COMMAND))
        await talk.answer()
        talk.send("download", session="task__main", path="/srv/state")
        await talk.answer()
        talk.send("skip_upload", session="task__main", target="/logs/agent")
        assert (await talk.answer())["skipped"] is False
        talk.send("upload", session="task__main", purpose="agent_logs", target="/logs/agent")
        talk.content({"changed.json": b"by Harbor"}, another.run / "logs")
        await talk.answer()
        assert [answer.get("error") for answer in talk.answers] == [None] * 6
        talk.left()

    assert another.talk(act) == 0
    uploads = [said[1:] for said in another.sessions["agent"].said if said[0] == "upload"]
    assert uploads == [("environment", ["/srv/a.txt"]), ("agent_logs", ["/logs/agent/changed.json"])]


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        ({"do": "download", "path": "/app/output"}, "path"),
        ({"do": "download", "path": "/logs/artifacts"}, "path"),
        ({"do": "upload", "purpose": "environment", "target": "/app"}, "content"),
        ({"do": "upload", "purpose": "tests", "target": "/tests"}, "content"),
        ({"do": "flush", "session": AGENT}, "session"),
    ],
)
def test_what_only_the_reviewed_plan_allows_is_refused_by_another(
    another: Peer, ask: dict[str, Any], code: str
) -> None:
    async def act(talk: Talk) -> None:
        await talk.start("task__main")
        talk.send(**{"session": "task__main", **ask})
        if ask["do"] == "upload":
            talk.content({"a.txt": b"a"}, another.run / "sent")

    assert another.talk(act) == f"sandbox.{code}"


def test_a_failure_names_its_kind_and_keeps_its_detail_private(peer: Peer) -> None:
    async def act(talk: Talk) -> None:
        await talk.start(AGENT)
        talk.send("exec", **command(AGENT, "mkdir -p /late"))
        answer = await talk.answer()
        assert answer["error"] == {"kind": "ExecTimedOut", "code": "exec.timed_out", "sentence": "Too late."}
        talk.left()

    assert peer.talk(act) == 0


@pytest.mark.parametrize(("policies", "refusals"), [([{"mode": "public"}], []), ([], ["GPU"])])
def test_another_network_or_a_refusal_of_harbors_own_is_a_refused_start(
    peer: Peer, policies: list[Any], refusals: list[str]
) -> None:
    async def act(talk: Talk) -> None:
        trial = str(uuid.uuid4())
        talk.send("start", session=AGENT, trial_uuid=trial, policies=policies, refusals=refusals, directories=[])
        assert (await talk.answer())["error"]["code"] == "start.refused"
        talk.left()

    assert peer.talk(act) == 0
    assert peer.sessions == {}


words = st.sampled_from(
    [
        "start",
        "exec",
        "upload",
        "download",
        "look",
        "stop",
        "flush",
        "cancel",
        "left",
        "directories",
        "skip_upload",
        "x",
    ]
)
values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.lists(st.text(max_size=4), max_size=2)
)
said = st.one_of(
    st.builds(
        lambda do, session, extra: frames.message({"do": do, "session": session, **extra}),
        words,
        st.sampled_from([AGENT, VERIFIER, "x"]),
        st.dictionaries(
            st.sampled_from(["path", "target", "purpose", "command", "exit_code", "paths"]), values, max_size=4
        ),
    ),
    st.binary(max_size=60).map(lambda data: frames.encode(frames.CHUNK, data)),
    st.just(frames.encode(frames.END)),
    st.binary(max_size=30),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.lists(said, max_size=6))
def test_nothing_that_a_peer_says_creates_or_sends_anything_unasked(peer: Peer, many: list[bytes]) -> None:
    async def act(talk: Talk) -> None:
        for data in many:
            talk.raw(data)
        talk.writer.write_eof()

    outcome = peer.talk(act)
    assert outcome == "closed" or isinstance(outcome, int) or str(outcome).startswith("sandbox.")
    assert peer.sessions == {}
