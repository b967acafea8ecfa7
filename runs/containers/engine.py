"""The connection to the container engine: which one, bounded calls, and typed failures."""

import hashlib
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import docker
import requests
import urllib3
from docker.transport.unixconn import UnixHTTPAdapter, UnixHTTPConnection, UnixHTTPConnectionPool

from benchsite.lib.problems import CodedError
from runs.containers.deadline import BoundedSocket, Deadline

CALL_TIMEOUT_S = 5
DEFAULT_SOCKET = "unix:///var/run/docker.sock"


class Engine(Protocol):
    """The calls of docker.APIClient that owned containers and networks need; tests inject a fake."""

    def create_container_from_config(self, config: dict[str, Any], name: str | None = ...) -> dict[str, Any]: ...
    def start(self, container: str) -> None: ...
    def containers(self, *, all: bool = ..., filters: dict[str, Any]) -> list[dict[str, Any]]: ...
    def inspect_container(self, container: str) -> dict[str, Any]: ...
    def remove_container(self, container: str, *, v: bool = ..., force: bool = ...) -> None: ...
    def create_network(
        self,
        name: str,
        driver: str = ...,
        options: dict[str, Any] | None = ...,
        ipam: Any = ...,
        check_duplicate: bool = ...,
        internal: bool = ...,
        labels: dict[str, Any] | None = ...,
        enable_ipv6: bool = ...,
        attachable: bool | None = ...,
    ) -> Any: ...
    def networks(self, *, filters: dict[str, Any]) -> list[dict[str, Any]]: ...
    def inspect_network(self, net_id: str) -> dict[str, Any]: ...
    def remove_network(self, net_id: str) -> None: ...
    def connect_container_to_network(self, container: str, net_id: str) -> None: ...


class EngineError(CodedError):
    """A call to the engine that did not succeed. `status` is its HTTP status, or None when there was no answer."""

    def __init__(self, code: str, sentence: str, detail: str, status: int | None = None) -> None:
        super().__init__(code, sentence, detail)
        self.status = status

    @property
    def nothing_was_done(self) -> bool:
        """Only a rejected request proves that; a conflict, a server error or silence proves nothing."""
        return self.status in (400, 404)


_SENTENCES = {
    "engine_timeout": "The container engine did not answer in time. Check its load and try again.",
    "engine_unreachable": "The container engine cannot be reached. Check that it runs on this worker.",
    "engine_absent": "The container engine does not know what it was asked for.",
    "engine_conflict": "The container engine is busy with this resource. Try again in a moment.",
    "engine_refused": "The container engine refused the request.",
    "engine_failed": "The container engine failed. Its own log on the worker says why.",
}
_CODES = {404: "engine_absent", 409: "engine_conflict"}


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Which engine is used: its `unix://` address, and in words why that one. `named` is false for the usual socket."""

    url: str
    named: bool
    reason: str


def engine_address() -> EngineAddress:
    """The engine of DOCKER_HOST, else of the active docker context, else at the usual socket, as docker's own command
    chooses. Raises EngineError `engine_not_local` for one that is not on a Unix socket of this host: its containers
    could not be reached from here, and `engine_context` for a context that cannot be read.
    """
    host = os.environ.get("DOCKER_HOST", "")
    if host:
        return EngineAddress(_local(host, "DOCKER_HOST"), True, "DOCKER_HOST names it")
    name = _active_context()
    if name == "default":
        reason = "DOCKER_HOST is not set, and the active docker context is default"
        return EngineAddress(DEFAULT_SOCKET, False, reason)
    place = f"the active docker context {name}"
    return EngineAddress(_local(_context_host(name), place), True, f"DOCKER_HOST is not set, and {place} names it")


def _local(url: str, source: str) -> str:
    scheme, separator, path = url.partition("://")
    if scheme == "unix" and path.startswith("/"):
        return url
    kind = f"by {scheme}" if separator else "in another way"
    raise EngineError(
        "engine_not_local",
        f"The container engine must be reached by a Unix socket of this host, and {source} names one {kind}. "
        "Set DOCKER_HOST to unix:///… of an engine on this host.",
        f"{source}: {scheme}",
    )


def _docker_configuration() -> Path:
    return Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")


def _active_context() -> str:
    """The name of docker's active context; `default` when none was chosen."""
    name: object = os.environ.get("DOCKER_CONTEXT")
    if not name:
        try:
            path = _docker_configuration() / "config.json"
            name = json.loads(path.read_bytes()).get("currentContext")
        except (FileNotFoundError, NotADirectoryError, RuntimeError):  # the last: an account without a home
            return "default"
        except (OSError, ValueError, AttributeError) as error:
            sentence = "Docker's configuration cannot be read, so the active context is not known. Set DOCKER_HOST."
            raise EngineError("engine_context", sentence, f"{type(error).__name__}: {error}") from error
    return name if isinstance(name, str) and name else "default"


