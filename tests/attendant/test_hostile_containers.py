"""What a hostile agent leaves in a real container gains it nothing, and the record says what was there."""

import asyncio
import base64
import hashlib
import shlex
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from benchsite.lib.redaction import Scrubber
from runs.attendant.commands import Purpose
from runs.attendant.downloads import AGENT_LOGS, DownloadState, Fetched
from runs.attendant.execs import Command
from runs.attendant.plan import Bounds
from runs.attendant.session import Finished
from runs.ownership import ResourceStage
from runs.wire import tar_writer
from runs.wire.failures import AttendantError, ExecTimedOut
from runs.wire.tar_reader import Limits
from tests.attendant.real_parts import MIB, Bench, OpenSession

pytestmark = pytest.mark.harbor_compatibility


class Play:
    """One session, played from beginning to end on one event loop."""

    def __init__(self, opened: OpenSession) -> None:
        self.opened = opened
        self.session = opened.session

    async def begun(self, command: str) -> None:
        """Wait until exactly this command runs in the container."""
        async with asyncio.timeout(60):
            while command not in await asyncio.to_thread(self.opened.bench.running_in, self.opened.container.id):
                await asyncio.sleep(0.05)

    async def sh(self, line: str, *, purpose: Purpose = Purpose.OTHER, limit_s: float = 30.0) -> Finished:
        return await self.session.execute(purpose, Command(("bash", "-c", line)), limit_s, "")

    async def download(self, path: str) -> Fetched:
        return await self.session.download(path)

    @property
    def kept(self) -> Path:
        return self.opened.bench.trial / "kept"


def play(opened: OpenSession, scenario: Any) -> Any:
    async def run() -> Any:
        opened.container.open()
        opened.session.make_directories(["/logs/agent", "/logs/verifier", "/app/output"], 0o777)
        part = Play(opened)
        try:
            return await scenario(part)
        finally:
            await opened.session.close()

    coroutine: Coroutine[Any, Any, Any] = run()
    return asyncio.run(coroutine)


def test_links_devices_fifos_sockets_and_odd_names_are_listed_and_the_plain_files_are_taken(bench: Bench) -> None:
    """Hard links are files like others."""

    async def scenario(part: Play) -> Fetched:
        await part.sh(
            "cd /app/output; echo real > good.txt; ln -s /etc/passwd link; ln good.txt hard; mkfifo fifo; "
            "mknod device c 1 3; mkdir deep; ln -s / deep/root; touch $'n\\u00a0b.txt' $'\\xff' $'a\\nb'; "
            "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('socket')\""
        )
        return await part.download("/app/output")

    opened = bench.session()
    fetched = play(opened, scenario)
    assert (fetched.outcome, fetched.files) == (DownloadState.PARTIAL, 2)
    # The engine gives no right to make devices, so there is none to refuse.
    assert {refusal.path: refusal.code for refusal in fetched.refusals} == {
        "link": "link",
        "fifo": "fifo",
        "deep/root": "link",
        "socket": "socket",
        "app/output/n\\xa0b.txt": "name",
        "app/output/\\ufffd": "name",
        "app/output/a\\nb": "name",
    }
    kept = bench.trial / "kept/artifacts/app/output"
    assert {path.name: path.read_text() for path in kept.iterdir() if path.is_file()} == {
        "good.txt": "real\n",
        "hard": "real\n",
    }
    (record,) = opened.seen("transfer")
    assert record["refused"] == {
        "transfer.fifo": 1,
        "transfer.link": 2,
        "transfer.name": 3,
        "transfer.socket": 1,
    }


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_service_lives_on_after_a_download_only_where_the_plan_is_not_exclusive(
    bench: Bench, exclusive: bool
) -> None:
    async def scenario(part: Play) -> list[str]:
        await part.sh("echo out > /app/output/a; echo log > /logs/agent/a; setsid sleep 1000 >/dev/null 2>&1 &")
        await part.begun("sleep 1000")
        assert (await part.download(AGENT_LOGS)).files == 1
        # What can still change is not fetched ahead.
        assert (part.session.downloaded("/app/output") is not None) is exclusive
        assert (await part.download("/app/output")).files == 1
        return await asyncio.to_thread(part.opened.bench.running_in, part.opened.container.id)

    opened = bench.session(artifacts=("/app/output",), exclusive=exclusive)
    running = play(opened, scenario)
    assert ("sleep 1000" in running) is not exclusive
    assert bool(opened.seen("killed_others")) is exclusive


