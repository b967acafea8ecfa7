"""A backup is worth what its restore gives back: the same rows, the same bytes, the same results."""

import json
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.documents.samples import copy_bundle
from tests.production.sites import Site, new_database

PRODUCTION = Path(__file__).parents[2] / "docs/production"

type Make = Callable[[str], Site]


@dataclass(frozen=True)
class Kept:
    """A site with one finished run, what its audit says, and a copy of the site. Tests change none of it."""

    site: Site
    run: str
    audit: dict[str, Any]
    copy: Path


@pytest.fixture(scope="module")
def kept(server: str, migrated: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    folder: Path = tmp_path_factory.mktemp("kept")
    (folder / "data").mkdir(mode=0o700)
    with new_database(server, "kept", migrated) as url:
        site = Site(folder / "data", url)
        run = site.finished_run()
        code, audit = audited(site, run)
        assert (code, audit["clean"], audit["trials"]) == (0, True, 2)
        yield Kept(site, run, audit, backed_up(site, folder / "copy"))


def audited(site: Site, run: str) -> tuple[int, dict[str, Any]]:
    done = site.manage("audit", run, "--json")
    return done.returncode, json.loads(done.stdout)


def backed_up(site: Site, folder: Path) -> Path:
    done = site.script("backup", folder)
    assert done.returncode == 0, done.stderr
    return folder


def restored(copy: Path, target: Site) -> Site:
    done = target.script("restore", copy)
    assert done.returncode == 0, done.stderr
    return target


def test_a_restored_site_has_the_same_run_and_evidence(kept: Kept, empty_site: Make, tmp_path: Path) -> None:
    again = restored(kept.copy, empty_site("again"))
    assert audited(again, kept.run) == (0, kept.audit)
    assert "No planned migration operations" in again.done("migrate", "--plan")
    again.done("export", kept.run, str(tmp_path / "evidence.zip"))
    assert (again.data / "secret-key").read_bytes() == (kept.site.data / "secret-key").read_bytes()
    next((again.data / "evidence" / kept.run).iterdir()).unlink()  # what would be said if a restore lost a file
    code, document = audited(again, kept.run)
    assert (code, document["clean"]) == (4, False)


def test_a_copy_and_a_restored_site_are_for_one_account_only(kept: Kept, empty_site: Make) -> None:
    again = restored(kept.copy, empty_site("again"))
    folders = (again.data, again.data / "evidence", kept.copy)
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}
    assert {stat.S_IMODE(made.stat().st_mode) for made in kept.copy.iterdir()} == {0o600}


def test_evidence_that_lies_elsewhere_is_copied_too(site: Site, empty_site: Make, tmp_path: Path) -> None:
    elsewhere = replace(site, evidence=tmp_path / "shared")
    run = elsewhere.finished_run()
    assert not (elsewhere.data / "evidence").exists()
    done = elsewhere.script("backup", tmp_path / "copy", tmp_path / "shared")
    assert done.returncode == 0, done.stderr
    target = replace(empty_site("again"), evidence=tmp_path / "shared-again")
    refused = target.script("restore", tmp_path / "copy")
    assert (refused.returncode, target.data.exists()) == (2, False)
    done = target.script("restore", tmp_path / "copy", tmp_path / "shared-again")
    assert done.returncode == 0, done.stderr
    assert audited(target, run)[0] == 0


@pytest.mark.parametrize("elsewhere", [False, True], ids=["in the data folder", "elsewhere"])
def test_an_imported_bundle_is_restored_with_its_files(
    site: Site, empty_site: Make, tmp_path: Path, elsewhere: bool
) -> None:
    """The cache of what a worker fetched is not copied: it is fetched again."""
    site = replace(site, evidence=tmp_path / "shared") if elsewhere else site
    site.done("bundle", "import", str(copy_bundle(tmp_path)))
    (site.data / "bundle-cache/f00").mkdir(parents=True)
    done = site.script("backup", tmp_path / "copy", *([tmp_path / "shared"] if elsewhere else []))
    assert done.returncode == 0, done.stderr
    target = replace(empty_site("again"), evidence=tmp_path / "shared-again" if elsewhere else None)
    done = target.script("restore", tmp_path / "copy", *([tmp_path / "shared-again"] if elsewhere else []))
    assert done.returncode == 0, done.stderr
    shutil.rmtree(tmp_path / "shared" if elsewhere else site.data / "evidence")
    assert json.loads(target.done("bundle", "check", "environment-smoke", "--json"))["valid"] is True
    assert site.manage("bundle", "check", "environment-smoke").returncode == 4
    assert not (target.data / "bundle-cache").exists()


