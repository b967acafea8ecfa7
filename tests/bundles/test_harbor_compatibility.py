"""The packaged tasks are what Harbor itself takes them for: its own models, hashes and defaults."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE, read_bundle
from runs.engine.assets import load_assets

pytestmark = pytest.mark.harbor_compatibility

PROGRAM = """
import json, sys, warnings
from harbor.models.task.task import Task
from harbor.models.task.verifier_mode import resolve_task_verifier_mode
from harbor.publisher.packager import Packager

found = {}
for folder in sys.argv[1:]:
    task = Task(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        checksum = task.checksum
    found[task.name] = {
        "checksum": checksum,
        "digest": Packager.compute_content_hash(task.task_dir)[0],
        "files": len(Packager.collect_files(task.task_dir)),
        "mode": resolve_task_verifier_mode(task.config).value,
        "verifier": task.config.verifier.environment.model_dump(mode="json"),
        "environment": task.config.environment.model_dump(mode="json"),
        "artifacts": task.config.artifacts,
        "steps": task.has_steps,
    }
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def seen() -> dict[str, dict]:
    """What Harbor's own code says of each packaged task."""
    python = load_assets(Path(os.environ["BENCHSITE_ASSETS"])).harness.python
    folders = [str(ENVIRONMENT_SMOKE / "tasks" / name) for name in read_bundle(ENVIRONMENT_SMOKE).task_names]
    environment = {"HARBOR_TELEMETRY": "off", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "PATH": os.environ["PATH"]}
    ended = subprocess.run(
        [str(python), "-I", "-B", "-c", PROGRAM, *folders],
        capture_output=True,
        check=True,
        env=environment,
        timeout=120,
    )
    return json.loads(ended.stdout)


def test_harbor_computes_the_same_two_hashes_of_every_task(seen):
    for task in read_bundle(ENVIRONMENT_SMOKE).manifest.tasks:
        assert seen[task.name]["checksum"] == task.checksum
        assert seen[task.name]["digest"] == task.files_sha256
        assert seen[task.name]["files"] == len(task.files)


def test_harbor_applies_the_separate_verifier_the_images_and_the_networks(seen):
    for task in seen.values():
        assert task["mode"] == "separate"
        assert not task["steps"]
        assert task["artifacts"] == ["/app/output"]
        assert (task["environment"]["docker_image"], task["environment"]["network_mode"]) == (
            "benchsite-agent", "allowlist",
        )  # fmt: skip
        assert task["environment"]["allowed_hosts"] == ["model-gateway"]
        assert (task["verifier"]["docker_image"], task["verifier"]["network_mode"]) == (
            "benchsite-verifier", "no-network",
        )  # fmt: skip