def test_an_output_named_after_the_agents_own_bearer_is_passed_over_and_told_by_nobody(bench: Bench) -> None:
    """Attack 8: scrubbing the record and not the name gave an integrity alarm that every agent could raise."""
    bearer = hashlib.sha256(b"bearer").hexdigest()

    async def scenario(part: Play) -> Fetched:
        based = base64.urlsafe_b64encode(f"x{bearer}".encode()).decode()
        await part.sh(
            f"cd /app/output; echo real > good.txt; echo x > {bearer}.json; mkdir {bearer}; echo x > {bearer}/a; "
            f"ln -s /etc/passwd link-{bearer}; echo x > {based}; echo x > {bearer.replace('a', '%61')}; "
            f"python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('{bearer}-s')\""
        )
        return await part.download("/app/output")

    opened = bench.session()
    opened.observed.hide(bearer)
    fetched = play(opened, scenario)
    assert (fetched.outcome, [entry.path for entry in fetched.entries]) == (DownloadState.PARTIAL, ["good.txt"])
    assert fetched.refused == {"name": 6, "socket": 1}
    written = [str(path).encode() + (path.read_bytes() if path.is_file() else b"") for path in bench.trial.rglob("*")]
    assert not any(Scrubber([bearer]).found_in(data) for data in written)


def test_a_socket_that_tar_leaves_out_is_not_passed_over_in_silence(bench: Bench) -> None:
    async def scenario(part: Play) -> Fetched:
        await part.sh("python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('/logs/agent/s')\"")
        return await part.download(AGENT_LOGS)

    fetched = play(bench.session(), scenario)
    assert (fetched.outcome, fetched.code) == (DownloadState.REFUSED, "output.nothing_plain")
    assert [(refusal.path, refusal.code) for refusal in fetched.refusals] == [("s", "socket")]


@pytest.mark.parametrize(
    ("line", "outcome", "code"),
    [
        pytest.param("true", DownloadState.SOURCE_ABSENT, None, id="never made"),
        pytest.param("touch /app/result", DownloadState.SOURCE_ABSENT, None, id="a file where its folder should be"),
        pytest.param("ln -s /etc /app/result", DownloadState.SOURCE_ABSENT, None, id="its folder is a link"),
        pytest.param(
            "mkdir /app/result; ln -s /etc/passwd /app/result/out",
            DownloadState.REFUSED,
            "output.nothing_plain",
            id="a link",
        ),
        pytest.param(
            "ln -s /app/result /app/result",
            DownloadState.REFUSED,
            "output.nothing_plain",
            id="a link to itself above it",
        ),
        pytest.param(
            "mkdir -p /app/result; mkfifo /app/result/out", DownloadState.REFUSED, "output.nothing_plain", id="a fifo"
        ),
        pytest.param(
            "mkdir -p /app/result/out/d; ln -s / /app/result/out/d/l",
            DownloadState.REFUSED,
            "output.nothing_plain",
            id="a folder of links",
        ),
    ],
)
def test_an_artifact_is_absent_or_refused_but_never_mixed_up(
    bench: Bench, line: str, outcome: DownloadState, code: str | None
) -> None:
    async def scenario(part: Play) -> Fetched:
        await part.sh(line)
        return await part.download("/app/result/out")

    fetched = play(bench.session(), scenario)
    assert (fetched.outcome, fetched.code) == (outcome, code)
    assert not [path for path in (bench.trial / "kept").rglob("*") if not path.is_dir()]


def test_a_sparse_file_larger_than_the_bound_ends_the_download_and_nothing_hangs(bench: Bench) -> None:
    opened = bench.session()

    async def scenario(part: Play) -> tuple[Fetched, Fetched]:
        await part.sh("truncate -s 8G /logs/agent/huge; echo 1 > /app/output/answer")
        return await part.download(AGENT_LOGS), await part.download("/app/output")

    logs, artifact = play(opened, scenario)
    assert (logs.outcome, logs.code) == (DownloadState.REFUSED, "output.too_large")
    assert (artifact.outcome, artifact.files) == (DownloadState.OK, 1)
    assert not (bench.trial / "kept/agent/huge").exists()


