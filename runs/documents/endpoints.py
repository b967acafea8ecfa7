"""Endpoint records: what an administrator registers, and where its credential is held; validated closed.

A record of v1 stays what it was: it may lead to private addresses, as it could when it was registered.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field

from benchsite.lib.canonical import Json, JsonObject, as_object, canonical_sha256, load_object, walk
from benchsite.lib.closed import Closed, Identifier, form, validate
from benchsite.lib.problems import DocumentError, Location, Problem, path_of, refuse
from runs.documents.endpoint_urls import DIRECT, MAX_URL, host_of, literal_address, url_problems
from runs.documents.spending import Budgets, Prices, RateLimits, spending_problems
from runs.images.gateway.model_gateway.addresses import kind_of

SCHEMA_V1 = "benchsite.endpoint/v1"
SCHEMA = "benchsite.endpoint/v2"
MAX_SERVED_MODELS = 16
MAX_HEADERS = 16
DEFAULT_REQUEST_TIMEOUT_S = 120
_ALIAS = r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$"
_VARIABLE = r"^[A-Z][A-Z0-9_]{0,127}$"
_FILE = r"^(/\.?[A-Za-z0-9_-][A-Za-z0-9._-]*)+$"  # a hidden folder is fine, a step up is not
# The site's own settings and what steers a process are no credentials of an endpoint.
_OWN_VARIABLES = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "PATH", "HOME", "PYTHONPATH", "LD_PRELOAD")
_OWN_PREFIXES = ("DJANGO_", "BENCHSITE_", "PG")
_ALLOWED_OWN = ("BENCHSITE_ENDPOINT_", "BENCHSITE_SCRIPTED_")

Alias = Annotated[str, form(_ALIAS, "a model's name: letters, digits and . _ : / @ + -, such as org/model-7b")]
Control = Literal["max_tokens", "temperature", "top_p", "seed"]
# Records of v1 could declare one more, which nothing ever fixed; they stay what they were.
ControlV1 = Literal[Control, "reasoning_effort"]
PrivateAddresses = Literal["allowed", "refused"]
AbsoluteFile = Annotated[str, form(_FILE, "an absolute path, such as /etc/benchsite/model-ca.pem", max_length=255)]
HeaderName = Annotated[str, form(r"^[A-Za-z][A-Za-z0-9-]{0,63}$", "a header's name: letters, digits and dashes")]
HeaderValue = Annotated[
    str, form(r"^[!-~]([ -~]{0,498}[!-~])?$", "1 to 500 visible ASCII characters, with blanks only between them")
]
Headers = Annotated[dict[HeaderName, HeaderValue], Field(max_length=MAX_HEADERS)]
# Those that the gateway says itself, that frame a request or a connection, or that carry who asks.
_OWN_HEADERS = re.compile(
    r"authorization|host|user-agent|accept(-.*)?|content-.*|connection|keep-alive|transfer-encoding|te|trailers?|upgrade"
    r"|expect|http2-settings|date|range|if-.*|via|forwarded|x-forwarded-.*|x-real-ip|proxy-.*|cookie2?|set-cookie2?"
    r"|x-session-id",
    re.IGNORECASE,
)
_SECRET_WORDS = {
    "key", "keys", "apikey", "token", "tokens", "secret", "secrets", "auth", "authorization", "authentication",
    "password", "passwd", "credential", "credentials", "cookie", "session", "signature", "jwt", "bearer",
}  # fmt: skip
_LONG_WORD = re.compile(r"(?=[^ ]*[0-9])(?=[^ ]*[A-Za-z])[A-Za-z0-9_+/=.~-]{40,}")


class EnvCredential(Closed):
    """The worker's environment variable of that name."""

    kind: Literal["env"]
    name: Annotated[str, form(_VARIABLE, "the name of a variable in capitals, such as LOCAL_MODEL_KEY")]


class FileCredential(Closed):
    """The file on the worker, by absolute path."""

    kind: Literal["file"]
    name: Annotated[str, form(_FILE, "an absolute path, such as /etc/benchsite/model-key", max_length=255)]


class NoCredential(Closed):
    """The endpoint asks for none."""

    kind: Literal["none"]
    name: None = None


Credential = Annotated[EnvCredential | FileCredential | NoCredential, Field(discriminator="kind")]


class _Record(Closed):
    """What every version has. `controls` are those that the endpoint is known to obey."""

    name: Identifier
    base_url: Annotated[str, Field(min_length=1, max_length=MAX_URL)]
    model: Alias
    route: Literal["direct", "host-gateway"]
    credential: Credential
    controls: Annotated[list[ControlV1], Field(max_length=8)]
    request_timeout_s: Annotated[int, Field(ge=1, le=600)] = DEFAULT_REQUEST_TIMEOUT_S
    scripted: bool = False