def _context_host(name: str) -> str:
    folder = hashlib.sha256(name.encode()).hexdigest()
    try:
        path = _docker_configuration() / "contexts" / "meta" / folder / "meta.json"
        return str(json.loads(path.read_bytes())["Endpoints"]["docker"]["Host"])
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        sentence = f"The active docker context {name} cannot be read. Choose another one, or set DOCKER_HOST."
        raise EngineError("engine_context", sentence, f"{type(error).__name__}: {error}") from error


class _Connection(UnixHTTPConnection):
    def connect(self) -> None:
        made = BoundedSocket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(self.timeout)
            made.connect(self.unix_socket)
        except BaseException:
            made.close()
            raise
        self.sock = made


class _Pool(UnixHTTPConnectionPool):
    def _new_conn(self) -> Any:
        timeout: Any = self.timeout
        return _Connection(self.base_url, self.socket_path, timeout)


class _Adapter(UnixHTTPAdapter):
    def get_connection(self, url: Any, proxies: Any = None) -> _Pool:
        with self.pools.lock:
            pool: _Pool | None = self.pools.get(url)
            if pool is None:
                pool = self.pools[url] = _Pool(url, self.socket_path, self.timeout, maxsize=self.max_pool_size)
        return pool


class _Client(docker.APIClient):
    """The engine's client on sockets that keep to a `Deadline`."""

    def mount(self, prefix: Any, adapter: Any) -> None:
        if isinstance(adapter, UnixHTTPAdapter):
            adapter = _Adapter(adapter.socket_path, adapter.timeout, max_pool_size=adapter.max_pool_size)
        super().mount(prefix, adapter)


def connect(timeout_s: int = CALL_TIMEOUT_S, deadline: Deadline | None = None) -> docker.APIClient:
    """A client of the engine that `engine_address` names. No operation on its socket takes longer than `timeout_s`
    seconds; a call made with a `Deadline` keeps to that as a whole. Raises EngineError.
    """
    address = engine_address()
    try:
        with engine_call("connect", deadline):
            return _Client(base_url=address.url, version="auto", timeout=timeout_s)
    except EngineError as error:
        if error.code != "engine_unreachable":
            raise
        path = address.url.removeprefix("unix://")
        sentence = f"The container engine cannot be reached at {path}: {address.reason}. Check that it runs there."
        raise EngineError(error.code, sentence, error.detail) from error


@contextmanager
def engine_call(what: str, deadline: Deadline | None = None, call_s: float | None = None) -> Iterator[None]:
    """Turn whatever a call of the engine's client raises into an EngineError that names `what`.

    With a `deadline`, one of its calls, of `call_s` seconds instead of its own if given.
    """
    try:
        with nullcontext() if deadline is None else deadline.call(call_s):
            yield
    except docker.errors.APIError as error:
        raise _answered(what, error) from error
    except (TimeoutError, requests.exceptions.Timeout, urllib3.exceptions.TimeoutError) as error:
        raise _failure("engine_timeout", what, error) from error
    except (
        docker.errors.DockerException,
        requests.exceptions.RequestException,
        urllib3.exceptions.HTTPError,
        OSError,
    ) as error:
        timed_out = "timed out" in str(error).lower()
        raise _failure("engine_timeout" if timed_out else "engine_unreachable", what, error) from error


def _answered(what: str, error: docker.errors.APIError) -> EngineError:
    status = error.status_code
    if status is None:
        return _failure("engine_failed", what, error)
    code = _CODES.get(status, "engine_refused" if status < 500 else "engine_failed")
    return EngineError(code, _SENTENCES[code], f"{what}: {status} {error.explanation or ''}", status)


def _failure(code: str, what: str, error: Exception) -> EngineError:
    return EngineError(code, _SENTENCES[code], f"{what}: {type(error).__name__}: {error}")
