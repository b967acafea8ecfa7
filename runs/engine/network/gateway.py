"""A run's gateway: two owned networks, one owned container, secrets on its standard input.

The container's log is the ledger: it is copied to `ledger.jsonl` while the run lives, and read once more,
whole, when the gateway is closed.
"""

import hashlib
import hmac
import ipaddress
import json
import secrets
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import docker

from runs.containers import (
    ContainerRequest,
    Deadline,
    EngineError,
    OwnedContainer,
    OwnedNetwork,
    address_in,
    connect_owned,
    create_owned,
    create_owned_network,
    engine_call,
    start_owned,
)
from runs.documents.endpoint_urls import HOST_GATEWAY
from runs.documents.ledger import LedgerReport, read_ledger
from runs.documents.run_spec import RunSpec
from runs.documents.spending import OVER_RUNS, Left, gateway_spending
from runs.engine.network.gateway_log import LogFollower, container_log
from runs.engine.network.transcript import TranscriptFollower
from runs.ownership import Intent, Journal, Role
from runs.ownership.storage import replace_whole

ALIAS = "model-gateway"
PORT = 8080
COMMAND = ("/usr/bin/python3", "-I", "/opt/gateway")
USER = "65534:65534"
CONFIG_SCHEMA = "benchsite.gateway-config/v4"
READY_SECONDS = 60.0
CLOSE_SECONDS = 15
_SETTLE_SECONDS = 1.0
# Some forty codes of refusal, each with eight lines and a summary; a line takes about 1100 bytes in the log.
_REFUSAL_LINES_PER_TRIAL = 400
_LOG_BYTES_PER_LINE = 1400

_FAILURES = {
    "config": "The gateway refused its configuration. Check the endpoint's record and its credential.",
    "resolve": "The endpoint's name does not resolve here. Check the base URL and the worker's DNS.",
    "listen": "The gateway could not listen on the run's network.",
    "stdin": "The gateway was not told its configuration in time.",
    "ended": "The gateway ended before it was ready. Its log on the worker says why.",
    "not_ready": "The gateway was not ready in time. Check the load of this worker and try again.",
    "credential": "The endpoint's credential must be one line of visible ASCII without spaces.",
    "loopback": "A loopback address needs the declared route host-gateway. Correct the endpoint's record.",
    "network": "The run's outer network has no gateway address, so the host cannot be reached by it.",
}


class GatewayError(Exception):
    """The gateway could not be started: stable `code`, a person's `sentence`, private `detail`."""

    def __init__(self, reason: str, detail: str = "") -> None:
        self.code = f"gateway.{reason}"
        self.sentence = _FAILURES[reason]
        self.detail = detail
        super().__init__(self.sentence)


def new_run_key() -> bytes:
    """A fresh key of one run; it lives in the worker's and the gateway's memory only."""
    return secrets.token_bytes(32)


def trial_token(run_key: bytes, trial: int) -> str:
    """The bearer of one trial: hex HMAC-SHA256 of `trial:<n>`. The gateway's program computes the same."""
    return hmac.new(run_key, f"trial:{trial}".encode("ascii"), hashlib.sha256).hexdigest()


def readiness_trial(spec: RunSpec) -> int:
    """The number as which the readiness question is asked: the one after the run's last trial."""
    return len(spec.tasks) + 1


