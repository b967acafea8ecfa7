"""What a spec says, for people: pins, limits, and what the worker needs for it. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from benchsite.lib import words
from benchsite.lib.problems import DocumentError
from runs.checks.worker import needed_cpus, needed_memory_bytes
from runs.documents.ceilings import EXEC_OUTPUT_BYTES, TRANSFER_BYTES, TRANSFER_FILES, RoleLimits
from runs.documents.run_spec import RunSpec, load_spec
from runs.documents.sampling import AGENT
from runs.documents.spending import Left, amount_of


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


@dataclass(frozen=True, slots=True)
class Need:
    """What a run needs of its worker, and what the worker's last report says of it; `met` is None for not reported."""

    word: str
    needed: str
    present: str
    met: bool | None


@lru_cache(maxsize=32)
def read(spec: str) -> RunSpec | None:
    """The spec, or None where it cannot be read, since a page must still say what it can. It is parsed once a page."""
    try:
        return load_spec(spec.encode()).content
    except DocumentError:
        return None


def storage_bytes(limits: RoleLimits) -> int:
    """What a container may write, in all of its sized file systems."""
    return sum(limits.tmpfs.values())


def pins(spec: RunSpec, reviewed: str = "", *, private: bool) -> list[Pin]:
    """Everything that identifies what was or would be executed; ``private`` tells where the credential is held too."""
    harness = spec.harness
    endpoint = spec.endpoint
    route = {"direct": "direct route", "host-gateway": "by the host gateway"}[endpoint.route]
    if endpoint.route == "direct":
        route += f", private addresses {endpoint.private_addresses}"
    others = f", which may answer as {', '.join(endpoint.other_names)}" if endpoint.other_names else ""
    place = credential_place(spec.endpoint.credential.model_dump(), private=private)
    scripted = "; a scripted endpoint: it proves the adapter, never a model" if spec.endpoint.scripted else ""
    said = f"credential {place}, never in the agent's container" if place else "without a credential"
    if endpoint.ca_file is not None:
        said += f"; TLS verified by the worker's CA file{f' {endpoint.ca_file}' if private else ''} alone"
    if endpoint.headers:
        said += f"; sends {', '.join(f'{name}: {value}' for name, value in endpoint.headers.items())}"
    return [
        Pin("Profile", spec.profile.name, f"sha256:{spec.profile.content_sha256}", spec.coverage),
        Pin(
            "Task bundle",
            f"{spec.bundle.name}, revision {spec.bundle.revision}",
            f"sha256:{spec.bundle.manifest_sha256}",
            reviewed,
        ),
        Pin("Harness lock", f"Harbor {harness.harbor}, Python {harness.python}", f"sha256:{harness.lock_sha256}"),
        Pin("Harness tree", "every file of that environment", f"sha256:{harness.tree_sha256}"),
        Pin("Adapter", f"{harness.agent} {harness.agent_version}", f"sha256:{harness.adapter_sha256}"),
        *[Pin(f"{role.capitalize()} image", "", spec.images.of(role)) for role in ("agent", "verifier", "gateway")],
        Pin(
            "Endpoint",
            f"{endpoint.name} version {endpoint.version}, {endpoint.base_url}, alias {endpoint.model}{others}, {route}",
            "",
            said + scripted,
        ),
        Pin("Worker", spec.worker.name, f"sha256:{spec.worker.capability_sha256}", "capability report"),
    ]


def spending(record: dict[str, Any], left: Mapping[str, Left]) -> dict[str, Any]:
    """Prices, limits and budgets of an endpoint's record in words, and what is left of those over runs."""
    prices = record.get("prices") or {}
    currency = prices.get("currency", "")
    stated, pace = record.get("budgets") or {}, record.get("limits") or {}
    budgets = [
        (whose, _amounts(budget.get("tokens"), budget.get("money"), currency), _left(left.get(scope), currency))
        for scope, whose in _SCOPES.items()
        if (budget := stated.get(scope))
    ]
    limits = [f"{value:,} {unit}" for name, unit in _PACE.items() if (value := pace.get(name)) is not None]
    return {"prices": prices, "pace": limits, "budgets": budgets}


_SHOWN = 10**8  # four decimals, rounded down
_SCOPES = {"trial": "each trial", "run": "each run", "day": "a day (UTC)", "total": "all runs"}
_PACE = {
    "requests_per_minute": "requests a minute",
    "tokens_per_minute": "tokens a minute",
    "concurrent_requests": "requests at the same time",
}


def _amounts(tokens: int | None, money: str | None, currency: str) -> str:
    parts = [f"{tokens:,} tokens"] if tokens is not None else []
    return " and ".join([*parts, f"{money} {currency}"] if money is not None else parts)


