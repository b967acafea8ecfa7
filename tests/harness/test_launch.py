"""A launched process becomes Harbor only when it recorded itself, was told to go, and the fence is open."""

import io
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from runs.harness import launch, observed, trial_token
from runs.harness.launch import Exit, NotBecoming
from runs.ownership import Journal, process_identity


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    directory = tmp_path / "run"
    Journal.create(directory, run_id="0" * 32)
    (directory / "trials" / "1").mkdir(parents=True)
    return directory


def tell(monkeypatch: pytest.MonkeyPatch, line: bytes, while_waiting: object = None) -> None:
    class Waiting(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            if callable(while_waiting):
                while_waiting()
            return super().readline(size)

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Waiting(line)))


def ready(run_directory: Path, network_kept: str | None = None) -> None:
    launch.become_ready(run_directory, 1, network_kept)
    observed.observed_at(run_directory / "trials" / "1" / "observed.jsonl").close()


GO = json.dumps({"token": "the token"}).encode() + b"\n"


def test_the_identity_is_recorded_before_the_go_and_the_fence_is_checked_after_it(
    run_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[object] = []

    def fence_while_waiting() -> None:
        recorded.extend(process.identity for process in Journal(run_directory).read().processes)
        Journal(run_directory).fence("cancelled")

    tell(monkeypatch, GO, fence_while_waiting)
    with pytest.raises(NotBecoming) as caught:
        ready(run_directory)
    assert recorded == [process_identity(os.getpid())]
    assert caught.value.exit is Exit.NOT_ALLOWED


def test_a_process_that_is_late_for_the_fence_does_not_even_record_itself(
    run_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Journal(run_directory).fence("cancelled")
    tell(monkeypatch, GO)
    with pytest.raises(NotBecoming) as caught:
        ready(run_directory)
    assert caught.value.exit is Exit.NOT_ALLOWED
    assert Journal(run_directory).read().processes == ()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"{}\n",
        b"[1]\n",
        b'{"token": ""}\n',
        b'{"token": "a", "more": 1}\n',
        b"not json\n",
        b'{"token": ["a"]}\n',
        b'{"token": "a", "token": "b"}\n',
        b'\xef\xbb\xbf{"token": "a"}\n',
    ],
)
def test_without_a_go_of_the_right_form_it_becomes_nothing(
    run_directory: Path, monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    tell(monkeypatch, line)
    with pytest.raises(NotBecoming) as caught:
        ready(run_directory)
    assert caught.value.exit is Exit.NO_GO


def test_whether_the_network_was_left_stands_in_the_record(
    run_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(monkeypatch, GO)
    ready(run_directory, "PermissionError: no")
    line = json.loads((run_directory / "trials" / "1" / "observed.jsonl").read_text())
    assert (line["event"], line["network_namespace"], line["seq"]) == ("launched", False, 0)


def test_the_token_stays_in_memory_and_replaces_only_the_exact_placeholder(
    run_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(monkeypatch, GO)
    ready(run_directory)
    env = {"OPENAI_API_KEY": "placeholder", "OTHER": "a placeholder b"}
    assert trial_token.in_place_of("placeholder", env) == {
        "OPENAI_API_KEY": "the token",
        "OTHER": "a placeholder b",
    }
    assert trial_token.in_place_of("", {"EMPTY": ""}) == {"EMPTY": ""}
    written = [path.read_bytes() for path in run_directory.rglob("*") if path.is_file()]
    assert not any(b"the token" in data for data in written)


def test_nothing_of_the_workers_environment_is_inherited_but_what_names_the_engine() -> None:
    inherited = {
        "DOCKER_HOST": "unix:///run/docker.sock",
        "BENCHSITE_OWNER": "owner",
        "OPENAI_API_KEY": "secret",
        "HTTPS_PROXY": "http://proxy",
        "PYTHONPATH": "/elsewhere",
        "HOME": "/root",
    }
    found = launch.minimal_environment(Path("/run"), inherited)
    assert not {"OPENAI_API_KEY", "HTTPS_PROXY", "PYTHONPATH"} & set(found)
    assert (found["DOCKER_HOST"], found["BENCHSITE_OWNER"]) == ("unix:///run/docker.sock", "owner")
    assert (found["HOME"], found["TMPDIR"]) == ("/run/work/home", "/run/work/tmp")
    assert (found["HARBOR_TELEMETRY"], found["LITELLM_LOCAL_MODEL_COST_MAP"]) == ("off", "True")


@pytest.mark.parametrize(("code", "expected"), [(None, 0), (0, 0), (3, 3), ("a message", 1)])
def test_harbors_exit_is_the_exit_of_the_process(code: object, expected: int) -> None:
    assert launch.exit_code_of(SystemExit(code)) == expected