@dataclass(frozen=True, slots=True)
class PassThrough:
    """The APIs that a gateway passes through, and the models that may be asked for in them; a trial's token expires
    that long after its first request. Environment runs have none: theirs is the one strict API."""

    apis: tuple[str, ...]
    models: tuple[str, ...]
    trial_timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPlan:
    """What the spec says of the gateway: image, bounds of its container, endpoint, caps of every trial.

    `trials` has one more than the run: the last number asks whether the endpoint is ready, and is no trial's.
    `sampling` holds the controls that are fixed, by the names that a request gives them. `spec_sha256` is what the
    ledger names beside the run, None when there is no run. `within` is the site's list of networks, which may hold the
    word host-gateway; None without a list. `ca_pem` are the certificates of the endpoint's own authorities. `spending`
    is what it holds of prices, pace and budgets.
    """

    image_id: str
    cpus: float
    memory_bytes: int
    pids: int
    nofile: int
    base_url: str
    model: str
    served_models: tuple[str, ...]
    private_addresses: bool
    route: Literal["direct", "host-gateway"]
    trials: int
    max_steps: int
    max_completion_tokens: int
    request_timeout_s: float
    sampling: Mapping[str, int | float] = field(default_factory=dict)
    spec_sha256: str | None = None
    within: tuple[str, ...] | None = None
    pass_through: PassThrough | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    ca_pem: str | None = None
    spending: Mapping[str, Any] = field(default_factory=lambda: gateway_spending(None, None, None, {}))

    @classmethod
    def from_spec(
        cls,
        spec: RunSpec,
        spec_sha256: str,
        within: tuple[str, ...] | None = None,
        ca_pem: str | None = None,
        left: Mapping[str, Left] | None = None,
    ) -> "GatewayPlan":
        """The gateway's part of a `benchsite.run-spec/v1` with its hash; `left` is what other runs left of the
        budgets over runs, which else are whole."""
        limits, endpoint, controls = spec.limits.gateway, spec.endpoint, spec.controls
        budgets = endpoint.budgets
        if left is None:
            left = {scope: Left.of(budgets.of(scope) if budgets is not None else None) for scope in OVER_RUNS}
        return cls(
            image_id=spec.images.gateway,
            cpus=limits.cpus,
            memory_bytes=limits.memory_bytes,
            pids=limits.pids,
            nofile=limits.nofile,
            base_url=endpoint.base_url,
            model=endpoint.model,
            served_models=endpoint.other_names,
            private_addresses=endpoint.private_addresses == "allowed",
            route=endpoint.route,
            trials=readiness_trial(spec),
            max_steps=controls.max_steps,
            max_completion_tokens=controls.max_completion_tokens,
            request_timeout_s=controls.request_timeout_s,
            sampling=controls.sampling.fixed,
            spec_sha256=spec_sha256,
            within=within,
            headers=endpoint.headers,
            ca_pem=ca_pem,
            spending=gateway_spending(endpoint.prices, endpoint.limits, budgets, left),
        )


@dataclass(frozen=True, slots=True)
class RunNetworks:
    """A run's two networks: agents and the gateway on `internal`, the gateway's second leg on `egress`."""

    internal: OwnedNetwork
    egress: OwnedNetwork


@dataclass(frozen=True, slots=True)
class GatewayEnd:
    """How the gateway ended. `problem` is a private detail when it did not end as it should; `died` says when and how
    it had ended before anybody asked it to; `ended` is false when nobody saw it end within its bound, and then the
    ledger may lack its last line."""

    ledger: LedgerReport
    problem: str | None = None
    died: dict[str, Any] | None = None
    ended: bool = True


@dataclass(slots=True)
class RunGateway:
    """A gateway that answers. The run key stays out of every representation."""

    container: OwnedContainer
    networks: RunNetworks
    address: str
    egress_address: str
    ledger: Path
    follower: LogFollower
    run_key: bytes = field(repr=False)
    asked_to_end: bool = False
    transcript: TranscriptFollower | None = None

    @property
    def url(self) -> str:
        """What the agent is told as its base URL."""
        return f"http://{ALIAS}:{PORT}/v1"

    def token(self, trial: int) -> str:
        """The bearer of trial `n` (1-based)."""
        return trial_token(self.run_key, trial)

    def end_traffic(self, api: docker.APIClient) -> None:
        """TERM, before its run ends: it answers nothing more. Raises EngineError."""
        self.asked_to_end = True
        with engine_call("stop gateway"):
            api.kill(self.container.id, signal="SIGTERM")

    def follow_transcript(self, trials: Path) -> None:
        """From now on keep what each trial and the endpoint say to each other, in its folder below `trials`."""
        self.transcript = TranscriptFollower(self.container.id, trials)
        self.transcript.start()

    def close(self, api: docker.APIClient, deadline: Deadline | None = None) -> GatewayEnd:
        """TERM, wait, take the whole log, verify it. Never raises; removal is the cleanup's."""
        deadline = deadline or Deadline()
        died = None if self.asked_to_end else how_it_died(api, self.container.id, deadline)
        if self.transcript is not None and died is None and not self.asked_to_end:
            self.transcript.settle(_SETTLE_SECONDS)  # a run may end before its stream was opened
        problem, ended = _stop(api, self.container.id, deadline, again=self.asked_to_end)
        self.follower.stop(CLOSE_SECONDS)
        if self.transcript is not None:
            self.transcript.stop(_SETTLE_SECONDS)
        return GatewayEnd(keep_ledger(api, self.container.id, self.ledger, deadline), problem, died, ended)