def test_too_many_files_are_refused(bench: Bench) -> None:
    async def scenario(part: Play) -> Fetched:
        await part.sh("cd /logs/agent; for i in $(seq 300); do : > f$i; done")
        return await part.download(AGENT_LOGS)

    fetched = play(bench.session(), scenario)
    assert (fetched.outcome, fetched.code, fetched.cut_off) == (DownloadState.REFUSED, "output.too_many", True)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("head -c 3000000 /dev/zero > a; for i in $(seq 9); do ln a h$i; done", id="hard links"),
        pytest.param("mkdir $'\\xff'; cd $'\\xff'; for i in $(seq 50); do truncate -s 3M f$i; done", id="odd names"),
        pytest.param("for i in $(seq 20); do truncate -s 1M f$i; done", id="sparse files"),
    ],
)
def test_little_space_that_is_much_to_send_ends_the_download(bench: Bench, line: str) -> None:
    async def scenario(part: Play) -> Fetched:
        await part.sh(f"cd /app/output; {line}")
        return await part.download("/app/output")

    fetched = play(bench.session(), scenario)
    assert (fetched.outcome, fetched.code) == (DownloadState.REFUSED, "output.too_large")


def test_what_is_taken_always_fits_into_the_verifier(bench: Bench) -> None:
    """Its folder of 16 MiB holds 4,096 files of a byte, however many the agent's links are."""

    async def scenario(part: Play) -> tuple[Fetched, Fetched]:
        await part.sh("cd /app/output; echo > a; for i in $(seq 4500); do ln a h$i; done; mkdir -p /logs/artifacts")
        await part.sh("head -c 13000000 /dev/zero > /logs/artifacts/big")
        return await part.download("/app/output"), await part.download("/logs/artifacts")

    opened = bench.session(bounds=Bounds(exec_output_bytes=4096, transfer_bytes=64 * MIB, transfer_files=10_000))
    output, undeclared = play(opened, scenario)
    assert (output.outcome, output.code, output.files) == (DownloadState.REFUSED, "output.too_large", 4096)
    # A quarter of the folder with the verifier's logs stays free for them.
    assert (undeclared.outcome, undeclared.code) == (DownloadState.REFUSED, "output.too_large")


EMPTY_FILES = "import os\nfor n in range(10**7): os.close(os.open(f'/app/output/{n}', os.O_CREAT | os.O_WRONLY))"
SHARED_MEMORY = """
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
for _ in range(10_000):
    ctypes.memset(libc.shmat(libc.shmget(0, 2**20, 0o1600), 0, 0), 1, 2**20)
"""


@pytest.mark.parametrize("program", [EMPTY_FILES, SHARED_MEMORY], ids=["empty files", "shared memory"])
def test_memory_that_dead_processes_left_full_is_never_a_failure_of_ours(bench: Bench, program: str) -> None:
    """The kernel kills the program at the limit, what it made stays, and then there may be no room for `tar`."""
    opened = bench.session(memory_bytes=256 * MIB)

    async def scenario(part: Play) -> Fetched:
        await part.sh(f"python3 -c {shlex.quote(program)}; true", limit_s=120)
        return await part.download("/app/output")

    fetched = play(opened, scenario)
    assert fetched.code in ("output.no_memory", "output.too_many", None)
    assert fetched.outcome is not DownloadState.FAILED
    assert opened.container.id and not opened.seen("failure")


def test_a_tar_that_is_killed_in_a_container_with_room_is_not_charged_to_the_agent(bench: Bench) -> None:
    opened = bench.session()

    async def scenario(part: Play) -> Fetched:
        await part.sh("head -c 3000000 /dev/zero > /app/output/a")
        begin = opened.container.begin
        killed = Command(("bash", "-c", "kill -9 $$"), user="0:0", workdir="/")
        opened.container.begin = lambda _command, **options: begin(killed, **options)  # type: ignore[method-assign]
        return await part.download("/app/output")

    fetched = play(opened, scenario)
    assert (fetched.outcome, fetched.code) == (DownloadState.FAILED, "transfer.tar")


