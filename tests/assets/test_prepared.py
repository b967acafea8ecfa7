"""The images and the environment that are really prepared on this machine do what runs/images/README.md says."""

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from runs.containers import ContainerRequest, connect, create_owned, remove_owned, start_owned, still_present
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE
from runs.engine.assets import Assets, load_assets, verify_harness, verify_images
from runs.engine.assets.harness_check import verify_tree
from runs.engine.preflight.image_marks import mark_checks
from runs.ownership import Journal, Role

pytestmark = pytest.mark.harbor_compatibility

MIB = 1024**2
HOLDER = "/usr/local/lib/benchsite/holder"
INSTALL_STEP = "uv tool install mini-swe-agent==2.4.6 --with litellm --with orjson --with fastapi"


@pytest.fixture(scope="module")
def assets() -> Assets:
    return load_assets(settings.ASSETS)


@pytest.fixture(scope="module")
def api() -> Any:
    return connect(60)


@dataclass(frozen=True)
class Running:
    api: Any
    id: str

    def exec(self, *command: str) -> tuple[int, str]:
        """Exit code and output of an argument list."""
        made = self.api.exec_create(self.id, list(command))["Id"]
        output = self.api.exec_start(made).decode(errors="replace")
        return self.api.exec_inspect(made)["ExitCode"], output

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.api.inspect_container(self.id)["State"]
        return state


