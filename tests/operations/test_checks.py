"""Each dangerous setting has a check that fires for it alone, and a good site has none."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.checks import Error

from benchsite.lib import environ
from benchsite.system_checks import RULES, SECRETS, firing

ROOT = Path(__file__).resolve().parents[2]
KEY = "k3y-of-a-test-Site_that-is-long-enough-0123456789-abcdefgh"
MEMORY = "django.core.files.storage.InMemoryStorage"
POSTGRESQL = {"ENGINE": "django.db.backends.postgresql", "HOST": "", "OPTIONS": {}}


def files(location: Path) -> dict[str, Any]:
    return {"default": {"BACKEND": environ.FILES, "OPTIONS": {"location": str(location)}}}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Settings that no check complains about."""
    for name in SECRETS:
        monkeypatch.delenv(f"{name}_FILE", raising=False)
    data = tmp_path / "data"
    (data / "static").mkdir(parents=True)
    data.chmod(0o700)
    (data / "static/staticfiles.json").write_text("{}")
    return SimpleNamespace(
        DEBUG=False,
        PRODUCTION=True,
        SECRET_KEY=KEY,
        ALLOWED_HOSTS=["bench.example"],
        CSRF_TRUSTED_ORIGINS=["https://bench.example"],
        DATABASES={"default": POSTGRESQL},
        REDIS_URL="redis://127.0.0.1:6379/0",
        SESSION_COOKIE_SECURE=True,
        SESSION_COOKIE_HTTPONLY=True,
        CSRF_COOKIE_SECURE=True,
        SECURE_SSL_REDIRECT=True,
        SECURE_HSTS_SECONDS=3600,
        DATA=data,
        STATIC_ROOT=data / "static",
        STORAGES=files(data / "evidence"),
        SELF_REVIEW=False,
        TRUSTED_PROXIES=1,
        METRICS_TOKEN="",
    )


def found(site: Any) -> list[str | None]:
    return [message.id for message in firing(site)]


def test_a_good_site_has_nothing_to_say(site: Any) -> None:
    assert found(site) == []


BAD: dict[str, dict[str, Any]] = {
    "E001": {"DEBUG": True},
    "E002": {"PRODUCTION": False},
    "E003": {"SECRET_KEY": "k" * 80},
    "E004": {"ALLOWED_HOSTS": ["bench.example", "*"]},
    "W005": {"ALLOWED_HOSTS": ["localhost", "127.0.0.1", "[::1]"]},
    "W006": {"DATABASES": {"default": {"ENGINE": "django.db.backends.sqlite3"}}},
    "W007": {"REDIS_URL": ""},
    "E008": {"CSRF_COOKIE_SECURE": False},
    "E009": {"SECURE_SSL_REDIRECT": False},
    "W013": {"DATABASES": {"default": POSTGRESQL | {"HOST": "db.example", "OPTIONS": {"sslmode": "prefer"}}}},
    "W014": {"REDIS_URL": "redis://queue.example:6379/0"},
    "W015": {"SELF_REVIEW": True},
    "W016": {"TRUSTED_PROXIES": 0},
    "W018": {"METRICS_TOKEN": "metricsmetrics"},
    "E019": {"STORAGES": {"default": {"BACKEND": "nonesuch.Storage", "OPTIONS": {}}}},
}


