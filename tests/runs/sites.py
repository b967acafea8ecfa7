"""A site that is ready to start a run: the packaged profile and bundle, an endpoint, a worker that has reported."""

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User

from benchsite.lib.canonical import canonical_sha256
from runs.checks.worker import OPTIONAL_LIMITS, REQUIRED_LIMITS
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE, read_bundle
from runs.models import Endpoint, Profile, TaskBundle, Worker
from runs.services import registry, reviewing, workers
from runs.services.previewing import Choice
from tests.runs.rows import person

NAME = "environment-smoke"
RECORD: dict[str, Any] = {
    "schema": "benchsite.endpoint/v1", "name": "scripted", "base_url": "http://192.0.2.7:8000/v1", "model":
    "scripted", "served_model": None, "route": "direct", "credential": {"kind": "none"}, "controls":
    ["max_tokens"], "scripted": True,
}  # fmt: skip
REPORT: dict[str, Any] = {
    "schema": "benchsite.capabilities/v1", "worker": "local", "platform": "Linux x86_64", "python": "3.12.1",
    "network_namespace": True, "disk_free_bytes": 64 << 30,
    "sandbox": {"made": True, "own_uid": True, "code": None, "detail": ""}, "engine": {
        "version": "20.10.24", "cgroup_version": "1", "cpus": 4, "memory_bytes": 8 * 1024**3,
    }, "engine_problem": None, "limits": [
        {"name": name, "enforced": True, "mechanism": f"mechanism of {name}", "detail": ""}
        for name in (*REQUIRED_LIMITS, *OPTIONAL_LIMITS)
    ],
}  # fmt: skip
# A worker that is not root: something to accept by name.
SHARED_UID = {"made": True, "own_uid": False, "code": None, "detail": ""}
HARNESS: dict[str, Any] = {
    "lock_sha256": "1" * 64, "tree_sha256": "2" * 64, "adapter_sha256": "3" * 64, "harbor": "0.22.0",
    "agent": "mini-swe-agent", "agent_version": "2.4.6", "python": "3.12.1",
}  # fmt: skip


@dataclass
class Site:
    """The rows that a preview needs, and an operator who may start."""

    operator: User
    profile: Profile
    bundle: TaskBundle
    endpoint: Endpoint
    worker: Worker

    def choice(self, **changes: Any) -> dict[str, Any]:
        """Arguments of ``make_preview``; ``changes`` are another ``user``, or another part of the choice."""
        user = changes.pop("user", self.operator)
        rows = {
            "profile": self.profile,
            "bundle": self.bundle,
            "endpoint": self.endpoint,
            "worker": self.worker,
        }
        return {"user": user, "choice": Choice(**(rows | changes))}


def ready_site(name: str = "local") -> Site:
    """Install the packaged documents and a worker ``name`` that can enforce everything."""
    bundle = install_bundle()
    images = {
        role: {"image_id": f"sha256:{digit * 64}", "recipe_sha256": recipe}
        for digit, (role, recipe) in zip("456", recipes().items(), strict=True)
    }
    workers.record_harness_lock(name, HARNESS)
    workers.record_image_locks(name, images)
    return Site(
        operator=person("olga", "operator"),
        profile=registry.store_profile((ENVIRONMENT_SMOKE / "profile.json").read_bytes(), user=None),
        bundle=bundle,
        endpoint=registry.register_endpoint(RECORD, user=None),
        worker=report(name),
    )


def install_bundle() -> TaskBundle:
    return reviewing.install_packaged(
        read_bundle(ENVIRONMENT_SMOKE),
        name=NAME,
        certification={"passed": True},
        reviewed_by="rita",
        note="packaged",
    )


def report(name: str = "local", **changes: Any) -> Worker:
    """Let the worker report anew, with ``changes``."""
    document = {**REPORT, **changes}
    return workers.record_report(name, document, capability_sha256=canonical_sha256(document), host=f"host-{name}")


def recipes() -> dict[str, str]:
    images = read_bundle(ENVIRONMENT_SMOKE).manifest.images
    return {role: getattr(images, role).recipe_sha256 for role in ("agent", "verifier", "gateway")}
