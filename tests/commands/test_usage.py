"""Whoever misuses a command or sets a wrong variable is refused like everybody else: exit 2, a sentence, a document."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import load_command_class

from benchsite.lib import commandline, environ
from runs.documents import endpoints
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE
from runs.models import Run, Trial
from tests.commands.calling import command
from tests.commands.schemas import validated
from tests.runs.rows import person, run_row
from tests.runs.sites import Site, ready_site

ROOT = Path(__file__).parents[2]
COMMANDS = {
    path.stem: app
    for app in ("benchsite", "runs", "evidence")
    for path in sorted((ROOT / app / "management/commands").glob("[a-z]*.py"))
    if path.stem != "demo_login"
}


def misused(capsys: pytest.CaptureFixture[str], name: str, *words: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a command with words that are not its own."""
    with pytest.raises(SystemExit) as left:
        load_command_class(COMMANDS[name], name).run_from_argv(["manage.py", name, *words])
    out, err = capsys.readouterr()
    return int(str(left.value.code)), out, err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_refuses_an_option_that_it_does_not_have(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    needed = {"bundle": ["verify"], "profile": ["verify", "x"], "endpoint": ["list"], "export": ["x", "y"]}
    needed["token"] = ["list"]
    words = [*needed.get(name, []), "--nonesuch"]
    code, out, err = misused(capsys, name, *words, "--json")
    document = validated(json.loads(out))
    assert (code, document["exit_code"], document["code"]) == (2, 2, "command.usage")
    assert err == document["sentence"] + "\n" and err.endswith(f"See: manage.py {name} --help\n")
    code, out, err = misused(capsys, name, *words)
    assert (code, out, err) == (2, "", document["sentence"] + "\n")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["cancel"], "required: RUN"),
        (["logs", "x", "--limit", "many"], "--limit: invalid int value: 'many'"),
        (["hold", "x"], "--reason --release"),
        (["hold", "x", "--release", "--reason", "y"], "not allowed with"),
        (["bundle", "bild"], "'bild'"),
        (["endpoint"], "required: list|show|test"),
        (["preview", "--endpont", "x"], "Did you mean --endpoint?"),
        (["preview", "--endpont=x"], "Did you mean --endpoint?"),
        (["preview", "--max-step", "5"], "Did you mean --max-steps?"),
        (["status", "a", "b"], "unrecognized arguments: b"),
    ],
)
def test_misuse_is_named_with_its_remedy(words: list[str], found: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = misused(capsys, *words, "--json")
    assert code == 2 and found in err and json.loads(out)["sentence"] + "\n" == err and "usage:" not in err


@pytest.mark.parametrize("name", ["audit", "bundle", "cancel", "endpoint", "export", "hold", "logs", "profile"])
def test_a_command_without_any_word_that_needs_one_is_misused_too(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = misused(capsys, name)
    assert (code, out) == (2, "") and "required" in err and err.endswith(f"See: manage.py {name} --help\n")


def test_options_are_written_out_so_that_a_new_one_changes_no_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert misused(capsys, "preview", "--end", "x")[0] == 2


def called(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("BENCHSITE_", "DJANGO_"))}
    run = [sys.executable, str(ROOT / "manage.py"), *words]
    return subprocess.run(run, env=env | variables, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [(["prepre"], "Did you mean prepare?"), (["--json"], "help lists them"), (["help", "statu"], "mean status?")],
)
def test_an_unknown_command_is_bad_usage_and_no_failed_evaluation(
    words: list[str], remedy: str, tmp_path: Path
) -> None:
    plain = called(*words, BENCHSITE_DATA=str(tmp_path))
    assert plain.returncode == 2 and remedy in plain.stderr
    document = json.loads(called(*words, "--json", BENCHSITE_DATA=str(tmp_path)).stdout)
    assert validated(document)["code"] == "command.unknown" and document["sentence"] + "\n" == plain.stderr


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("DATABASE_URL", "mysql://u:hunter2@h/d", "DATABASE_URL must look like postgresql://"),
        ("DATABASE_URL", "postgresql://u:hunter2@h:99999/d", "DATABASE_URL must look like"),
        ("DATABASE_URL", "postgresql://[::1/d", "DATABASE_URL must look like"),
        ("REDIS_URL", "localhost:6379", "REDIS_URL must look like redis://"),
        ("REDIS_URL", "redis://:hunter2@h:port/0", "REDIS_URL must look like redis://"),
        ("BENCHSITE_DEBUG", "maybe", "BENCHSITE_DEBUG is 'maybe'; write 1 or 0."),
        ("BENCHSITE_DATABASE_URL", "postgresql://u@h/d", "Did you mean DATABASE_URL?"),
        ("BENCHSITE_REDIS_URL_FILE", "/x", "Did you mean REDIS_URL?"),
        ("BENCHSITE_SECRETKEY", "k", "Did you mean BENCHSITE_SECRET_KEY?"),
        ("BENCHSITE_TRUSTED_PROXY", "1", "Did you mean BENCHSITE_TRUSTED_PROXIES?"),
        ("BENCHSITE_SECRET_KEY_FILE", "/nowhere", "/nowhere, which cannot be read"),
        ("BENCHSITE_EVIDENCE_OPTIONS", "{", "BENCHSITE_EVIDENCE_OPTIONS is no JSON object"),
        ("BENCHSITE_DATA", "/dev/null/data", "BENCHSITE_DATA is /dev/null/data"),
        ("DJANGO_SETTINGS_MODULE", "nonesuch", "DJANGO_SETTINGS_MODULE is 'nonesuch'"),
    ],
)
def test_a_wrong_setting_is_told_by_name_and_nothing_is_changed(
    name: str, value: str, found: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    variables = {"BENCHSITE_DATA": str(data), name: value}
    plain, told = called("status", **variables), called("status", "--json", **variables)
    assert (plain.returncode, told.returncode, plain.stdout) == (2, 2, "")
    document = validated(json.loads(told.stdout))
    assert document["code"] == "command.settings" and found in document["sentence"]
    assert plain.stderr == told.stderr == document["sentence"] + "\n"
    assert "hunter2" not in told.stdout + told.stderr
    assert not data.exists() or [path.name for path in data.iterdir()] == ["secret-key"]


def test_variables_of_credentials_and_of_others_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BENCHSITE_ENDPOINT_DATA", "BENCHSITE_SCRIPTED_KEY_2", "BENCHSITE_UNRELATED", "BENCH_DEBUGG"):
        monkeypatch.setenv(name, "x")
    environ.refuse_misspelt()
    assert environ.CREDENTIALS == endpoints._ALLOWED_OWN


def test_installed_it_calls_itself_by_its_own_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(commandline, "MANAGE", tmp_path / "nowhere")
    words = commandline.command("cancel", "--json")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "BENCHSITE_DATA": str(tmp_path)}
    env.pop("DJANGO_SETTINGS_MODULE", None)
    ended = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and ended.stderr.startswith("benchsite cancel: ")