@pytest.mark.parametrize("name", BAD)
def test_each_dangerous_setting_is_named_alone(site: Any, name: str) -> None:
    for setting, value in BAD[name].items():
        setattr(site, setting, value)
    assert found(site) == [f"benchsite.{name}"]


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        pytest.param("E003", "SECRET_KEY", KEY[:49], id="short key"),
        pytest.param("E008", "SESSION_COOKIE_HTTPONLY", False, id="cookie for scripts"),
        pytest.param("E008", "SESSION_COOKIE_SECURE", False, id="session over HTTP"),
        pytest.param("E009", "SECURE_HSTS_SECONDS", 0, id="no HSTS"),
        pytest.param("E009", "CSRF_TRUSTED_ORIGINS", ["http://bench.example"], id="plain origin"),
        pytest.param("W018", "METRICS_TOKEN", KEY, id="the key as the token"),
        pytest.param(
            "E019",
            "STORAGES",
            {"default": {"BACKEND": MEMORY, "OPTIONS": {"locatoin": "/srv"}}},
            id="an option that the storage does not have",
        ),
    ],
)
def test_each_other_way_into_the_same_danger_is_named_too(site: Any, name: str, setting: str, value: Any) -> None:
    setattr(site, setting, value)
    assert found(site) == [f"benchsite.{name}"]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        pytest.param("DATABASES", {"default": POSTGRESQL | {"HOST": "127.0.0.1"}}, id="database on this host"),
        pytest.param("DATABASES", {"default": POSTGRESQL | {"HOST": "/run/postgresql"}}, id="database's socket"),
        pytest.param(
            "DATABASES",
            {"default": POSTGRESQL | {"HOST": "db.example", "OPTIONS": {"sslmode": "verify-full"}}},
            id="verified database",
        ),
        pytest.param("REDIS_URL", "rediss://:secret@queue.example:6379/0", id="queue with a password"),
        pytest.param("REDIS_URL", "unix:///run/redis/redis.sock", id="queue's socket"),
        pytest.param("ALLOWED_HOSTS", ["localhost", "bench.example"], id="a public name among others"),
        pytest.param("METRICS_TOKEN", "0123456789abcdefghij", id="a token that is no word"),
    ],
)
def test_a_safe_choice_is_not_complained_about(site: Any, setting: str, value: Any) -> None:
    setattr(site, setting, value)
    assert found(site) == []


def test_an_open_data_folder_is_named(site: Any) -> None:
    site.DATA.chmod(0o750)
    assert found(site) == ["benchsite.E010"]


def test_an_open_evidence_folder_elsewhere_is_named_until_it_is_closed(site: Any, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    site.STORAGES = files(shared)
    assert found(site) == ["benchsite.E011"]
    shared.chmod(0o700)
    assert found(site) == []


def test_evidence_in_another_kind_of_storage_has_no_folder_to_look_at(site: Any) -> None:
    site.STORAGES = {"default": {"BACKEND": MEMORY, "OPTIONS": {}}}
    assert found(site) == []


def test_a_secrets_file_that_everybody_reads_is_named(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "redis-url"
    secret.write_text("redis://:secret@queue.example/0")
    monkeypatch.setenv("REDIS_URL_FILE", str(secret))
    secret.chmod(0o644)
    assert found(site) == ["benchsite.E012"]
    secret.chmod(0o640)
    assert found(site) == []


def test_missing_static_files_are_named(site: Any) -> None:
    (site.STATIC_ROOT / "staticfiles.json").unlink()
    assert found(site) == ["benchsite.E017"]


def test_every_rule_has_a_test_an_own_number_and_an_entry() -> None:
    ids = [rule.id for rule in RULES]
    assert sorted({*BAD, "E010", "E011", "E012", "E017"}) == sorted(ids)
    assert [name[1:] for name in ids] == [f"{number:03}" for number in range(1, len(ids) + 1)]
    page = (ROOT / "docs/production.md").read_text(encoding="utf-8")
    assert [name for name in ids if f"| `benchsite.{name}` |" not in page] == []


def test_an_error_is_an_error_for_the_commands_exit_code(site: Any) -> None:
    site.DEBUG, site.SELF_REVIEW = True, True
    assert [isinstance(message, Error) for message in firing(site)] == [True, False]


def deploy_check(data: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    """`manage.py check --deploy` of a site with nothing but these variables."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(data), "BENCHSITE_DATA": str(data)} | more
    command = [sys.executable, ROOT / "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_the_command_names_a_bare_sites_dangers_and_exits_with_an_error(tmp_path: Path) -> None:
    done = deploy_check(tmp_path)
    assert done.returncode == 1
    for name in ("E002", "W005", "W006", "W007", "E008", "E009", "W016"):
        assert f"(benchsite.{name})" in done.stderr
    assert "HINT: Set BENCHSITE_PRODUCTION=1." in done.stderr


def test_the_command_has_nothing_to_say_of_a_site_set_up_as_documented(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "static").mkdir(parents=True)
    data.chmod(0o700)
    (data / "static/staticfiles.json").write_text("{}")
    done = deploy_check(
        data,
        BENCHSITE_PRODUCTION="1",
        BENCHSITE_SECRET_KEY=KEY,
        BENCHSITE_HOSTS="bench.example",
        BENCHSITE_TRUSTED_ORIGINS="https://bench.example",
        BENCHSITE_TRUSTED_PROXIES="1",
        DATABASE_URL="postgresql://benchsite@/benchsite?host=/run/postgresql",
        REDIS_URL="redis://127.0.0.1:6379/0",
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "no issues" in done.stdout
