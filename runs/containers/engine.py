"""How is the engine asked, and what does its answer mean? Bounded calls and typed failures (design 4)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import docker
import requests
import urllib3
from docker.utils import kwargs_from_env

CALL_TIMEOUT_S = 5


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


class EngineError(Exception):
    """A call to the engine that did not succeed: stable `code`, person's `sentence`, private `detail`.

    `status` is the engine's HTTP status, or None when there was no answer.
    """

    def __init__(self, code: str, sentence: str, detail: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.detail = detail
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


def connect(timeout_s: int = CALL_TIMEOUT_S) -> docker.APIClient:
    """A client of the engine named by the environment, with `timeout_s` seconds for every call."""
    with engine_call("connect"):
        return docker.APIClient(version="auto", timeout=timeout_s, **kwargs_from_env())


@contextmanager
def engine_call(what: str) -> Iterator[None]:
    """Turn whatever a call of the engine's client raises into an EngineError that names `what`."""
    try:
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
