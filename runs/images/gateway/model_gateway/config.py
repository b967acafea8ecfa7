"""What the gateway is told: one JSON line on standard input, read once and kept in memory only."""

import ipaddress
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from . import strict_json
from .addresses import AddressRules, Network
from .apis import APIS

CONFIG_SCHEMA = "benchsite.gateway-config/v4"
MAX_CONFIG_BYTES = 512 * 1024  # a file of certificate authorities is most of it
MAX_HEADERS = 16
MAX_NAMES = 16
MAX_NETWORKS = 256
MAX_CAPS = 4
_MOST = 10**24

_KEY = re.compile(r"[0-9a-f]{64}")
_NONCE = re.compile(r"[0-9a-f]{32}")
_VISIBLE_ASCII = re.compile(r"[\x21-\x7e]+")
_HEADER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,498}[\x21-\x7e])?")
# What the gateway says itself, and what would change how a request is framed or believed.
_OWN_HEADERS = re.compile(
    r"authorization|host|user-agent|accept(-.*)?|connection|content-.*|transfer-encoding|te|trailer|upgrade|expect|cookie"
    r"|x-api-key|proxy-.*",
    re.IGNORECASE,
)


class ConfigError(Exception):
    """The line on standard input is not a configuration. The message never quotes it: it holds secrets."""


@dataclass(frozen=True)
class Endpoint:
    """Where requests go. `connect_host` is an address instead of the URL's host only for the declared host route;
    `addresses` says which ones a connection may go to, `headers` what is sent besides the gateway's own. `ca_pem` are
    the authorities by which alone TLS is verified; None for those of certifi's list."""

    scheme: str
    host: str
    port: int
    path: str
    authority: str
    connect_host: str
    model: str
    accepted_models: frozenset[str]
    addresses: AddressRules
    headers: "tuple[tuple[str, str], ...]"
    ca_pem: str | None


@dataclass(frozen=True)
class Limits:
    """Caps of the spec: trials of the run, model requests per trial, tokens and seconds per request.

    `sampling` maps a control to the one value that each request must have; what is not in it is left to the agent.
    """

    trials: int
    max_steps: int
    max_completion_tokens: int
    request_timeout_s: float
    sampling: Mapping[str, int | float]


@dataclass(frozen=True)
class PassThrough:
    """The APIs that are passed through and the models that may be asked for, of runs that are no environment runs; a
    trial's token expires that long after its first request."""

    apis: frozenset[str]
    models: tuple[str, ...]
    trial_timeout_s: float


@dataclass(frozen=True)
class Cap:
    """What may be used up at most: by each trial, or (run, day, total) by all that this gateway lets through. Money is
    whole pico-units; None has no bound."""

    scope: str
    tokens: int | None
    money: int | None


@dataclass(frozen=True)
class Spending:
    """Budgets, and the pace. `prices` are pico-units for a token of input, of cached input and of output, 0 without
    prices."""

    prices: tuple[int, int, int] = (0, 0, 0)
    caps: tuple[Cap, ...] = ()
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent_requests: int | None = None

    @property
    def paced(self) -> bool:
        """Whether a request may have to wait for its turn."""
        return (self.requests_per_minute, self.tokens_per_minute, self.concurrent_requests) != (None, None, None)


@dataclass(frozen=True)
class Run:
    """Whose gateway this is: the run (or what else owns it, then without a spec), and the nonce that only this gateway
    has in its owner's journal. Nothing of it is a secret."""

    run_id: str
    spec_sha256: str | None
    nonce: str


@dataclass(frozen=True)
class Config:
    """Everything the gateway was told; its `repr` shows neither the credential nor the run key."""

    run: Run
    listen_host: str
    listen_port: int
    endpoint: Endpoint
    limits: Limits
    spending: Spending
    pass_through: PassThrough | None
    run_key: bytes
    credential: str | None

    def __repr__(self) -> str:
        return f"Config({self.listen_host}:{self.listen_port} -> {self.endpoint.authority})"


