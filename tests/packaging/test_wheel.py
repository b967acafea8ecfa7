"""The wheel holds the whole product, and nothing needs the checkout."""

import json
import os
from pathlib import Path

import pytest

from benchsite.mcp.server import tools_document
from runs.engine.assets.adapter import adapter_files, adapter_hashes, adapter_sha256
from tests.packaging.installing import PACKAGES, ROOT, Installed, tracked, wheel_names


@pytest.fixture
def data(tmp_path: Path, installed: Installed) -> dict[str, str]:
    """A migrated data folder of its own, as environment variables."""
    variables = {"BENCHSITE_DATA": str(tmp_path / "data")}
    done = installed.run("migrate", "--verbosity", "0", **variables)
    assert done.returncode == 0, done.stderr
    return variables


def test_every_tracked_file_of_the_product_is_in_the_wheel_and_nothing_else(wheel: Path) -> None:
    wanted = {name.replace("templates/", "benchsite/templates/", 1) for name in tracked(*PACKAGES)}
    assert wheel_names(wheel) == wanted


def test_the_wheel_holds_what_is_easily_forgotten(wheel: Path) -> None:
    names = wheel_names(wheel)
    for name in (
        "runs/bundles/.gitattributes",
        "runs/bundles/environment-smoke/tasks/file-tree/tests/input/inbox/Archive/2025/Stock List.CSV",
        "runs/harness/requirements.txt",
        "runs/images/agent/packages.amd64.lock",
        "runs/images/base/holder.c",
        "runs/images/gateway/__main__.py",
        "benchsite/static/benchsite/app.js",
        "benchsite/templates/runs/run.html",
    ):
        assert name in names


def test_the_wheel_says_what_it_needs_and_how_it_is_started(installed: Installed) -> None:
    program = "from importlib.metadata import *; print(entry_points(name='benchsite')); print(metadata('benchsite'))"
    said = installed.python(program)
    assert "benchsite.lib.commandline:main" in said
    assert "Provides-Extra: s3" in said and "Requires-Python: >=3.12" in said


def test_the_product_comes_from_the_wheel_alone(installed: Installed) -> None:
    files = installed.python(
        "import benchsite, runs, evidence; print(*(p.__file__ for p in (benchsite, runs, evidence)))"
    )
    assert all(Path(file).is_relative_to(installed.site_packages) for file in files.split())
    assert str(ROOT) not in installed.python("import sys; print(sys.path)").replace(f"{ROOT}/.venv", "")


def test_the_product_runs_without_harbor(installed: Installed) -> None:
    """R004: what runs inside a trial is in an environment of its own, which `prepare` makes."""
    program = "from importlib.util import find_spec; print([name for name in ('harbor', 'litellm') if find_spec(name)])"
    assert installed.python(program) == "[]"


def test_installed_the_data_lies_in_the_home_and_not_beside_the_code(installed: Installed) -> None:
    found = installed.python("import benchsite.settings as settings; print(settings.DATA)")
    assert found == str(installed.folder / ".local/share/benchsite")


def test_the_packaged_bundle_is_whole_although_pip_compiled_its_programs(
    installed: Installed, data: dict[str, str]
) -> None:
    assert list(installed.site_packages.glob("runs/bundles/*/tasks/*/tests/__pycache__/*.pyc"))
    for action in ("verify", "import"):
        done = installed.run("bundle", action, "--json", **data)
        assert done.returncode == 0, done.stdout + done.stderr


def test_prepare_offline_names_what_is_missing(installed: Installed, data: dict[str, str]) -> None:
    done = installed.run("prepare", "--offline", "--json", **data)
    document = json.loads(done.stdout)
    assert (done.returncode, document["code"]) == (3, "assets.missing_offline")
    for missing in ("Harbor and its dependencies", "agent", "verifier", "gateway"):
        assert missing in document["sentence"]


def test_the_harness_gets_the_same_adapter_as_from_the_checkout(installed: Installed, tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from runs.engine.assets.adapter import adapter_hashes, adapter_sha256, install_adapter
install_adapter(Path(sys.argv[1]))
print(adapter_sha256(adapter_hashes()))
"""
    target = tmp_path / "site-packages"
    done = installed.run("-P", "-c", program, str(target), program="python")
    assert done.stdout.strip() == adapter_sha256(adapter_hashes()), done.stderr
    found = {path.relative_to(target).as_posix() for path in target.rglob("*.py")}
    empty = {"runs/__init__.py", "benchsite/__init__.py", "benchsite/lib/__init__.py"}
    assert found == {*empty, *adapter_files()}


def test_the_schemas_of_the_tools_are_printed_without_a_database(installed: Installed, tmp_path: Path) -> None:
    nowhere = {"BENCHSITE_DATA": str(tmp_path / "data"), "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    done = installed.run("mcp", "--schema", **nowhere)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == tools_document()


def test_a_preview_says_what_is_missing(installed: Installed, data: dict[str, str]) -> None:
    done = installed.run("preview", "--endpoint", "local-model", "--json", **data)
    document = json.loads(done.stdout)
    assert (done.returncode, document["code"]) == (2, "input.unknown_profile")
    assert "Install the packaged one with manage.py prepare" in document["sentence"]


def test_a_page_is_rendered_from_the_installed_templates(installed: Installed, data: dict[str, str]) -> None:
    assert installed.run("collectstatic", "--no-input", "--verbosity", "0", **data).returncode == 0
    program = """
import django
from django.test import Client
from django.test.utils import setup_test_environment
django.setup()
setup_test_environment()
response = Client().get("/sign-in/", headers={"host": "localhost"})
print(response.status_code, response.templates[0].origin.name)
"""
    shown = installed.python(program, DJANGO_SETTINGS_MODULE="benchsite.settings", **data)
    status, origin = shown.split(maxsplit=1)
    assert status == "200"
    assert Path(origin) == installed.site_packages / "benchsite/templates/registration/login.html"
    assert (Path(data["BENCHSITE_DATA"]) / "static/benchsite/app.js").is_file()


def test_the_schemas_of_the_tools_are_dumped_without_a_database(installed: Installed, tmp_path: Path) -> None:
    done = installed.run("mcp", "--schema", BENCHSITE_DATA=str(tmp_path / "none"))
    document = json.loads(done.stdout)
    assert (done.returncode, document["schema"]) == (0, "benchsite.mcp-tools/v1")
    assert {"preview", "start"} <= {tool["name"] for tool in document["tools"]}


# What prepare records once the shared assets are ready; it is not run, since it may also change them.
RECORD = """
import django
django.setup()
from django.conf import settings
from runs.services import bundle_import, workers
from runs.engine.assets import load_assets
assets = load_assets(settings.ASSETS)
workers.record_harness_lock(settings.WORKER_NAME, assets.harness.lock.document)
workers.record_image_locks(settings.WORKER_NAME, {image.role: image.document() for image in assets.images.images})
bundle_import.install_packaged()
"""


@pytest.mark.harbor_compatibility
def test_a_real_run_passes_from_the_installed_product(installed: Installed, data: dict[str, str]) -> None:
    data["BENCHSITE_ASSETS"] = os.environ["BENCHSITE_ASSETS"]
    installed.python(RECORD, DJANGO_SETTINGS_MODULE="benchsite.settings", **data)
    done = installed.run("smoke", "--only", "positive", "--json", timeout=300, **data)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["schema"] == "benchsite.smoke/v1"