class EndpointRecordV1(_Record):
    """`served_model` is the other name it answers with."""

    schema_: Annotated[Literal["benchsite.endpoint/v1"], Field(alias="schema")]
    served_model: Alias | None = None

    @property
    def served_models(self) -> list[str]:
        return [] if self.served_model is None else [self.served_model]

    @property
    def private_addresses(self) -> PrivateAddresses:
        return "allowed"

    @property
    def ca_file(self) -> str | None:
        return None

    @property
    def headers(self) -> dict[str, str]:
        return {}

    @property
    def prices(self) -> Prices | None:
        return None

    @property
    def limits(self) -> RateLimits | None:
        return None

    @property
    def budgets(self) -> Budgets | None:
        return None


class EndpointRecordV2(_Record):
    """`served_models` are the other names it answers with; `private_addresses` says whether its name may lead to a
    private, loopback, unique-local or shared address; `ca_file` is a file on the worker with the authorities by which
    alone its certificate is verified; `headers` are sent with each request and are no secrets. `prices`, `limits` and
    `budgets` are held by the gateway of each run."""

    schema_: Annotated[Literal["benchsite.endpoint/v2"], Field(alias="schema")]
    controls: Annotated[list[Control], Field(max_length=4)]  # type: ignore[assignment]
    served_models: Annotated[list[Alias], Field(max_length=MAX_SERVED_MODELS)] = []
    private_addresses: PrivateAddresses = "refused"
    ca_file: AbsoluteFile | None = None
    headers: Headers = {}
    prices: Prices | None = None
    limits: RateLimits | None = None
    budgets: Budgets | None = None


type EndpointRecord = EndpointRecordV1 | EndpointRecordV2


@dataclass(frozen=True, slots=True)
class LoadedEndpoint:
    """A valid record. `document` is its full form, with every default written out."""

    record: EndpointRecord
    document: JsonObject
    record_sha256: str

    @property
    def host(self) -> str:
        """Host, and port if one is written."""
        return host_of(self.record.base_url)


def load_endpoint(data: bytes) -> LoadedEndpoint:
    """The record in a file's bytes; raises DocumentError with every problem."""
    return parse_endpoint(load_object(data))


def parse_endpoint(document: JsonObject) -> LoadedEndpoint:
    """The record in a document, as a form makes it; raises DocumentError with every problem."""
    models: dict[Json, type[EndpointRecordV1] | type[EndpointRecordV2]] = {
        SCHEMA_V1: EndpointRecordV1,
        SCHEMA: EndpointRecordV2,
    }
    schema = document.get("schema")
    model = models.get(schema) if isinstance(schema, str) else None
    if model is None:
        sentence = f"this is no endpoint record; its schema is neither {SCHEMA} nor {SCHEMA_V1}"
        raise refuse("unknown_schema", sentence, "schema")
    record, problems = validate(model, document, prefix="bad_endpoint", relocate=without_credential_tag)
    problems += [*_url_problems(document), *_credential_problems(document), *_repeated(document, "controls")]
    if schema == SCHEMA:
        problems += [*_name_problems(document), *_address_problems(document)]
        problems += [*_ca_problems(document), *_header_problems(document), *spending_problems(document)]
    if problems or record is None:
        raise DocumentError(problems)
    full = record.model_dump(mode="json", by_alias=True)
    return LoadedEndpoint(record, full, canonical_sha256(full))


def without_credential_tag(location: Location) -> Location:
    """Without the union's tag, which stands behind the field."""
    return ("credential", *location[2:]) if location[:1] == ("credential",) and len(location) > 2 else location


def _url_problems(document: JsonObject) -> Iterator[Problem]:
    url, route = document.get("base_url"), document.get("route")
    if isinstance(url, str) and url:
        yield from url_problems(url, route if isinstance(route, str) else "")


def _credential_problems(document: JsonObject) -> Iterator[Problem]:
    url_free = {key: value for key, value in document.items() if key != "base_url"}
    yield from credential_problems(url_free)
    credential = as_object(document.get("credential"))
    if credential.get("kind") == "env" and is_own_variable(credential.get("name")):
        sentence = "the variable belongs to this site or to the system, and is no endpoint's credential"
        yield Problem("credential.name", "endpoint.reserved_variable", sentence)


def is_own_variable(name: Json) -> bool:
    """Whether an environment variable belongs to the site or the system, and is no endpoint's credential."""
    if not isinstance(name, str) or name.startswith(_ALLOWED_OWN):
        return False
    return name in _OWN_VARIABLES or name.startswith(_OWN_PREFIXES)


def _repeated(document: JsonObject, field: str) -> Iterator[Problem]:
    values = document.get(field)
    for index, value in enumerate(values if isinstance(values, list) else []):
        if isinstance(values, list) and value in values[:index]:
            yield Problem(f"{field}[{index}]", "bad_endpoint.repeated", "it stands here twice")