def open_networks(api: docker.APIClient, journal: Journal) -> RunNetworks:
    """The run's internal and egress networks, owned. Raises JournalError, EngineError."""
    internal = create_owned_network(api, journal, internal=True)
    return RunNetworks(internal, create_owned_network(api, journal, internal=False))


def start_gateway(
    api: docker.APIClient,
    journal: Journal,
    networks: RunNetworks,
    plan: GatewayPlan,
    credential: str | None,
    ledger: Path,
) -> RunGateway:
    """Create and start the gateway, tell it its secrets on standard input, and wait until it answers.

    Raises GatewayError, EngineError, JournalError; what was created is in the journal, for the cleanup.
    """
    if credential is not None and not (credential.isascii() and credential.isprintable() and " " not in credential):
        raise GatewayError("credential")
    if plan.route == "direct" and _is_loopback(urlsplit(plan.base_url).hostname or ""):
        raise GatewayError("loopback", plan.base_url)
    owned = create_owned(api, journal, {}, _request(plan, networks))
    connect_owned(api, journal, owned, networks.egress)
    start_owned(api, journal, owned)
    address = address_in(api, owned.id, networks.internal.id)
    run_key = new_run_key()
    config = _config(plan, owned.intent, credential, run_key, address, _connect_host(api, plan, networks))
    follower = LogFollower(owned.id, ledger)
    follower.start()
    try:
        _tell(api, owned.id, config)
        _wait_ready(api, follower)
        egress_address = address_in(api, owned.id, networks.egress.id)
    except BaseException:
        follower.stop(0)
        raise
    return RunGateway(owned, networks, address, egress_address, ledger, follower, run_key)


def how_it_died(api: docker.APIClient, container_id: str, deadline: Deadline | None = None) -> dict[str, Any] | None:
    """The end of a gateway that nobody asked to end: `at` (the engine's time, None when the container itself is gone),
    `exit_code`, `oom_killed`. None while it runs, and when the engine does not say."""
    try:
        with engine_call("inspect gateway", deadline):
            state = api.inspect_container(container_id)["State"]
    except EngineError as error:
        return {"at": None, "exit_code": None, "oom_killed": False} if error.status == 404 else None
    if state["Running"]:
        return None
    return {"at": state["FinishedAt"], "exit_code": state["ExitCode"], "oom_killed": state["OOMKilled"]}


def keep_ledger(
    api: docker.APIClient, container_id: str, ledger: Path, deadline: Deadline | None = None
) -> LedgerReport:
    """Keep the container's whole log instead of the copy that was made while it lived, unless that says more.

    Also for recovery, while the container exists. An engine that does not answer leaves the copy as it is.
    """
    kept = ledger.read_bytes() if ledger.exists() else b""
    try:
        whole = container_log(api, container_id, deadline)
    except EngineError:
        whole = b""
    whole_report, kept_report = read_ledger(whole), read_ledger(kept)
    if (kept_report.intact, kept_report.lines) > (whole_report.intact, whole_report.lines):
        return kept_report
    if whole != kept:
        replace_whole(ledger, whole)
    return whole_report


def _request(plan: GatewayPlan, networks: RunNetworks) -> ContainerRequest:
    lines = plan.trials * plan.max_steps + (plan.trials + 1) * _REFUSAL_LINES_PER_TRIAL
    return ContainerRequest(
        role=Role.GATEWAY,
        image_id=plan.image_id,
        command=COMMAND,
        cpus=plan.cpus,
        memory_bytes=plan.memory_bytes,
        pids=plan.pids,
        nofile=plan.nofile,
        network=networks.internal.id,
        aliases=(ALIAS,),
        dns=(),  # the endpoint's name is resolved as the host does
        user=USER,
        stdin_open=True,
        log_bytes=lines * _LOG_BYTES_PER_LINE,
    )