@pytest.fixture
def started(api: Any, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts an image as a trial would: no network, read-only root, sized tmpfs, no capability."""
    journal = Journal.create(tmp_path, run_id="0" * 32)
    owned = []

    def start(image: str, command: str = HOLDER) -> Running:
        request = ContainerRequest(
            role=Role.PROBE, image_id=image, command=tuple(command.split()),
            cpus=1.0, memory_bytes=1024 * MIB, pids=64, nofile=1024,
            tmpfs={"/tmp": 64 * MIB, "/root": 16 * MIB, "/app": 16 * MIB, "/logs": 16 * MIB, "/tests": 16 * MIB},
        )  # fmt: skip
        owned.append(create_owned(api, journal, {}, request))
        start_owned(api, journal, owned[-1])
        return Running(api, owned[-1].id)

    yield start
    outcomes = [remove_owned(api, journal, container.intent.nonce) for container in owned]
    assert [str(outcome) for outcome in outcomes] == ["removed"] * len(owned)


def test_the_prepared_assets_are_the_locked_ones(assets: Assets, api: Any) -> None:
    assert verify_harness(assets.harness) == []
    assert verify_images(api, assets.images) == []


def test_harbors_install_step_is_a_no_op_on_a_read_only_root_without_a_network(
    assets: Assets, started: Callable[..., Running]
) -> None:
    agent = started(assets.images.agent.id)
    code, output = agent.exec("bash", "-c", f"set -euo pipefail; {INSTALL_STEP} && mini-swe-agent --help >/dev/null")
    assert (code, "is already installed" in output) == (0, True), output
    code, output = agent.exec("bash", "-c", "uv tool list 2>/dev/null | grep mini-swe-agent | head -1")
    assert output.strip() == "mini-swe-agent v2.4.6"
    for command in ("curl", "bash", "gcc", "make", "git", "python3", "pip3"):
        assert agent.exec("bash", "-c", f"command -v {command}")[0] == 0


def test_the_agents_model_is_imported_from_compiled_files_and_nothing_is_written(
    assets: Assets, started: Callable[..., Running]
) -> None:
    agent = started(assets.images.agent.id)
    program = (
        "import minisweagent.models.litellm_model, sys;"
        "late = [m.__name__ for m in sys.modules.values() if (getattr(m, '__file__', None) or '').endswith('.py')"
        " and m.__spec__ and m.__spec__.origin != 'frozen'"
        " and not __import__('os').path.exists(getattr(m, '__cached__', None) or '')];"
        "print('uncompiled', late)"
    )
    code, output = agent.exec("/opt/uv/tools/mini-swe-agent/bin/python", "-c", program)
    assert (code, output.splitlines()[-1]) == (0, "uncompiled []"), output


def test_the_agent_cannot_change_its_own_tool(assets: Assets, started: Callable[..., Running]) -> None:
    agent = started(assets.images.agent.id)
    code, output = agent.exec("bash", "-c", "echo x > /opt/uv/tools/mini-swe-agent/uv-receipt.toml")
    assert (code, "Read-only" in output) == (1, True)


def test_no_image_holds_a_tests_folder_or_anything_of_a_task(assets: Assets, started: Callable[..., Running]) -> None:
    """What grades is brought into the verifier's own container when its time has come, and nowhere else."""
    tasks = ENVIRONMENT_SMOKE / "tasks"
    names = {path.name for path in tasks.rglob("*") if path.is_file() and "environment" not in path.parts}
    assert "test.sh" in names
    looked_for = [word for name in sorted(names) for word in ("-o", "-name", name)][1:]
    for image in (assets.images.agent, assets.images.verifier):
        code, output = started(image.id).exec("find", "/tests", "/app", "/logs", "-mindepth", "1")
        assert (code, output) == (0, "")
        code, output = started(image.id).exec("find", "/opt", "/srv", "/root", "/home", "(", *looked_for, ")")
        assert (code, [line for line in output.splitlines() if "/site-packages/" not in line]) == (0, [])


def test_the_verifier_has_python_and_nothing_that_fetches(assets: Assets, started: Callable[..., Running]) -> None:
    verifier = started(assets.images.verifier.id)
    code, output = verifier.exec("python3", "-I", "-c", "import json, sqlite3, zlib, hashlib, ssl; print('whole')")
    assert (code, output) == (0, "whole\n")
    for command in ("curl", "wget", "apt-get", "git", "gcc", "pip3", "nc"):
        assert verifier.exec("bash", "-c", f"command -v {command}")[0] == 1


@pytest.mark.parametrize("role", ["agent", "verifier"])
def test_the_holder_is_the_images_command_and_owns_no_privilege(assets: Assets, api: Any, role: Any) -> None:
    config = api.inspect_image(assets.images.of(role).id)["Config"]
    assert (config["Cmd"], config["Entrypoint"]) == ([HOLDER], None)
    assert config["Labels"]["benchsite.image"] == role


def test_the_gateway_image_starts_its_program(assets: Assets, api: Any) -> None:
    config = api.inspect_image(assets.images.gateway.id)["Config"]
    assert config["Cmd"] == ["python3", "-I", "/opt/gateway"]


def test_no_image_has_a_file_that_raises_privileges(assets: Assets, started: Callable[..., Running]) -> None:
    for image in assets.images.images:
        code, output = started(image.id, "sleep 300").exec("find", "/", "-xdev", "-perm", "/6000", "-type", "f")
        assert (code, output) == (0, "")


def test_the_holder_reaps_and_survives_the_killing_of_everything_else(
    assets: Assets, started: Callable[..., Running]
) -> None:
    verifier = started(assets.images.verifier.id)
    verifier.exec("bash", "-c", "(sleep 300 &) ; (sleep 0.01 &) ; (true &)")
    verifier.exec("bash", "-c", "kill -9 -1")
    deadline = time.monotonic() + 60
    while (processes := _processes(verifier)) != {"1": "holder"} and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes == {"1": "holder"}
    assert verifier.state()["Status"] == "running"


def test_the_holder_ignores_a_stop_from_inside_and_obeys_the_engine(
    assets: Assets, started: Callable[..., Running], api: Any
) -> None:
    verifier = started(assets.images.verifier.id)
    for signal in ("TERM", "INT", "HUP", "KILL", "STOP"):
        verifier.exec("bash", "-c", f"kill -{signal} 1")
    assert verifier.state()["Status"] == "running"
    api.stop(verifier.id, timeout=120)
    state = verifier.state()
    assert (state["ExitCode"], state["OOMKilled"]) == (0, False)  # 137 would mean that TERM was not obeyed


def test_running_the_harness_changes_nothing_in_it(assets: Assets) -> None:
    python = assets.harness.python
    for program in (
        "import harbor.cli.main",
        "import runs.harness.environment, runs.harness.launch, runs.wire.tar_reader",
    ):
        subprocess.run([python, "-I", "-B", "-c", program], check=True, capture_output=True)
    assert verify_tree(assets.harness) == []


def test_the_harness_imports_nothing_of_benchsites_own_interpreter(assets: Assets) -> None:
    program = (
        "import sys, harbor, runs.harness; print(harbor.__file__); print([p for p in sys.path if 'site-packages' in p])"
    )
    output = subprocess.run(
        [assets.harness.python, "-I", "-B", "-c", program], check=True, capture_output=True, text=True
    ).stdout
    assert str(assets.harness.path) in output.splitlines()[0]
    assert output.splitlines()[1].count("site-packages") == 1


def _processes(container: Running) -> dict[str, str]:
    """pid -> name of every process but the one that looks."""
    program = (
        'import os, pathlib; print(*(f\'{p}:{pathlib.Path("/proc", p, "comm").read_text().strip()}\''
        " for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()))"
    )
    _, output = container.exec("python3", "-I", "-c", program)
    return dict(pair.split(":", 1) for pair in output.split())


def test_a_container_of_each_image_sees_its_own_mark_and_of_no_other(api: Any, assets: Assets, tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "marks", run_id="0" * 32)
    assert [check.code for check in mark_checks(api, journal, assets.images)] == [
        *["image.mark_found"] * 3, "engine.lists_processes",
    ]  # fmt: skip
    swapped = replace(assets.images, agent=replace(assets.images.agent, id=assets.images.verifier.id))
    assert [check.code for check in mark_checks(api, journal, swapped) if check.refuses] == ["image.mark_differs"]
    assert still_present(api, journal) == []