def _name_problems(document: JsonObject) -> Iterator[Problem]:
    yield from _repeated(document, "served_models")
    names, model = document.get("served_models"), document.get("model")
    for index, name in enumerate(names if isinstance(names, list) else []):
        if isinstance(name, str) and name == model:
            sentence = "it is the model's alias, which counts anyway; name only others"
            yield Problem(f"served_models[{index}]", "bad_endpoint.repeated", sentence)


def _address_problems(document: JsonObject) -> Iterator[Problem]:
    """What can be said of an address that stands in the URL; a name's addresses are judged at each connection."""
    url, route = document.get("base_url"), document.get("route")
    private = document.get("private_addresses", "refused")
    if route != DIRECT:
        if private == "allowed":
            sentence = "the route host-gateway leads to the worker's host alone, so this has no effect; leave it out"
            yield Problem("private_addresses", "endpoint.private_without_direct", sentence)
        return
    if not isinstance(url, str) or [*url_problems(url, DIRECT)]:
        return
    address = literal_address(urlsplit(url).hostname or "")
    kind = "public" if address is None else kind_of(address)
    if kind == "never":
        sentence = "the address is one of a cloud's metadata, or reserved, which is no endpoint"
        yield Problem("base_url", "endpoint.bad_host", sentence)
    elif kind == "private" and private == "refused":
        sentence = 'the base URL names a private address; if that is meant, say "private_addresses": "allowed"'
        yield Problem("private_addresses", "endpoint.private_address", sentence)


def _ca_problems(document: JsonObject) -> Iterator[Problem]:
    url = document.get("base_url")
    if document.get("ca_file") is not None and isinstance(url, str) and url.lower().startswith("http:"):
        sentence = "a certificate authority has no effect on an http URL; leave it out, or use https"
        yield Problem("ca_file", "endpoint.ca_without_tls", sentence)


def _header_problems(document: JsonObject) -> Iterator[Problem]:
    headers = document.get("headers")
    seen: set[str] = set()
    for name, value in (headers if isinstance(headers, dict) else {}).items():
        path = path_of(("headers", name))
        if _KEYS.fullmatch(name):
            pass  # told as a credential in a document
        elif _OWN_HEADERS.fullmatch(name):
            sentence = "this header is the gateway's own, or belongs to the connection; leave it out"
            yield Problem(path, "endpoint.own_header", sentence)
        elif _SECRET_WORDS & set(name.lower().split("-")):
            sentence = (
                "a header of this name carries a secret; the credential stands in a file or variable of the worker"
            )
            yield Problem(path, "endpoint.secret_header", sentence)
        elif isinstance(value, str) and _LONG_WORD.search(value):
            sentence = "the value looks like a credential, which may stand in a file or variable of the worker alone"
            yield Problem(path, "endpoint.secret_header", sentence)
        if name.lower() in seen:
            yield Problem(path, "bad_endpoint.repeated", "a header of this name stands here already")
        seen.add(name.lower())


_SHAPES = re.compile(
    r"""
    \bsk-[A-Za-z0-9_-]{8,}                                    # OpenAI and look-alikes
    | \b(ghp|gho|ghs|github_pat|glpat|hf|xox[abprs])[_-][A-Za-z0-9_-]{16,}
    | \b(AKIA|ASIA)[A-Z0-9]{16}\b | \bAIza[A-Za-z0-9_-]{30,}
    | \beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}             # JSON web tokens
    | (?i:\bbearer\s+[A-Za-z0-9._~+/=-]{8,}) | (?i:\bbasic\s+(?=\S*[0-9=])[A-Za-z0-9+/=]{8,})
    | -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY-----
    | ://[^/?\#\s]*@                                          # user information in a URL
    """,
    re.VERBOSE,
)
_KEYS = re.compile(
    r"(x-)?(api[_-]?key|apikey|authorization|cookie|passw(or)?d|secret|(access|auth|bearer)?[_-]?token|private[_-]?key)",
    re.IGNORECASE,
)


def looks_like_credential(text: str) -> bool:
    """Whether a text has the shape of a credential, or of a URL with user information."""
    return _SHAPES.search(text) is not None


def credential_problems(document: Json) -> Iterator[Problem]:
    """A problem for each text that is shaped like a credential or stands under a key that names one."""
    for location, value in walk(document):
        if not isinstance(value, str) or not value:
            continue
        key = location[-1] if location else ""
        if looks_like_credential(value) or (isinstance(key, str) and _KEYS.fullmatch(key)):
            sentence = "a credential may stand in a file or an environment variable, never in a document"
            yield Problem(path_of(location), "credential_in_plaintext", sentence)