def _left(left: Left | None, currency: str) -> str:
    if left is None:
        return ""
    shown = None if left.money is None else amount_of(left.money // _SHOWN * _SHOWN)
    return _amounts(left.tokens, shown, currency) + " left"


def credential_place(credential: dict[str, Any], *, private: bool) -> str:
    """Where the worker finds it, empty for none; its name is told to those only who may read private evidence."""
    kind = {"env": "environment variable", "file": "file"}.get(str(credential.get("kind")))
    if kind is None:
        return ""
    return f"in the worker's {kind} {credential.get('name')}" if private else "held by the worker"


def limits(spec: RunSpec) -> list[Fact]:
    """Every limit that is no container's, with who enforces it."""
    values, controls = spec.limits, spec.controls
    clock, both = "the worker's clock", "harness and worker's clock"
    sampling = spec.controls.sampling
    return [
        Fact("Whole run", words.duration(values.run_s), note=clock),
        Fact("Each trial", words.duration(values.trial_s), note=f"{clock}, set-up and grading included"),
        Fact("Container start", words.duration(values.environment_start_s), "each", both),
        Fact("Agent's set-up", words.duration(values.agent_setup_s), note=both),
        Fact("Agent, each task", words.duration(values.agent_s), note=both),
        Fact("Verifier, each task", words.duration(values.verifier_s), note=both),
        Fact("Steps, each task", words.number(controls.max_steps), note="the agent's own count, and the gateway"),
        Fact("Output, each request", words.number(controls.max_completion_tokens), "tokens", "the gateway"),
        Fact("Temperature", *_sampling(sampling.temperature)),
        Fact("Top p", *_sampling(sampling.top_p)),
        Fact("Seed", *_sampling(sampling.seed)),
        Fact("Tries, each task", words.number(controls.max_attempts), "no retry", "harness, config compared"),
        Fact("At the same time", words.number(controls.max_concurrent_trials), "trial", "harness, config compared"),
        Fact("Each request", words.duration(controls.request_timeout_s), note="the gateway"),
        *_spending_facts(spec),
        Fact("Request / answer", "4 / 16 MiB", note="the gateway"),
        Fact("Each transfer", words.size(TRANSFER_BYTES), f"in {TRANSFER_FILES:,} files", "the attendant, both ways"),
        Fact("Output, each command", words.size(EXEC_OUTPUT_BYTES), "recorded", "the attendant"),
    ]


def _spending_facts(spec: RunSpec) -> Iterator[Fact]:
    """Budgets, pace and prices of the endpoint, if it has any."""
    endpoint = spec.endpoint
    parts = {name: None if (part := getattr(endpoint, name)) is None else part.model_dump() for name in _SPENDING}
    said = spending(parts, {})
    for whose, amount, _ in said["budgets"]:
        yield Fact(f"Budget, {whose}", amount, note="the gateway refuses the next request")
    if said["pace"]:
        yield Fact("Pace", ", ".join(said["pace"]), note="the gateway lets a request wait")
    if (prices := endpoint.prices) is not None:
        cached = f", {prices.cached_input} cached" if prices.cached_input is not None else ""
        amounts = f"{prices.input} in{cached}, {prices.output} out"
        yield Fact("Prices, a million tokens", amounts, prices.currency, f"as of {prices.date}")


_SPENDING = ("prices", "limits", "budgets")


def roles(spec: RunSpec) -> list[dict[str, Any]]:
    """What each of the three containers may use; the engine enforces all of it."""
    networks = {"agent": "gateway only", "verifier": "none", "gateway": "the endpoint"}
    return [_role(role, spec.limits.of(role), network) for role, network in networks.items()]


def needs(spec: RunSpec, report: dict[str, Any]) -> list[Need]:
    """What the profile and the bundle require, against the worker's last report (`benchsite.capabilities/v1`)."""
    engine = report.get("engine") or {}
    cpus, memory, disk = engine.get("cpus"), engine.get("memory_bytes"), report.get("disk_free_bytes")
    wanted, memory_bytes = needed_cpus(spec.limits), needed_memory_bytes(spec.limits)
    disk_bytes = spec.requirements.disk_bytes
    return [
        Need("CPUs", f"{wanted:g}", *_present(cpus, wanted, words.number)),
        Need("Memory", words.size(memory_bytes), *_present(memory, memory_bytes, words.size)),
        Need("Free disk", words.size(disk_bytes), *_present(disk, disk_bytes, words.size)),
        Need("Containers", "required", *(("Docker Engine", True) if engine else (words.NOT_RECORDED, None))),
    ]


def _present(found: Any, wanted: float, shown: Any) -> tuple[str, bool | None]:
    return (shown(found), found >= wanted) if type(found) is int else (words.NOT_RECORDED, None)


def _sampling(value: float | int | str) -> tuple[str, str, str]:
    if value == AGENT:
        return "the agent's choice", "", "not fixed by the profile"
    return f"{value:g}" if isinstance(value, float) else str(value), "fixed", "the gateway refuses any other"


def _role(role: str, limits: RoleLimits, network: str) -> dict[str, Any]:
    storage = storage_bytes(limits)
    return {
        "role": role.capitalize(),
        "cpus": f"{limits.cpus:g}",
        "memory": words.size(limits.memory_bytes),
        "processes": words.number(limits.pids),
        "files": words.number(limits.nofile),
        "storage": words.size(storage) if storage else "none",
        "network": network,
    }
