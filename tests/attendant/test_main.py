"""An attendant serves only when it recorded itself and its sandbox, was told to go, and the fence is open."""

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runs.attendant import main
from runs.attendant.main import Attendant, Exit, NotStarting
from runs.attendant.plan import Bounds, Deadlines, Plan
from runs.ownership import Journal, process_identity
from runs.wire import frames

GO = json.dumps({"token": "the token"}).encode() + b"\n"
UIDS = range(70_000, 70_064)
READY = frames.message({"do": "ready"})


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    directory = tmp_path / "run"
    Journal.create(directory, run_id="0" * 32)
    (directory / "trials" / "1").mkdir(parents=True)
    return directory


@pytest.fixture
def attendant(run_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Attendant:
    def plan(path: Path) -> Plan:
        return Plan(
            path.parent, "r", 1, "task", run_directory, "placeholder", Bounds(1, 1, 1), {}, {}, Deadlines(1, 1, 1)
        )

    monkeypatch.setattr(main, "load_plan", plan)
    return Attendant(run_directory, 1, Path("/harness"), 60, UIDS)


def until_go(
    attendant: Attendant,
    monkeypatch: pytest.MonkeyPatch,
    line: bytes,
    said: bytes,
    then: Callable[[], None] | None = None,
) -> Any:
    """What comes of a first line on standard input and of the sandbox's first words."""

    async def first_line() -> bytes:
        if then is not None:
            then()
        return line

    async def both() -> Any:
        reader = asyncio.StreamReader()
        reader.feed_data(said)
        reader.feed_eof()
        return await attendant._until_go(reader)

    monkeypatch.setattr(main, "_first_line", first_line)
    return asyncio.run(both())


def test_it_records_itself_and_is_late_for_a_closed_fence(attendant: Attendant, run_directory: Path) -> None:
    attendant._record(os.getpid())
    assert [each.identity for each in Journal(run_directory).read().processes] == [process_identity(os.getpid())]
    Journal(run_directory).fence("cancelled")
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as other, pytest.raises(NotStarting) as caught:
        attendant._record(other.pid)
    assert caught.value.exit is Exit.NOT_ALLOWED
    assert len(Journal(run_directory).read().processes) == 1


def test_told_to_go_with_harbor_loaded_and_the_fence_open_it_has_its_trial(
    attendant: Attendant, monkeypatch: pytest.MonkeyPatch, run_directory: Path
) -> None:
    trial = until_go(attendant, monkeypatch, GO, READY)
    assert (trial.token, trial.folder) == ("the token", run_directory / "trials/1")
    assert trial.observed.tells("named after the token") and not trial.observed.tells("the tok")
    trial.observed.close()
    written = [path.read_bytes() for path in run_directory.rglob("*") if path.is_file()]
    assert not any(b"the token" in data for data in written)


def test_a_fence_that_closed_while_it_waited_keeps_it_from_starting(
    attendant: Attendant, monkeypatch: pytest.MonkeyPatch, run_directory: Path
) -> None:
    with pytest.raises(NotStarting) as caught:
        until_go(attendant, monkeypatch, GO, READY, lambda: Journal(run_directory).fence("cancelled") and None)
    assert caught.value.exit is Exit.NOT_ALLOWED


@pytest.mark.parametrize("said", [b"", b"x", frames.message({"do": "cancel"}), frames.encode(frames.END)])
def test_a_sandbox_that_is_not_ready_starts_nothing(
    attendant: Attendant, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    with pytest.raises(NotStarting) as caught:
        until_go(attendant, monkeypatch, GO, said)
    assert caught.value.exit is Exit.NOT_READY


@pytest.mark.parametrize(
    "line",
    [
        b"", b"\n", b"{}\n", b"[1]\n", b'{"token": ""}\n', b'{"token": "a", "more": 1}\n', b"not json\n",
        b'{"token": ["a"]}\n', b'{"token": "a", "token": "b"}\n', b'\xef\xbb\xbf{"token": "a"}\n',
    ],
)  # fmt: skip
def test_without_a_go_of_the_right_form_it_starts_nothing(line: bytes) -> None:
    with pytest.raises(NotStarting) as caught:
        main.read_token(line)
    assert caught.value.exit is Exit.NO_GO


def test_a_descriptor_that_the_sandbox_passes_is_never_taken(tmp_path: Path) -> None:
    """The kernel drops what nobody asks for: no descriptor of the sandbox ever stands in the attendant."""

    async def both() -> int:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        before = len(list(Path("/proc/self/fd").iterdir()))
        with (tmp_path / "f").open("w") as file, theirs:
            socket.send_fds(theirs, [READY], [file.fileno()])
            await frames.read(reader)
            after = len(list(Path("/proc/self/fd").iterdir()))
        writer.close()
        return after - before

    assert asyncio.run(both()) == 1  # the file that the test itself opened
