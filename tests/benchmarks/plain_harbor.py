"""The same work done by plain Harbor: `harbor run` with Harbor's own Docker backend, on the same parts.

Same Harbor, tasks, images, agent and endpoint. Needs the Compose plugin: the user's own, or the one of Debian's
newer suite, unpacked into the assets' cache.
"""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from django.conf import settings

from runs.documents.bundle.packaged import packaged_folder
from runs.engine.assets import Assets

TASKS = ("ledger-totals", "config-merge", "file-tree")
SUITE = "trixie"


def docker_config() -> Path:
    """A folder for DOCKER_CONFIG in which the docker client finds a Compose plugin."""
    folder = settings.ASSETS / "cache" / "compose"
    plugin = folder / "cli-plugins" / "docker-compose"
    if _works(os.environ.get("DOCKER_CONFIG", str(Path.home() / ".docker"))):
        return Path(os.environ.get("DOCKER_CONFIG", str(Path.home() / ".docker")))
    if not plugin.exists():
        plugin.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(_unpacked(folder / "debian"), plugin)
    return folder


def _works(config: str) -> bool:
    command = ["docker", "compose", "version"]
    return subprocess.run(command, env={**os.environ, "DOCKER_CONFIG": config}, capture_output=True).returncode == 0


def _unpacked(folder: Path) -> Path:
    """Download Debian's docker-compose with lists of its own, so that the system's are left as they are."""
    for name in ("lists/partial", "cache/archives/partial", "parts"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    sources = Path("/etc/apt/sources.list.d/debian.sources").read_text()
    first = re.sub(r"(?m)^Suites:.*$", f"Suites: {SUITE}", sources.split("\n\n")[0])
    (folder / "parts" / "newer.sources").write_text(first + "\n")
    options = {
        "Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": folder / "parts",
        "Dir::State::lists": folder / "lists", "Dir::Cache": folder / "cache",
    }  # fmt: skip
    apt = ["apt-get", "-qq", *(part for name, value in options.items() for part in ("-o", f"{name}={value}"))]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "download", "docker-compose"], check=True, cwd=folder)
    (package,) = folder.glob("docker-compose_*.deb")
    subprocess.run(["dpkg", "-x", package, folder / "root"], check=True)
    return folder / "root/usr/libexec/docker/cli-plugins/docker-compose"


def plain_seconds(assets: Assets, base_url: str, key: str, work: Path) -> float:
    """Wall time of one plain job over the three tasks; fails unless each of them got reward 1."""
    # Compose takes an image by its id, so that nothing is tagged: taking the only tag away would remove the image.
    names = {role: assets.images.of(role).id for role in ("agent", "verifier")}
    for task in TASKS:
        _copy_task(packaged_folder("environment-smoke") / "tasks" / task, work / "tasks" / task, names)
    config = work / "config.json"
    config.write_text(json.dumps(_config(work, base_url, key)))
    (work / "home").mkdir()
    started = time.monotonic()
    _run(assets.harness.python, config, work)
    seconds = time.monotonic() - started
    rewards = [_reward(path) for path in sorted((work / "plain").glob("*/result.json"))]
    if rewards != [1.0] * len(TASKS):
        raise RuntimeError(f"plain Harbor did not do the same work: rewards {rewards}; see {work}")
    return seconds


def _copy_task(source: Path, target: Path, names: dict[str, str]) -> None:
    shutil.copytree(source, target)
    toml = (target / "task.toml").read_text()
    for role, name in names.items():
        toml = toml.replace(f'"benchsite-{role}"', f'"{name}"')
    # Harbor's Docker backend has no gateway, so the agent asks the endpoint itself, and here no way to cut a network.
    toml = toml.replace('network_mode = "allowlist"\nallowed_hosts = ["model-gateway"]', 'network_mode = "public"')
    toml = toml.replace('network_mode = "no-network"', 'network_mode = "public"')
    (target / "task.toml").write_text(toml)


def _config(work: Path, base_url: str, key: str) -> dict[str, Any]:
    return {
        "job_name": "plain",
        "jobs_dir": str(work),
        "n_attempts": 1,
        "n_concurrent_trials": 1,
        "quiet": True,
        "retry": {"max_retries": 0},
        "environment": {"type": "docker", "delete": True},
        "agents": [
            {
                "name": "mini-swe-agent",
                "model_name": "openai/scripted-positive",
                "kwargs": {"version": "2.4.6", "max_tokens": 4096},
                "env": {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": base_url},
            }
        ],
        "tasks": [{"path": str(work / "tasks" / task)} for task in TASKS],
    }


def _run(python: Path, config: Path, work: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(work / "home"),
        "DOCKER_CONFIG": str(docker_config()),
        "HARBOR_TELEMETRY": "off",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [str(python), "-I", "-B", "-c", "from harbor.cli.main import app; app()"]
    with (work / "harbor.log").open("wb") as log:
        command += ["run", "--config", str(config), "--yes"]
        subprocess.run(command, env=environment, stdout=log, stderr=log, check=True, cwd=work)


def _reward(path: Path) -> float | None:
    result = json.loads(path.read_text())["verifier_result"]
    return None if result is None else float(result["rewards"]["reward"])