def test_nothing_is_restored_over_a_data_folder_that_is_there(kept: Kept, empty_site: Make) -> None:
    target = empty_site("target")
    target.data.mkdir()
    assert target.script("restore", kept.copy).returncode != 0
    assert list(target.data.iterdir()) == []
    assert target.ask("select count(*) from pg_tables where schemaname = 'public'") == [(0,)]


def test_a_rollback_to_an_older_dump_leaves_the_evidence_readable(site: Site, empty_site: Make, tmp_path: Path) -> None:
    """A newer release changes tables and adds a run; the older one gets its dump back beside today's files."""
    first = site.finished_run()
    copy = backed_up(site, tmp_path / "before-upgrade")
    site.ask("alter table runs_run add column of_a_newer_release text not null default 'x'")
    later = site.finished_run()
    older = restored(copy, empty_site("older"))
    assert (site.ask("select count(*) from runs_run"), older.ask("select count(*) from runs_run")) == ([(2,)], [(1,)])
    beside = Site(site.data, older.database)  # the older database with the folder as it is today
    assert audited(beside, first)[0] == 0
    assert json.loads(beside.manage("status", later, "--json").stdout)["code"] == "input.unknown_run"
    assert (site.data / "evidence" / later).is_dir()
    done = beside.manage("classify", str(site.data / "runs" / later), "--json")
    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (0, "passed")


@pytest.mark.parametrize("name", ["database.dump", "data.tar"])
def test_a_damaged_copy_is_refused_before_anything_is_made(
    kept: Kept, empty_site: Make, tmp_path: Path, name: str
) -> None:
    copy = shutil.copytree(kept.copy, tmp_path / "copy")
    with (copy / name).open("r+b") as file:
        file.seek(200)
        file.write(b"damaged")
    target = empty_site("target")
    done = target.script("restore", copy)
    assert done.returncode != 0 and name in done.stdout + done.stderr
    assert not target.data.exists()
    assert target.ask("select count(*) from pg_tables where schemaname = 'public'") == [(0,)]


@pytest.mark.parametrize(("script", "program"), [("backup", "pg_dump"), ("restore", "pg_restore")])
def test_the_databases_password_stands_in_no_argument_list(script: str, program: str, tmp_path: Path) -> None:
    """Every account of a machine can read the arguments of its programs."""
    (tmp_path / "bin").mkdir()
    said = tmp_path / "said"
    fake = tmp_path / "bin" / program
    fake.write_text(f'#!/bin/sh\nprintf "%s\\n" "$PGPASSWORD" "$@" >{said}\nexit 1\n')
    fake.chmod(0o755)
    copy = tmp_path / "copy"
    if script == "restore":
        copy.mkdir()
        subprocess.run("touch database.dump && sha256sum database.dump >SHA256SUMS", shell=True, cwd=copy, check=True)
    env = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "BENCHSITE_DATA": str(tmp_path / "data")}
    env |= {"DATABASE_URL": "postgresql://ada:p%40s%25s-1@db.example:5432/bench?sslmode=require"}
    ended = subprocess.run([str(PRODUCTION / script), str(copy)], env=env, check=False)
    password, *words = said.read_text().splitlines()
    assert (ended.returncode, password) == (1, "p@s%s-1")
    assert any("postgresql://ada@db.example:5432/bench?sslmode=require" in word for word in words)
    assert not any("p%40s" in word or password in word for word in words)


def test_a_backup_never_replaces_another(kept: Kept) -> None:
    before = {path: path.read_bytes() for path in kept.copy.iterdir()}
    assert kept.site.script("backup", kept.copy).returncode != 0
    assert {path: path.read_bytes() for path in kept.copy.iterdir()} == before
