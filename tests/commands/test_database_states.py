"""A database that cannot be used is never a failed evaluation; and a command that reads files alone needs none."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from django.core.management import get_commands

from benchsite.lib.commandline import FILES_ONLY
from tests.commands.schemas import validated
from tests.origin.signed import WORKER, key_document, signed_run

ROOT = Path(__file__).parents[2]
REAL = ROOT / "tests/fixtures/real-run"
PROFILE = ROOT / "runs/bundles/environment-smoke/profile.json"
RUN = "0" * 32
UNREACHABLE = "postgresql://u:p@127.0.0.1:9/nothing?connect_timeout=1"
# Words with which each command asks the database before anything else. Where one needs none in some form, that stands
# below.
ASKING = {
    "audit": [RUN],
    "bundle": ["list"],
    "cancel": [RUN],
    "cleanup": [RUN],
    "demo_login": [],
    "endpoint": ["list"],
    "evidence": [RUN],
    "experiment": ["list"],
    "expire": ["--older-than", "1"],
    "export": [RUN, "/nowhere/file.zip"],
    "hold": [RUN, "--release"],
    "token": ["list"],
    "host_lost": ["w"],
    "logs": [RUN],
    "mcp": ["--user", "somebody"],
    "preflight": ["--stored"],
    "prepare": [],
    "preview": ["--endpoint", "e"],
    "signing_key": ["list"],
    "profile": ["import", str(PROFILE)],
    "recover": [],
    "smoke": [],
    "start": ["--endpoint", "e"],
    "status": [],
    "worker": ["--burst"],
}
WITHOUT = {
    ("bundle", "verify"): 0,
    ("mcp", "--schema"): 0,
    ("profile", "verify", str(PROFILE)): 0,
    ("scripted_endpoint",): 2,  # it needs a key, and has none here
}
OF_DJANGO = (["migrate"], ["clearsessions"], ["changepassword", "somebody"])
PLAIN = {"demo_login", *(words[0] for words in OF_DJANGO)}


def damaged(path: Path) -> None:
    path.write_bytes(b"neither" * 700)


def zeros(path: Path) -> None:
    path.write_bytes(bytes(50))


def malformed(path: Path) -> None:
    with closing(sqlite3.connect(path)) as made:
        made.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1);")
    data = bytearray(path.read_bytes())
    data[100:200] = b"\xff" * 100  # the first page's own head, behind the file's
    path.write_bytes(data)


def folder(path: Path) -> None:
    path.mkdir()


def locked(path: Path) -> None:
    sqlite3.connect(path).close()


def missing(path: Path) -> None:
    path.unlink(missing_ok=True)


STATES = {state.__name__: state for state in (damaged, zeros, malformed, folder, locked, missing)}


@contextmanager
def state(name: str, data: Path) -> Iterator[dict[str, str]]:
    """The variables of a site whose database is so."""
    if name == "unreachable":
        yield {"DATABASE_URL": UNREACHABLE}
        return
    data.mkdir()
    path = data / "benchsite.sqlite3"
    STATES[name](path)
    with closing(sqlite3.connect(path if name == "locked" else ":memory:", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield {}


def variables(data: Path, **more: str) -> dict[str, str]:
    own = {key: value for key, value in os.environ.items() if not key.startswith(("BENCHSITE_", "DJANGO_", "DATABASE"))}
    return own | {"BENCHSITE_DATA": str(data), "PYTHONPATH": str(ROOT)} | more


def test_the_table_names_each_command() -> None:
    own = {name for name, app in get_commands().items() if str(app) in {"benchsite", "runs", "evidence"}}
    assert own == {*ASKING, *(words[0] for words in WITHOUT), *FILES_ONLY}


@pytest.mark.parametrize("name", [*STATES, "unreachable"])
def test_no_command_takes_an_unusable_database_for_a_failed_evaluation(name: str, tmp_path: Path) -> None:
    """Attack 2a-2d"""
    asked = [[command, *words] for command, words in ASKING.items()]
    asked += [[command, *words, "--json"] for command, words in ASKING.items() if command not in PLAIN]
    asked += [words for words in OF_DJANGO if name not in ("zeros", "missing")]  # of nothing Django makes a database
    asked += [list(words) for words in WITHOUT]
    with state(name, tmp_path / "data") as more:
        ran = subprocess.run(
            [sys.executable, "-m", "tests.commands.every_command"],
            input=json.dumps(asked), cwd=ROOT,
            env=variables(tmp_path / "data", DJANGO_SETTINGS_MODULE="benchsite.settings", **more),
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    for words, (code, out, err) in zip(asked, json.loads(ran.stdout), strict=True):
        assert "Traceback" not in err, (words, err)
        if tuple(words) in WITHOUT:
            assert code == WITHOUT[tuple(words)], (words, err)
            continue
        assert code == 4, (words, code, out, err)
        if "--json" in words:
            assert validated(json.loads(out))["code"] == "database.unusable", words
        else:
            assert out == "" and len(err.splitlines()) == 1, (words, out, err)


BROKEN = {
    "of a folder that cannot be made": {"BENCHSITE_DATA": "/dev/null/data"},
    "that are misspelt": {"BENCHSITE_DATABASE_URL": "x", "BENCHSITE_DEBUG": "maybe"},
    "that name no file": {"BENCHSITE_SECRET_KEY_FILE": "/nowhere", "REDIS_URL": "localhost"},
    "that name no module": {"DJANGO_SETTINGS_MODULE": "nonesuch"},
}


def classified(data: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return ran(data, "classify", *words, **more)


def ran(data: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *words],
        env=variables(data, **more), capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", [*STATES, "unreachable"])
def test_classify_needs_no_database_and_makes_none(name: str, tmp_path: Path) -> None:
    """Attack 2a-2d"""
    data = tmp_path / "data"
    with state(name, data) as more:
        before = sorted(data.rglob("*")) if data.exists() else None
        ended = classified(data, str(REAL), "--json", **more)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert validated(json.loads(ended.stdout))["verdict"] == "passed"
        assert (sorted(data.rglob("*")) if data.exists() else None) == before


@pytest.mark.parametrize("name", BROKEN)
def test_classify_needs_no_settings(name: str, tmp_path: Path) -> None:
    ended = classified(tmp_path / "data", str(REAL), **BROKEN[name])
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("more", [*BROKEN.values(), {"DATABASE_URL": UNREACHABLE}], ids=[*BROKEN, "no database"])
def test_verify_needs_no_database_and_no_settings_and_writes_nothing(more: dict[str, str], tmp_path: Path) -> None:
    run, key = signed_run(tmp_path / "run"), tmp_path / "key.json"
    key.write_text(json.dumps(key_document(WORKER, "worker")))
    before = sorted(tmp_path.rglob("*"))
    ended = ran(tmp_path / "data", "verify", str(run), "--key", str(key), "--json", **more)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert validated(json.loads(ended.stdout))["rederivable"]["holds"] is True
    (run / "ledger.jsonl").write_bytes(b"")
    assert ran(tmp_path / "data", "verify", str(run), "--key", str(key), **more).returncode == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_cannot_be_opened_is_bad_input(tmp_path: Path) -> None:
    """Attack 3h. Whoever is root may search every folder, so the second one is a link to itself."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for words in ("n" * 300, str(tmp_path / "loop" / "run")):
        ended = classified(tmp_path / "data", words, "--json")
        assert ended.returncode == 2 and ended.stderr.count("\n") == 1
        assert validated(json.loads(ended.stdout))["code"] == "input.no_folder"


def test_the_settings_of_files_alone_name_the_same_models() -> None:
    from benchsite import offline, settings

    assert set(offline.INSTALLED_APPS) < set(settings.INSTALLED_APPS)
    assert offline.DEFAULT_AUTO_FIELD == settings.DEFAULT_AUTO_FIELD
