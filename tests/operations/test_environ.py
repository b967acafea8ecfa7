"""Where the database and the evidence lie is read from the environment, and a mistake is told at once."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.files.base import ContentFile
from django.core.files.storage import storages

from benchsite.lib import commandline, environ

HERE = Path("/nowhere/benchsite.sqlite3")


def database(monkeypatch: pytest.MonkeyPatch, url: str) -> dict[str, Any]:
    monkeypatch.setenv("DATABASE_URL", url)
    return environ.database("DATABASE_URL", sqlite=HERE)


def test_a_database_url_may_say_how_the_server_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = database(
        monkeypatch, "postgresql://ada:p%40ss@db.example:5433/bench?sslmode=verify-full&sslrootcert=/ca.pem"
    )
    assert (found["USER"], found["PASSWORD"], found["HOST"], found["PORT"]) == ("ada", "p@ss", "db.example", "5433")
    assert found["OPTIONS"] == {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}


def test_a_database_url_may_name_a_sockets_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    found = database(monkeypatch, "postgresql://benchsite@/benchsite?host=%2Frun%2Fpostgresql")
    assert (found["HOST"], found["NAME"], found["OPTIONS"]) == ("/run/postgresql", "benchsite", {})


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("postgresql://ada@db.example/bench?sslmod=require", "sslmod"),
        ("postgresql://ada@db.example/", "must look like"),
        ("mysql://ada@db.example/bench", "must look like"),
    ],
)
def test_a_wrong_database_url_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, url: str, word: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=word):
        database(monkeypatch, url)


def storage(monkeypatch: pytest.MonkeyPatch, **variables: str) -> dict[str, Any]:
    for name, value in variables.items():
        monkeypatch.setenv(f"BENCHSITE_EVIDENCE_{name}", value)
    return environ.storage("BENCHSITE_EVIDENCE_STORAGE", "BENCHSITE_EVIDENCE_OPTIONS", folder=Path("/data/evidence"))


def test_evidence_lies_in_the_data_folder_for_its_account_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert storage(monkeypatch) == {
        "BACKEND": environ.FILES,
        "OPTIONS": {
            "location": "/data/evidence",
            "file_permissions_mode": 0o600,
            "directory_permissions_mode": 0o700,
        },
    }


@pytest.mark.parametrize(
    "password", ["12/x?hidden", "12/hidden", "1/hid?den=hidden", "hid/hidden", "12?hidden", "1#hidden"]
)
def test_a_password_that_was_not_encoded_is_refused_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL must look like") as refused:
        database(monkeypatch, f"postgresql://user:{password}@db.example:5432/benchsite")
    assert "hid" not in str(refused.value)


def test_evidence_in_a_shared_folder_is_written_with_its_modes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    options = {"location": str(tmp_path), "file_permissions_mode": 0o640, "directory_permissions_mode": 0o750}
    made = storages.create_storage(storage(monkeypatch, OPTIONS=json.dumps(options)))
    name = made.save("run/key", ContentFile(b"x"))
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o750


def test_another_backend_gets_its_own_options_only(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = "django.core.files.storage.InMemoryStorage"
    found = storage(monkeypatch, STORAGE=backend, OPTIONS='{"base_url": "/none/"}')
    assert found == {"BACKEND": backend, "OPTIONS": {"base_url": "/none/"}}
    assert storages.create_storage(found).base_url == "/none/"


@pytest.mark.parametrize("options", ["[]", "{", "location=/x"])
def test_options_that_are_no_object_are_refused(monkeypatch: pytest.MonkeyPatch, options: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="BENCHSITE_EVIDENCE_OPTIONS is no JSON object"):
        storage(monkeypatch, OPTIONS=options)


@pytest.mark.parametrize("name", ["", "bad name", "../up", "-x", "a" * 65])
def test_a_workers_name_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("BENCHSITE_WORKER", name)
    with pytest.raises(ImproperlyConfigured, match="BENCHSITE_WORKER"):
        environ.host_name("BENCHSITE_WORKER", "local")


def test_a_wrong_setting_is_one_sentence_and_no_traceback() -> None:
    variables = {**os.environ, "BENCHSITE_DEBUG": "perhaps"}
    done = subprocess.run(commandline.command("status"), env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "BENCHSITE_DEBUG is 'perhaps'; write 1 or 0.\n")


def test_user_ids_for_sandboxes_are_a_range_of_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHSITE_SANDBOX_UIDS", "80000-80003")
    assert environ.user_ids("BENCHSITE_SANDBOX_UIDS", "70000-70063") == range(80_000, 80_004)


@pytest.mark.parametrize(
    "text", ["", "70000", "70000-", "70001-70000", "0-5", "999-1001", "1000-9999", "a-b", "1e5-2e5"]
)
def test_anything_else_is_refused_with_an_example(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("BENCHSITE_SANDBOX_UIDS", text)
    with pytest.raises(ImproperlyConfigured, match="like 70000-70063"):
        environ.user_ids("BENCHSITE_SANDBOX_UIDS", "70000-70063")


def test_the_networks_of_gateways_are_networks_and_known_words(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "BENCHSITE_GATEWAY_ADDRESSES"
    assert environ.networks(name) is None
    monkeypatch.setenv(name, " ")
    assert environ.networks(name) is None
    monkeypatch.setenv(name, "203.0.113.0/24, 2001:db8::/32, 198.51.100.7, host-gateway")
    assert environ.networks(name, words=("host-gateway",)) == (
        "203.0.113.0/24", "2001:db8::/32", "198.51.100.7", "host-gateway",
    )  # fmt: skip


@pytest.mark.parametrize("text", ["203.0.113.1/24", "models.example", "10.0.0.0/33", "host-gatway"])
def test_a_network_that_is_none_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("BENCHSITE_GATEWAY_ADDRESSES", f"203.0.113.0/24,{text}")
    with pytest.raises(ImproperlyConfigured, match="BENCHSITE_GATEWAY_ADDRESSES holds"):
        environ.networks("BENCHSITE_GATEWAY_ADDRESSES", words=("host-gateway",))