def parse_config(line: bytes) -> Config:
    """Read the configuration line. Raises ConfigError, which names the field and never its value."""
    try:
        data = strict_json.load(line, size=MAX_CONFIG_BYTES)
    except strict_json.JsonProblem as problem:
        sentence = "is too long" if problem.code == "size" else "is not JSON"
        raise ConfigError(f"the configuration {sentence}") from None
    keys = {"schema", "run", "run_key", "credential", "listen", "endpoint", "limits", "spending", "pass_through"}
    document = _object(data, "configuration", keys)
    if document["schema"] != CONFIG_SCHEMA:
        raise ConfigError("unknown configuration schema")
    listen = _object(document["listen"], "listen", {"host", "port"})
    return Config(
        run=_run(document["run"]),
        listen_host=_address(listen["host"]),
        listen_port=_integer(listen["port"], "listen.port", 65_535, least=0),
        endpoint=_endpoint(document["endpoint"]),
        limits=_limits(document["limits"]),
        spending=_spending(document["spending"]),
        pass_through=_pass_through(document["pass_through"]),
        run_key=bytes.fromhex(_hex(_KEY, document["run_key"], "run_key")),
        credential=_credential(document["credential"]),
    )


def _object(value: Any, name: str, keys: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != keys:
        raise ConfigError(f"{name} must be an object with exactly the keys {', '.join(sorted(keys))}")
    return value


_ENDPOINT_KEYS = {"base_url", "connect_host", "model", "served_models", "addresses", "headers", "ca_pem"}


def _endpoint(value: Any) -> Endpoint:
    data = _object(value, "endpoint", _ENDPOINT_KEYS)
    try:
        url = urlsplit(_text(data["base_url"], "endpoint.base_url"))
        port = url.port
    except ValueError:
        raise ConfigError("endpoint.base_url is not a URL") from None
    if url.scheme not in {"http", "https"} or not url.hostname or url.username or url.password:
        raise ConfigError("endpoint.base_url must be http or https, with a host and without user info")
    if url.query or url.fragment or "?" in str(data["base_url"]) or "#" in str(data["base_url"]):
        raise ConfigError("endpoint.base_url must have no query and no fragment")
    model = _text(data["model"], "endpoint.model")
    served = data["served_models"]
    if not isinstance(served, list) or len(served) > MAX_NAMES:
        raise ConfigError(f"endpoint.served_models must be a list of at most {MAX_NAMES} names")
    connect_host = data["connect_host"]
    return Endpoint(
        scheme=url.scheme,
        host=url.hostname,
        port=port or (443 if url.scheme == "https" else 80),
        path=url.path.rstrip("/"),
        authority=url.netloc,
        connect_host=url.hostname if connect_host is None else _address(connect_host),
        model=model,
        accepted_models=frozenset([model, *(_text(name, "endpoint.served_models") for name in served)]),
        addresses=_addresses(data["addresses"]),
        headers=_headers(data["headers"]),
        ca_pem=_ca_pem(data["ca_pem"], url.scheme),
    )


def _headers(value: Any) -> "tuple[tuple[str, str], ...]":
    if not isinstance(value, dict) or len(value) > MAX_HEADERS:
        raise ConfigError(f"endpoint.headers must be an object of at most {MAX_HEADERS} headers")
    for name, text in value.items():
        if not _HEADER_NAME.fullmatch(name) or _OWN_HEADERS.fullmatch(name):
            raise ConfigError("endpoint.headers holds a name that may not be sent")
        if not isinstance(text, str) or not _HEADER_VALUE.fullmatch(text):
            raise ConfigError("endpoint.headers holds a value that is not visible ASCII")
    return tuple(value.items())


def _ca_pem(value: Any, scheme: str) -> "str | None":
    if value is None:
        return None
    if scheme != "https" or not isinstance(value, str):
        raise ConfigError("endpoint.ca_pem must be null, or the certificates of an https endpoint as PEM")
    try:
        ssl.create_default_context(cadata=value)
    except ssl.SSLError:
        raise ConfigError("endpoint.ca_pem holds what is no certificate") from None
    return value


def _addresses(value: Any) -> AddressRules:
    data = _object(value, "endpoint.addresses", {"private", "within"})
    if not isinstance(data["private"], bool):
        raise ConfigError("endpoint.addresses.private must be true or false")
    within = data["within"]
    if within is None:
        return AddressRules(data["private"])
    if not isinstance(within, list) or len(within) > MAX_NETWORKS:
        raise ConfigError(f"endpoint.addresses.within must be null or a list of at most {MAX_NETWORKS} networks")
    return AddressRules(data["private"], tuple(_network(network) for network in within))


def _network(value: Any) -> Network:
    try:
        return ipaddress.ip_network(value if isinstance(value, str) else "")
    except ValueError:
        raise ConfigError("endpoint.addresses.within holds what is no network") from None


def _limits(value: Any) -> Limits:
    data = _object(value, "limits", {"trials", "max_steps", "max_completion_tokens", "request_timeout_s", "sampling"})
    return Limits(
        trials=_integer(data["trials"], "limits.trials", 64),
        max_steps=_integer(data["max_steps"], "limits.max_steps", 1_000),
        max_completion_tokens=_integer(data["max_completion_tokens"], "limits.max_completion_tokens", 1_000_000),
        request_timeout_s=_seconds(data["request_timeout_s"], "limits.request_timeout_s", 3600),
        sampling=_sampling(data["sampling"]),
    )


def _spending(value: Any) -> Spending:
    pace = ("requests_per_minute", "tokens_per_minute", "concurrent_requests")
    data = _object(value, "spending", {"prices", "caps", *pace})
    prices, caps = data["prices"], data["caps"]
    if not isinstance(prices, list) or len(prices) != 3:
        raise ConfigError("spending.prices must be a list of three integers")
    if not isinstance(caps, list) or len(caps) > MAX_CAPS:
        raise ConfigError(f"spending.caps must be a list of at most {MAX_CAPS} budgets")
    fresh, cached, said = (_integer(price, "spending.prices", _MOST, least=0) for price in prices)
    return Spending(
        prices=(fresh, cached, said),
        caps=tuple(_cap(cap) for cap in caps),
        **{name: _optional(data[name], f"spending.{name}") for name in pace},
    )


def _cap(value: Any) -> Cap:
    data = _object(value, "spending.caps", {"scope", "tokens", "money"})
    if data["scope"] not in ("trial", "run", "day", "total"):
        raise ConfigError("spending.caps.scope must be trial, run, day or total")
    tokens, money = (_optional(data[name], f"spending.caps.{name}", least=0) for name in ("tokens", "money"))
    return Cap(data["scope"], tokens, money)


def _optional(value: Any, name: str, least: int = 1) -> int | None:
    return None if value is None else _integer(value, name, _MOST, least=least)


def _pass_through(value: Any) -> PassThrough | None:
    """None for the one strict API of environment runs."""
    if value is None:
        return None
    data = _object(value, "pass_through", {"apis", "models", "trial_timeout_s"})
    apis, models = (_names(data[name], f"pass_through.{name}") for name in ("apis", "models"))
    if not {*apis} <= {*APIS, "models"}:
        raise ConfigError(f"pass_through.apis must be of {', '.join(sorted([*APIS, 'models']))}")
    timeout = _seconds(data["trial_timeout_s"], "pass_through.trial_timeout_s", 86_400)
    return PassThrough(frozenset(apis), models, timeout)


def _names(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= MAX_NAMES:
        raise ConfigError(f"{name} must be a list of 1 to {MAX_NAMES} names")
    return tuple(_text(one, name) for one in value)


def _seconds(value: Any, name: str, most: int) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
        raise ConfigError(f"{name} must be a number of seconds up to {most}")
    return float(value)


def _sampling(value: Any) -> dict[str, int | float]:
    if not isinstance(value, dict) or not set(value) <= {"temperature", "top_p", "seed"}:
        raise ConfigError("limits.sampling must be an object of temperature, top_p and seed")
    for name, most in (("temperature", 2), ("top_p", 1)):
        if name in value and (type(value[name]) not in (int, float) or not 0 <= value[name] <= most):
            raise ConfigError(f"limits.sampling.{name} must be a number from 0 to {most}")
    if "seed" in value:
        _integer(value["seed"], "limits.sampling.seed", 2**63 - 1, least=0)
    return value


def _run(value: Any) -> Run:
    data = _object(value, "run", {"id", "spec_sha256", "nonce"})
    spec = data["spec_sha256"]
    return Run(
        run_id=_text(data["id"], "run.id"),
        spec_sha256=None if spec is None else _hex(_KEY, spec, "run.spec_sha256"),
        nonce=_hex(_NONCE, data["nonce"], "run.nonce"),
    )


def _hex(pattern: re.Pattern[str], value: Any, name: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ConfigError(f"{name} does not have its form of hexadecimal digits")
    return value


def _credential(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _VISIBLE_ASCII.fullmatch(value):
        raise ConfigError("credential must be visible ASCII without spaces, or null")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not _VISIBLE_ASCII.fullmatch(value):
        raise ConfigError(f"{name} must be visible ASCII without spaces")
    return value


def _address(value: Any) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise ConfigError("an address in the configuration is not an IP address") from None


def _integer(value: Any, name: str, most: int, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"{name} must be an integer from {least} to {most}")
    return value