def test_processes_that_cannot_be_killed_because_the_engine_failed_are_on_record(bench: Bench) -> None:
    """Else the verifier would be given nothing, grade 0, and the agent would be blamed."""
    opened = bench.session()

    async def scenario(part: Play) -> None:
        await part.sh("true")
        opened.bench.api.remove_container(opened.container.id, force=True)
        with pytest.raises(AttendantError):
            await part.download("/app/output")

    play(opened, scenario)
    assert opened.seen("failure")[0]["where"] == "transfer"


def test_a_fork_bomb_is_stopped_by_its_limit_counted_and_killed_before_anything_is_read(bench: Bench) -> None:
    opened = bench.session(pids=64)

    async def scenario(part: Play) -> Fetched:
        with pytest.raises(ExecTimedOut):
            await part.sh("echo before > /logs/agent/log; bomb() { bomb | bomb & }; bomb; sleep 60", limit_s=8)
        return await part.download(AGENT_LOGS)

    fetched = play(opened, scenario)
    assert (fetched.outcome, fetched.files) == (DownloadState.OK, 1)
    assert {event["remaining"] for event in opened.seen("killed_others")} == {0}
    assert opened.seen("counters")[0]["pids_max"] > 0
    (command,) = opened.seen("exec")
    assert (command["timed_out"], command["exit_code"]) == (True, None)


def test_a_full_writable_path_is_seen_in_the_counters_and_the_logs_still_come_out(bench: Bench) -> None:
    opened = bench.session()

    async def scenario(part: Play) -> Fetched:
        await part.sh("echo log > /logs/agent/log; dd if=/dev/zero of=/app/filler bs=1M; true")
        await part.sh("dd if=/dev/zero of=/tmp/filler bs=1M; true")
        return await part.download(AGENT_LOGS)

    assert play(opened, scenario).outcome is DownloadState.OK
    space = opened.seen("counters")[0]["tmpfs"]["/app"]
    assert space["used"] == space["size"]


def test_memory_beyond_the_limit_is_counted_and_the_holder_survives(bench: Bench) -> None:
    opened = bench.session(memory_bytes=160 * 1024 * 1024)

    async def scenario(part: Play) -> Finished:
        ended = await part.sh("python3 -c 'x = bytearray(400_000_000)'; echo $? > /logs/agent/code")
        assert (await part.download(AGENT_LOGS)).outcome is DownloadState.OK
        return ended

    assert play(opened, scenario).exit_code == 0
    assert opened.seen("counters")[0]["oom_kill"] > 0
    assert (bench.trial / "kept/agent/code").read_text() == "137\n"
    (state,) = opened.seen("state")
    assert state["status"] == "exited"


def test_a_process_left_behind_cannot_change_the_trajectory_while_it_is_read(bench: Bench) -> None:
    opened = bench.session()
    rewriter = "while true; do echo forged > /logs/agent/t.json; echo {} > /logs/agent/t.json; done"
    until = "until [ -e /logs/agent/t.json ]; do sleep 0.05; done"

    async def scenario(part: Play) -> Fetched:
        await part.sh(f"setsid nohup bash -c '{rewriter}' >/dev/null 2>&1 & {until}")
        return await part.download(AGENT_LOGS)

    fetched = play(opened, scenario)
    (killed,) = opened.seen("killed_others")
    assert all(killed["seq"] < transfer["seq"] for transfer in opened.seen("transfer"))
    assert (fetched.outcome, killed["remaining"]) == (DownloadState.OK, 0)


def test_an_orphan_that_holds_the_commands_output_open_does_not_hold_the_trial(bench: Bench) -> None:
    opened = bench.session()

    async def scenario(part: Play) -> Finished:
        return await part.sh("sleep 300 & exit 7", limit_s=60)

    assert play(opened, scenario).exit_code == 7
    assert opened.seen("exec")[0]["duration_s"] < 30


def test_a_cancelled_command_leaves_no_process_behind_and_its_logs_can_still_be_saved(bench: Bench) -> None:
    """The end of the exec's client ends nothing in the container, so its processes are killed by themselves."""
    opened = bench.session()

    async def scenario(part: Play) -> Fetched:
        running = asyncio.ensure_future(part.sh("echo begun > /logs/agent/log; sleep 300", limit_s=100))
        await part.begun("sleep 300")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return await part.download(AGENT_LOGS)

    assert play(opened, scenario).files == 1
    (command,) = opened.seen("exec")
    assert (command["cancelled"], command["exit_code"]) == (True, None)
    assert opened.seen("killed_others")[0]["remaining"] == 0


