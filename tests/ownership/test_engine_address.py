"""The engine is the one that docker's own command would speak to, on a Unix socket of this host, or a refusal."""

import hashlib
import json
from pathlib import Path

import pytest

from runs.checks.worker import report_checks
from runs.containers import EngineError, connect, engine_address


@pytest.fixture(autouse=True)
def docker_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".docker"
    folder.mkdir()
    return folder


def context(folder: Path, name: str, host: object, *, use: bool = True) -> None:
    """What `docker context create` and `docker context use` write."""
    meta = folder / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}}))
    if use:
        (folder / "config.json").write_text(json.dumps({"auths": {}, "currentContext": name}))


def refused() -> EngineError:
    with pytest.raises(EngineError) as raised:
        engine_address()
    return raised.value


def test_without_any_choice_it_is_the_usual_socket() -> None:
    found = engine_address()
    assert (found.url, found.named) == ("unix:///var/run/docker.sock", False)
    assert "DOCKER_HOST is not set" in found.reason and "context is default" in found.reason


def test_the_active_context_is_honoured(docker_folder: Path) -> None:
    context(docker_folder, "rootless", "unix:///run/user/1000/docker.sock")
    found = engine_address()
    assert (found.url, found.named) == ("unix:///run/user/1000/docker.sock", True)
    assert "rootless" in found.reason


def test_a_context_that_is_not_in_use_does_not_count_until_the_environment_names_it(
    docker_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context(docker_folder, "other", "unix:///other.sock", use=False)
    assert not engine_address().named
    monkeypatch.setenv("DOCKER_CONTEXT", "other")
    assert engine_address().url == "unix:///other.sock"


def test_another_folder_of_dockers_configuration_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context(tmp_path / "elsewhere", "there", "unix:///there.sock")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "elsewhere"))
    assert engine_address().url == "unix:///there.sock"


def test_docker_host_goes_before_every_context(docker_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context(docker_folder, "rootless", "unix:///run/user/1000/docker.sock")
    monkeypatch.setenv("DOCKER_HOST", "unix:///mine.sock")
    assert engine_address().url == "unix:///mine.sock"


HOSTS = [
    "tcp://127.0.0.1:2375",
    "ssh://root@far",
    "http://far:2375",
    "npipe:////./pipe/docker",
    "fd://",
    "/a.sock",
    "unix://a",
]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("by_context", [False, True])
def test_an_engine_that_is_not_on_a_unix_socket_here_is_refused_with_the_reason(
    docker_folder: Path, monkeypatch: pytest.MonkeyPatch, host: str, by_context: bool
) -> None:
    if by_context:
        context(docker_folder, "far", host)
    else:
        monkeypatch.setenv("DOCKER_HOST", host)
    error = refused()
    assert error.code == "engine_not_local"
    assert ("docker context far" if by_context else "DOCKER_HOST") in error.sentence and "Unix socket" in error.sentence
    assert "root@far" not in error.sentence
    with pytest.raises(EngineError):
        connect()


@pytest.mark.parametrize("content", ["{", "[]", '"x"'])
def test_a_configuration_that_cannot_be_read_is_no_default(docker_folder: Path, content: str) -> None:
    (docker_folder / "config.json").write_text(content)
    assert refused().code == "engine_context"


def test_a_context_that_is_gone_is_named(docker_folder: Path) -> None:
    (docker_folder / "config.json").write_text('{"currentContext": "gone"}')
    error = refused()
    assert error.code == "engine_context" and "gone" in error.sentence


def test_an_engine_that_is_not_there_is_named_with_who_chose_it(docker_folder: Path, tmp_path: Path) -> None:
    context(docker_folder, "rootless", f"unix://{tmp_path}/none.sock")
    with pytest.raises(EngineError) as raised:
        connect()
    assert raised.value.code == "engine_unreachable"
    assert f"{tmp_path}/none.sock" in raised.value.sentence
    assert "DOCKER_HOST is not set" in raised.value.sentence and "docker context rootless" in raised.value.sentence


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("engine_not_local", "engine.not_local"),
        ("engine_context", "engine.context_unreadable"),
        ("engine_unreachable", "engine.unreachable"),
        ("engine_timeout", "engine.unreachable"),
    ],
)
def test_a_report_that_says_so_blocks_a_preview_with_the_reason(code: str, expected: str) -> None:
    report = {"engine": None, "engine_problem": {"code": code, "sentence": "The reason."}, "platform": "Linux x"}
    check = next(check for check in report_checks(report) if check.name == "engine")
    assert (check.refuses, check.code, check.detail) == (True, expected, "The reason.")
