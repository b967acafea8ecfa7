"""Files and variables that are an endpoint's credential: never those that hold the site's own secrets."""

from pathlib import Path
from typing import Any

import pytest

from runs.documents.endpoints import FileCredential
from runs.engine.host.credentials import CredentialError, read_credential


@pytest.fixture
def data(settings: Any, tmp_path: Path) -> Path:
    settings.DATA = tmp_path
    return tmp_path


def refusal(path: Path) -> str:
    with pytest.raises(CredentialError) as refused:
        read_credential(FileCredential(kind="file", name=str(path)))
    assert "own-secret" not in f"{refused.value.sentence}{refused.value.detail}"
    return refused.value.code


def test_a_file_gives_its_one_line(data: Path) -> None:
    (data / "scripted-key").write_text("sk-of-the-endpoint\n")
    assert read_credential(FileCredential(kind="file", name=str(data / "scripted-key"))) == "sk-of-the-endpoint"


def test_the_sites_key_is_never_sent_to_an_endpoint(data: Path) -> None:
    """Whoever knew it could sign a session of anybody."""
    (data / "secret-key").write_text("own-secret")
    (data / "link").symlink_to(data / "secret-key")
    (data / "hard").hardlink_to(data / "secret-key")
    for name in ("secret-key", "link", "hard"):
        assert refusal(data / name) == "credential.own_secret"


@pytest.mark.parametrize("variable", ["BENCHSITE_SECRET_KEY_FILE", "DATABASE_URL_FILE", "REDIS_URL_FILE"])
def test_no_file_that_holds_a_setting_of_the_site_is_sent(
    data: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (data / "setting").write_text("own-secret")
    monkeypatch.setenv(variable, str(data / "setting"))
    assert refusal(data / "setting") == "credential.own_secret"


def test_the_file_of_a_variable_that_is_an_endpoints_may_be_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data / "scripted-key").write_text("sk-of-the-endpoint\n")
    monkeypatch.setenv("BENCHSITE_SCRIPTED_KEY_FILE", str(data / "scripted-key"))
    assert read_credential(FileCredential(kind="file", name=str(data / "scripted-key"))) == "sk-of-the-endpoint"
