"""The files that production starts from: units that systemd accepts, a Compose file that names what exists."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from runs.engine.trials.processes import OOM_SCORE_ADJUST

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "docs/production"
UNITS = sorted([*FILES.glob("*.service"), *FILES.glob("*.timer")])
PROGRAMS = Path(sys.executable).parent


def documented_settings() -> set[str]:
    page = (ROOT / "docs/operating.md").read_text(encoding="utf-8")
    return set(re.findall(r"^\| `([A-Z][A-Z_]+)` \|", page, re.M))


def lines(name: str) -> dict[str, str]:
    """The variables of an environment file."""
    text = (FILES / name).read_text(encoding="utf-8")
    return dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))


def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((FILES / "compose.yaml").read_text(encoding="utf-8"))
    return document


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_each_unit(unit: Path, tmp_path: Path) -> None:
    for each in UNITS:  # a timer needs its service; programs are looked for where this interpreter lies
        (programs := tmp_path / "bin").mkdir(exist_ok=True)
        text = each.read_text(encoding="utf-8").replace("/opt/benchsite/bin/", f"{programs}/")
        (tmp_path / each.name).write_text(text, encoding="utf-8")
    for name in ("granian", "benchsite"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / unit.name)], capture_output=True, text=True
    )
    said = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (done.returncode, said) == (0, []), done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_each_unit_is_well_formed(unit: Path) -> None:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(unit.read_text(encoding="utf-8"))
    assert parser["Unit"]["Description"].startswith("benchsite: ")
    if unit.suffix == ".service":
        program = parser["Service"]["ExecStart"].split()[0]
        assert program in {"/opt/benchsite/bin/granian", "/opt/benchsite/bin/benchsite", "/bin/sh"}
        assert parser["Service"]["StateDirectoryMode"] == "0700"


def test_a_worker_has_the_time_that_a_run_may_take() -> None:
    text = (FILES / "benchsite-worker.service").read_text(encoding="utf-8")
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", text, re.M)
    assert int(seconds) >= 1800 + 60
    assert "KillMode=mixed" in text


def test_a_trial_that_the_kernel_kills_for_memory_does_not_stop_the_worker() -> None:
    """systemd's own default stops a whole service of which one process was killed for memory."""
    text = (FILES / "benchsite-worker.service").read_text(encoding="utf-8")
    assert re.findall(r"^OOMPolicy=(.*)$", text, re.M) == ["continue"]
    (adjust,) = re.findall(r"^OOMScoreAdjust=(-?\d+)$", text, re.M)
    assert -1000 < int(adjust) <= 0 < OOM_SCORE_ADJUST


@pytest.mark.parametrize("name", ["site.env", "worker.env"])
def test_an_environment_file_names_only_settings_that_exist(name: str) -> None:
    assert {key.removesuffix("_FILE") for key in lines(name)} - documented_settings() == set()


def test_an_environment_file_means_the_same_to_a_shell() -> None:
    program = 'set -a; . "$1"; printf %s "$BENCHSITE_EVIDENCE_OPTIONS"'
    said = subprocess.check_output(["sh", "-c", program, "sh", str(FILES / "site.env")], text=True)
    assert said == lines("site.env")["BENCHSITE_EVIDENCE_OPTIONS"].strip("'")


def test_the_units_name_only_settings_that_exist() -> None:
    named = {name for unit in UNITS for name in re.findall(r"^Environment=(\w+)=", unit.read_text(), re.M)}
    assert named == {"BENCHSITE_DATA"}
    assert named <= documented_settings()


def test_the_compose_files_site_names_only_settings_that_exist() -> None:
    for name in ("set-up", "site"):
        environment = compose()["services"][name]["environment"]
        assert {key.removesuffix("_FILE") for key in environment} - documented_settings() == set()
        assert environment["BENCHSITE_PRODUCTION"] == "1"


def test_the_compose_file_refers_only_to_what_it_defines() -> None:
    document = compose()
    for service in document["services"].values():
        assert set(service.get("secrets", [])) <= set(document["secrets"])
        assert set(service.get("depends_on", {})) <= set(document["services"])
        named = {volume.split(":")[0] for volume in service.get("volumes", [])}
        assert {name for name in named if not name.startswith("/")} <= set(document["volumes"])
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")


def test_every_secret_of_a_service_is_one_that_it_is_given() -> None:
    for service in compose()["services"].values():
        files = [value for key, value in service.get("environment", {}).items() if key.endswith("_FILE")]
        assert {Path(file).name for file in files} <= set(service["secrets"] if files else [])


@pytest.mark.parametrize("name", ["backup", "restore"])
def test_each_script_is_executable_and_parses(name: str) -> None:
    assert (FILES / name).stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(FILES / name)], check=True)
    assert subprocess.run([str(FILES / name)], capture_output=True).returncode == 2
