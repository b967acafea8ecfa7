"""Valid specs for tests, with changes by dotted path."""

import copy
from collections.abc import Mapping
from typing import Any

from runs.documents.run_spec import RunSpec, parse_spec

_DIGIT = "0123456789abcdef"
_ROLE = {"cpus": 1.0, "memory_bytes": 1 << 30, "pids": 32, "nofile": 256, "tmpfs": {"/tmp": 1 << 20}}
_SPEC: dict[str, Any] = {
    "schema": "benchsite.run-spec/v1",
    "suite": "environment",
    "profile": {"name": "environment-smoke", "content_sha256": "1" * 64, "file_sha256": "2" * 64, "cases": []},
    "bundle": {"name": "environment-smoke", "revision": 1, "manifest_sha256": "3" * 64},
    "harness": {
        "lock_sha256": "1" * 64, "tree_sha256": "5" * 64, "harbor": "0.22.0", "agent": "mini-swe-agent",
        "agent_version": "2.4.6", "adapter_sha256": "6" * 64, "python": "3.12.1",
    },
    "images": {
        "agent": "sha256:" + "4" * 64, "verifier": "sha256:" + "5" * 64, "gateway": "sha256:" + "6" * 64,
    },
    "worker": {"name": "local", "capability_sha256": "7" * 64},
    "endpoint": {
        "name": "alias", "version": 1, "base_url": "http://192.0.2.9:8000/v1", "host": "192.0.2.9:8000",
        "model": "alias", "served_model": None, "route": "direct", "credential": {"kind": "none", "name": None},
        "scripted": False, "controls": ["max_tokens"],
    },
    "controls": {
        "max_steps": 32, "max_completion_tokens": 4096, "max_concurrent_trials": 1, "max_attempts": 1, "retries": 0,
        "model_attempts": 1, "request_timeout_s": 60, "drop_params": False, "verification": True,
        "install_only": False, "sampling": {"temperature": "agent", "top_p": "agent", "seed": "agent"},
    },
    "limits": {
        "run_s": 1800, "trial_s": 600, "environment_start_s": 60, "agent_setup_s": 60, "agent_s": 360,
        "verifier_s": 60, "agent": _ROLE, "verifier": _ROLE, "gateway": _ROLE,
    },
    "scoring": {"reward_key": "reward", "pass_value": 1, "fail_value": 0, "pass_rate_floor": 1.0},
    "requirements": {"min_free_disk_bytes": 2 << 30, "container_required": True},
}  # fmt: skip


def spec_document(*tasks: str, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The document of a run of these tasks; `changes` maps dotted paths to values."""
    document = copy.deepcopy(_SPEC)
    names = tasks or ("first", "second")
    document["profile"]["cases"] = list(names)
    document["tasks"] = [
        {"ordinal": n, "name": name, "checksum": _DIGIT[n] * 64, "files_sha256": _DIGIT[n + 1] * 64}
        for n, name in enumerate(names, 1)
    ]
    for path, value in (changes or {}).items():
        place: Any = document
        *above, last = path.split(".")
        for part in above:
            place = place[int(part)] if isinstance(place, list) else place[part]
        place[last] = value
    return document


def run_spec(*tasks: str, changes: Mapping[str, Any] | None = None) -> RunSpec:
    """The same, typed."""
    return parse_spec(spec_document(*tasks, changes=changes)).content
