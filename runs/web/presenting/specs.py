"""What a spec says, for people: read from the canonical JSON of a run or preview. Pure."""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from benchsite.lib import words


@dataclass(frozen=True, slots=True)
class Pin:
    """One pinned thing: what it is called, its hash, and what else is known."""

    word: str
    text: str
    sha256: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """One value with its label, and a small line below it."""

    word: str
    value: str
    unit: str = ""
    note: str = ""


@lru_cache(maxsize=32)
def read(spec: str) -> dict[str, Any]:
    """The spec as a dict; an unreadable one is empty, since a page must still say what it can.

    Every part of a page reads the same spec: it is parsed once. Callers read the dict and never change it.
    """
    try:
        found = json.loads(spec)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def get(spec: dict[str, Any], path: str) -> Any:
    """The value at a dotted path, or None."""
    value: Any = spec
    for part in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def floor(spec: dict[str, Any]) -> float | None:
    value = get(spec, "scoring.pass_rate_floor")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def storage_bytes(spec: dict[str, Any]) -> int | None:
    """What an agent may write, in all of its sized file systems; None when the spec does not say."""
    sizes = get(spec, "limits.agent.tmpfs")
    return sum(size for size in sizes.values() if isinstance(size, int)) or None if isinstance(sizes, dict) else None


def run_limit_s(spec: dict[str, Any]) -> float | None:
    value = get(spec, "limits.run_s")
    return float(value) if isinstance(value, int | float) else None


def pins(spec: dict[str, Any], reviewed: str = "", *, private: bool) -> list[Pin]:
    """Everything that identifies what was or would be executed; ``private`` tells where the credential is held too."""
    harness = f"Harbor {get(spec, 'harness.harbor')}, Python {get(spec, 'harness.python')}"
    agent = f"{get(spec, 'harness.agent')} {get(spec, 'harness.agent_version')}"
    bundle = f"{get(spec, 'bundle.name')}, revision {get(spec, 'bundle.revision')}"
    return [
        Pin("Profile", str(get(spec, "profile.name") or ""), _sha(spec, "profile.content_sha256")),
        Pin("Task bundle", bundle, _sha(spec, "bundle.manifest_sha256"), reviewed),
        Pin("Harness lock", harness, _sha(spec, "harness.lock_sha256")),
        Pin("Harness tree", "every file of that environment", _sha(spec, "harness.tree_sha256")),
        Pin("Adapter", agent, _sha(spec, "harness.adapter_sha256")),
        *[
            Pin(f"{role.capitalize()} image", "", str(get(spec, f"images.{role}") or ""))
            for role in ("agent", "verifier", "gateway")
        ],
        Pin("Endpoint", _endpoint(spec), "", _credential(spec, private=private)),
        Pin(
            "Worker",
            str(get(spec, "worker.name") or ""),
            _sha(spec, "worker.capability_sha256"),
            "capability report",
        ),
    ]


def _sha(spec: dict[str, Any], path: str) -> str:
    value = get(spec, path)
    return f"sha256:{value}" if value else ""


def _endpoint(spec: dict[str, Any]) -> str:
    record = get(spec, "endpoint") or {}
    route = {"direct": "direct route", "host-gateway": "by the host gateway"}.get(str(record.get("route")), "")
    parts = [
        f"{record.get('name')} version {record.get('version')}",
        record.get("base_url"),
        f"alias {record.get('model')}",
    ]
    return ", ".join(str(part) for part in (*parts, route) if part)


def _credential(spec: dict[str, Any], *, private: bool) -> str:
    place = credential_place(get(spec, "endpoint.credential") or {}, private=private)
    scripted = "; a scripted endpoint: it proves the adapter, never a model" if get(spec, "endpoint.scripted") else ""
    said = f"credential {place}, never in the agent's container" if place else "without a credential"
    return said + scripted


def credential_place(credential: dict[str, Any], *, private: bool) -> str:
    """Where the worker finds it, empty for none; its name is told to those only who may read private evidence."""
    kind = {"env": "environment variable", "file": "file"}.get(str(credential.get("kind")))
    if kind is None:
        return ""
    return f"in the worker's {kind} {credential.get('name')}" if private else "held by the worker"


def limits(spec: dict[str, Any]) -> list[Fact]:
    """Every limit with who enforces it."""
    values = get(spec, "limits") or {}
    controls = get(spec, "controls") or {}
    agent = values.get("agent") or {}
    storage = storage_bytes(spec)
    return [
        Fact("Whole run", _seconds(values.get("run_s")), note="the worker's clock"),
        Fact(
            "Each trial",
            _seconds(values.get("trial_s")),
            note="the worker's clock, set-up and grading included",
        ),
        Fact("Agent, each task", _seconds(values.get("agent_s")), note="harness and worker's clock"),
        Fact("Verifier, each task", _seconds(values.get("verifier_s")), note="harness and worker's clock"),
        Fact("Steps, each task", _plain(controls.get("max_steps")), note="the agent's own count"),
        Fact("Output, each request", _plain(controls.get("max_completion_tokens")), "tokens", "the gateway"),
        Fact("Tries, each task", _plain(controls.get("max_attempts")), "no retry", "harness, config compared"),
        Fact(
            "At the same time",
            _plain(controls.get("max_concurrent_trials")),
            "trial",
            "harness, config compared",
        ),
        Fact("Each request", _seconds(controls.get("request_timeout_s")), note="the gateway"),
        Fact("Request / answer", "4 / 16 MiB", note="the gateway"),
        Fact("CPU", _plain(agent.get("cpus")), note="the engine"),
        Fact("Memory", words.size(agent.get("memory_bytes")), note="the engine"),
        Fact("Processes", _plain(agent.get("pids")), note="the engine"),
        Fact("Writable storage", words.size(storage), "in memory", "the engine, sized tmpfs"),
    ]


def _seconds(value: Any) -> str:
    return words.duration(float(value)) if isinstance(value, int | float) else words.NOT_RECORDED


def _plain(value: Any) -> str:
    return words.NOT_RECORDED if value is None else f"{value:,}" if isinstance(value, int) else str(value)