def _connect_host(api: docker.APIClient, plan: GatewayPlan, networks: RunNetworks) -> str | None:
    """The address that stands in for this host's own names; None when the base URL is used as it is."""
    host = urlsplit(plan.base_url).hostname or ""
    if plan.route != "host-gateway" or not (_is_loopback(host) or host == "host.docker.internal"):
        return None
    with engine_call("inspect network", Deadline()):
        seen = api.inspect_network(networks.egress.id)
    for pool in seen.get("IPAM", {}).get("Config") or []:
        if pool.get("Gateway"):
            return str(pool["Gateway"]).split("/")[0]
    raise GatewayError("network", networks.egress.id)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _config(
    plan: GatewayPlan, intent: Intent, credential: str | None, run_key: bytes, address: str, connect_host: str | None
) -> dict[str, Any]:
    """`intent` is the gateway's own in the journal: its nonce was there before the gateway was."""
    return {
        "schema": CONFIG_SCHEMA,
        "run": {"id": intent.run_id, "spec_sha256": plan.spec_sha256, "nonce": intent.nonce},
        "run_key": run_key.hex(),
        "credential": credential,
        "listen": {"host": address, "port": PORT},
        "endpoint": {
            "base_url": plan.base_url,
            "connect_host": connect_host,
            "model": plan.model,
            "served_models": [*plan.served_models],
            "addresses": _addresses(plan, by_host_gateway=connect_host is not None),
            "headers": dict(plan.headers),
            "ca_pem": plan.ca_pem,
        },
        "limits": {
            "trials": plan.trials,
            "max_steps": plan.max_steps,
            "max_completion_tokens": plan.max_completion_tokens,
            "request_timeout_s": plan.request_timeout_s,
            "sampling": dict(plan.sampling),
        },
        "spending": dict(plan.spending),
        "pass_through": None if plan.pass_through is None else asdict(plan.pass_through),
    }


def _addresses(plan: GatewayPlan, *, by_host_gateway: bool) -> dict[str, Any]:
    """What the gateway may connect to. The route host-gateway leads to one address, which the worker found itself: it
    is private by nature, and the site's list names the route by a word, since the engine chooses the address."""
    within = plan.within
    if within is not None and by_host_gateway and HOST_GATEWAY in within:
        within = None
    networks = None if within is None else [network for network in within if network != HOST_GATEWAY]
    return {"private": plan.private_addresses or by_host_gateway, "within": networks}


def _tell(api: docker.APIClient, container_id: str, config: dict[str, Any]) -> None:
    """Write one line to the container's standard input. docker-py gives the write half only as `_sock`."""
    with engine_call("attach"):
        stream: Any = api.attach_socket(container_id, params={"stdin": 1, "stream": 1})
        try:
            stream._sock.sendall(json.dumps(config).encode("utf-8") + b"\n")
        finally:
            stream._sock.close()
            stream._response.close()


def _wait_ready(api: docker.APIClient, follower: LogFollower) -> None:
    event = follower.first_event(api, READY_SECONDS)
    if event is None:
        raise GatewayError("ended" if follower.ended else "not_ready", follower.events(api))
    if event.get("event") != "ready":
        code = str(event.get("code"))
        raise GatewayError(code if code in _FAILURES else "ended", str(event.get("detail", "")))


def _stop(api: docker.APIClient, container_id: str, deadline: Deadline, *, again: bool) -> tuple[str | None, bool]:
    """What went wrong, and whether its end was seen. `again`: it was told before, and may have ended since."""
    try:
        with suppress(EngineError) if again else nullcontext(), engine_call("stop gateway", deadline):
            api.kill(container_id, signal="SIGTERM")
        with engine_call("wait for gateway", deadline, CLOSE_SECONDS):
            code = api.wait(container_id, timeout=CLOSE_SECONDS)["StatusCode"]
    except EngineError as error:
        return error.detail, False
    return (None if code == 0 else f"the gateway ended with status {code}"), True