def test_output_is_bounded_but_counted_whole_and_the_exit_code_is_true(bench: Bench) -> None:
    opened = bench.session()

    async def scenario(part: Play) -> Finished:
        return await part.sh("set -o pipefail; (head -c 3000000 /dev/zero | tr '\\0' x; exit 3) | cat")

    ended = play(opened, scenario)
    (command,) = opened.seen("exec")
    assert (ended.exit_code, command["output_bytes"], command["output_truncated"]) == (3, 3_000_000, True)
    assert len(ended.stdout) < 70_000


def test_what_is_uploaded_arrives_byte_for_byte_with_its_mode(bench: Bench, tmp_path: Path) -> None:
    source = tmp_path / "tests"
    (source / "deep").mkdir(parents=True)
    (source / "test.sh").write_text("#!/bin/sh\nexit 4\n")
    (source / "deep" / "data").write_bytes(bytes(range(256)) * 5000)
    opened = bench.session("verifier")

    async def scenario(part: Play) -> tuple[Finished, Finished]:
        limits = Limits(bytes=4_000_000, files=50)
        part.session.queue(tar_writer.of_directory("tests", source, "/tests", limits))
        assert part.session.make_executable("/tests/test.sh")
        return await part.sh("/tests/test.sh"), await part.sh("sha256sum /tests/deep/data; stat -c %U /tests/deep")

    ran, listed = play(opened, scenario)
    assert ran.exit_code == 4
    assert listed.stdout.split()[0] == hashlib.sha256(bytes(range(256)) * 5000).hexdigest()
    (upload,) = opened.seen("transfer")
    assert (upload["direction"], upload["outcome"], upload["files"]) == ("upload", "ok", 2)


def test_files_that_do_not_fit_are_a_failed_transfer_not_a_silent_gap(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(20 * 1024 * 1024))
    opened = bench.session("verifier")

    async def scenario(part: Play) -> None:
        limits = Limits(bytes=64 * 1024 * 1024, files=5)
        part.session.queue(tar_writer.of_file("artifacts_in", tmp_path / "big", "/tests/big", limits))
        with pytest.raises(AttendantError) as caught:
            await part.sh("true")
        assert caught.value.code == "transfer.untar"

    play(opened, scenario)
    assert opened.seen("transfer")[0]["outcome"] == "failed"
    assert opened.seen("exec") == []


def test_a_container_shows_the_limits_that_the_engine_gave_and_is_gone_at_the_end(bench: Bench) -> None:
    opened = bench.session("verifier", pids=77)

    async def scenario(part: Play) -> Finished:
        return await part.sh("cat /sys/class/net/*/address 2>/dev/null | grep -vc 00:00:00:00:00:00")

    assert play(opened, scenario).stdout.strip() == "0"
    (seen,) = opened.seen("opened")
    assert seen["limits"]["pids"] == 77
    assert seen["network"] is None
    assert seen["image_id"] == bench.parts.verifier
    assert [event["outcome"] for event in opened.seen("removed")] == ["removed"]
    (resource,) = bench.journal.read().resources
    assert (resource.stage, resource.resource_id) == (ResourceStage.REMOVED, seen["container_id"])


def test_the_agents_version_is_read_from_the_installed_package_before_it_runs(bench: Bench) -> None:
    opened = bench.session()

    async def scenario(part: Play) -> None:
        await part.sh("true", purpose=Purpose.AGENT)

    play(opened, scenario)
    (version,), (command,) = opened.seen("agent_version"), opened.seen("exec")
    assert (version["version"], version["exit_code"]) == ("2.4.6", 0)
    assert version["seq"] < command["seq"]
    assert version["mono"] <= command["started_mono"]


def test_after_the_fence_no_container_is_started(bench: Bench) -> None:
    bench.journal.fence("cancelled")
    opened = bench.session()
    with pytest.raises(Exception, match="stopped"):
        opened.container.open()
    opened.container.close()
    assert bench.journal.read().resources == ()
