"""An engine with a virtual clock and scripted faults, behind the calls that `runs.containers` makes.

It stands in for unit tests of rules only; what a real engine does is tested against one.
"""

import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import docker.errors
import requests


class Fault(StrEnum):
    NONE = "none"
    ERROR = "500, nothing done"
    ERROR_DONE = "500, but done"
    SILENT = "timeout, nothing done"
    SILENT_DONE = "timeout, but done"
    SILENT_LATE = "timeout, done later"
    REFUSED = "connection refused"
    CONFLICT = "409, done later"
    LIES = "said yes, nothing done"


DONE_NOW = (Fault.NONE, Fault.ERROR_DONE, Fault.SILENT_DONE)
DONE_LATER = (Fault.SILENT_LATE, Fault.CONFLICT)


def api_error(status: int, text: str) -> docker.errors.APIError:
    response = requests.Response()
    response.status_code = status
    return docker.errors.APIError(text, response=response, explanation=text)


def new_id() -> str:
    return secrets.token_hex(32)


@dataclass
class FakeEngine:
    """`resources` maps an id to what inspect answers; `removed` and `started` are what truly happened."""

    now: float = 0.0
    id: str = "the engine"
    late_s: float = 1.0
    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    later: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    faults: dict[str, deque[Fault]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)

    def script(self, call: str, *faults: Fault) -> None:
        self.faults.setdefault(call, deque()).extend(faults)

    def heal(self) -> None:
        self.faults.clear()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        due = [item for item in self.later if item[0] <= self.now]
        self.later = [item for item in self.later if item[0] > self.now]
        for _, act in due:
            act()

    def place(self, kind: str, labels: dict[str, str], name: str = "", resource_id: str | None = None) -> str:
        """Put a resource there without anyone having asked; used for strangers and late creates."""
        resource_id = resource_id or new_id()
        found: dict[str, Any] = {
            "Id": resource_id,
            "Name": name,
            "Kind": kind,
            "Labels": labels,
            "Containers": {},
        }
        found["Config"] = {"Labels": labels}
        self.resources[resource_id] = found
        return resource_id

    def create_container_from_config(self, config: dict[str, Any], name: str | None = None) -> dict[str, Any]:
        return self._create("container", config["Labels"], name or "")

    def create_network(
        self,
        name: str,
        driver: str = "bridge",
        options: dict[str, Any] | None = None,
        ipam: Any = None,
        check_duplicate: bool = False,
        internal: bool = False,
        labels: dict[str, Any] | None = None,
        enable_ipv6: bool = False,
        attachable: bool | None = None,
    ) -> dict[str, Any]:
        assert not enable_ipv6 and not attachable
        return self._create("network", labels or {}, name)

    def start(self, container: str) -> None:
        self._do("start", container, lambda: self.started.append(container))

    def info(self) -> dict[str, Any]:
        return {"ID": self.id, "DockerRootDir": "/var/lib/docker"}

    def containers(self, *, all: bool = False, filters: dict[str, Any]) -> list[dict[str, Any]]:
        assert all, "a query of ownership sees containers in every state"
        return self._list("container", filters)

    def networks(self, *, filters: dict[str, Any]) -> list[dict[str, Any]]:
        return self._list("network", filters)

    def inspect_container(self, container: str) -> dict[str, Any]:
        return self._inspect("container", container)

    def inspect_network(self, net_id: str) -> dict[str, Any]:
        return self._inspect("network", net_id)

    def remove_container(self, container: str, *, v: bool = False, force: bool = False) -> None:
        assert v and force
        self._remove("container", container)

    def remove_network(self, net_id: str) -> None:
        if self.resources.get(net_id, {}).get("Containers"):
            raise api_error(403, "network has active endpoints")
        self._remove("network", net_id)

    def connect_container_to_network(self, container: str, net_id: str) -> None:
        self._do("connect", net_id, lambda: None)

    def _create(self, kind: str, labels: dict[str, str], name: str) -> dict[str, Any]:
        resource_id = new_id()
        self._do("create", labels["benchsite.nonce"], lambda: self.place(kind, labels, name, resource_id))
        return {"Id": resource_id, "Warnings": None}

    def _list(self, kind: str, filters: dict[str, Any]) -> list[dict[str, Any]]:
        wanted = dict(item.split("=", 1) for item in filters["label"])
        assert len(wanted) == 4 and all(wanted.values()), "an incomplete label tuple reached the engine"
        self._do("list", kind, lambda: None)
        return [
            {"Id": found["Id"], "Labels": found["Labels"]}
            for found in self.resources.values()
            if found["Kind"] == kind and wanted.items() <= found["Labels"].items()
        ]

    def _inspect(self, kind: str, resource_id: str) -> dict[str, Any]:
        self._do("inspect", resource_id, lambda: None)
        if self.resources.get(resource_id, {}).get("Kind") != kind:
            raise api_error(404, f"No such {kind}: {resource_id}")
        return self.resources[resource_id]

    def _remove(self, kind: str, resource_id: str) -> None:
        if self.resources.get(resource_id, {}).get("Kind") != kind:
            self.calls.append(("remove", resource_id))
            raise api_error(404, f"No such {kind}: {resource_id}")
        self._do("remove", resource_id, lambda: self._drop(resource_id))

    def _drop(self, resource_id: str) -> None:
        if self.resources.pop(resource_id, None) is not None:
            self.removed.append(resource_id)

    def _do(self, call: str, what: str, act: Callable[[], object]) -> None:
        self.calls.append((call, what))
        queue = self.faults.get(call)
        fault = queue.popleft() if queue else Fault.NONE
        if fault in DONE_NOW:
            act()
        elif fault in DONE_LATER:
            self.later.append((self.now + self.late_s, lambda: (act(), None)[1]))
        match fault:
            case Fault.ERROR | Fault.ERROR_DONE:
                raise api_error(500, "server error")
            case Fault.SILENT | Fault.SILENT_DONE | Fault.SILENT_LATE:
                self.sleep(5.0)
                raise requests.exceptions.ReadTimeout("timed out")
            case Fault.REFUSED:
                raise requests.exceptions.ConnectionError("connection refused")
            case Fault.CONFLICT:
                raise api_error(409, "removal is already in progress")