@pytest.fixture
def site(db: None) -> Site:
    return ready_site()


@pytest.mark.parametrize(
    "words",
    [
        ["--preview", "3f" * 16],
        ["--spec-sha256", "3f" * 32, "--endpoint", "scripted"],
        ["--preview", "3f" * 16, "--spec-sha256", "3f" * 32, "--endpoint", "scripted"],
        ["--preview", "3f" * 16, "--spec-sha256", "3f" * 32, "--max-steps", "1"],
        ["--preview", "3f" * 16, "--spec-sha256", "3f" * 32, "--worker", "second"],
    ],
)
def test_a_start_says_what_to_run_once(site: Site, words: list[str]) -> None:
    """Half of a confirmation, or a confirmation with other wishes beside it, would start what nobody meant."""
    result = command("start", *words, "--json")
    assert (result.code, result.json["code"]) == (2, "input.bad")


def test_a_worker_that_nobody_knows_is_not_called_clean(site: Site) -> None:
    result = command("recover", "--worker", "lokal", "--json")
    assert (result.code, result.json["code"]) == (2, "input.unknown_worker") and "local" in result.err


def test_a_short_id_that_several_runs_have_is_refused_and_a_longer_one_is_not(db: None) -> None:
    first, second = run_row(), run_row()
    twins = ["0f3a9c21" + "0" * 24, "0f3a9c21" + "1" * 24]
    Trial.objects.all().delete()  # they would keep the old ids
    for run, key in zip((first, second), twins, strict=True):
        Run.objects.filter(pk=run.pk).update(id=key)
    person("vera", "viewer")
    for name in ("status", "logs", "cancel", "cleanup", "evidence"):
        result = command(name, "0f3a9c21", "--json")
        assert (result.code, result.json["code"]) == (2, "input.unknown_run") and "Several runs" in result.err
    assert command("status", "0F3A9C21-1", "--json").json["run"] == twins[1]
    assert re.fullmatch(r".*give at least its first 8 characters.*\n", command("status", "0f3a9c2", "--json").err)


NEED_A_ROLE = {
    "prepare": [],
    "worker": ["--burst"],
    "smoke": [],
    "preflight": [],
    "bundle": ["import"],
    "profile": ["import", "FILE"],
    "endpoint": ["test", "scripted"],
    "preview": ["--endpoint", "scripted"],
    "start": ["--endpoint", "scripted"],
    "logs": ["RUN"],
    "cancel": ["RUN"],
    "cleanup": ["RUN"],
    "recover": [],
    "host_lost": ["local"],
    "export": ["RUN", "OUT"],
    "audit": ["RUN"],
    "expire": ["--older-than", "1"],
    "hold": ["RUN", "--reason", "a question"],
}


@pytest.mark.parametrize("name", NEED_A_ROLE)
def test_a_viewer_is_refused_by_each_command_that_does_or_reads_more(site: Site, name: str, tmp_path: Path) -> None:
    person("vera", "viewer")
    run = run_row()
    places = {"RUN": run.key, "OUT": str(tmp_path / "a.zip"), "FILE": str(ENVIRONMENT_SMOKE / "profile.json")}
    words = [places.get(word, word) for word in NEED_A_ROLE[name]]
    result = command(name, *words, "--user", "vera", "--json")
    assert (result.code, validated(result.json)["code"]) == (2, "access.refused"), result
    assert list(tmp_path.iterdir()) == [] and Run.objects.get().cancel_requested_at is None
