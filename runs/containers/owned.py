"""The making of an owned container or network: intent, create, id, fence, start.

Needs `docker` and `runs.ownership` only, so that the worker and the isolated harness share it.
"""

from dataclasses import dataclass
from typing import Any, TypedDict

from runs.containers.deadline import Deadline
from runs.containers.engine import Engine, EngineError, engine_call
from runs.containers.request import ContainerRequest, check_request, container_body
from runs.ownership import Intent, Journal, Role, Slot

# One create or start, whole: it is made under the journal's lock, and whoever waits for that waits a little longer.
LOCKED_CALL_S = 12.0


class IntentArgs(TypedDict, total=False):
    """What the journal keeps of a container beside its role and image."""

    trial: int
    session_id: str
    trial_uuid: str


@dataclass(frozen=True, slots=True)
class OwnedContainer:
    """A created container. `warnings` are the engine's own, such as a limit that it cannot enforce."""

    id: str
    intent: Intent
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnedNetwork:
    id: str
    name: str
    intent: Intent


def create_owned(api: Engine, journal: Journal, intent_args: IntentArgs, request: ContainerRequest) -> OwnedContainer:
    """Journal the intent, create the container under the lock, and persist its id.

    Raises Fenced and the other JournalErrors, RequestRefused, EngineError. After an EngineError the journal
    holds the intent as unknown or refused, and `reconcile` settles it.
    """
    check_request(request)
    intent = journal.intend(request.role, image_id=request.image_id, **intent_args)
    with journal.creating(intent) as slot:
        answer = _create(
            slot, "create container", lambda: api.create_container_from_config(
                container_body(request, intent), name=_name(intent)
            )
        )  # fmt: skip
    return OwnedContainer(answer["Id"], intent, tuple(answer.get("Warnings") or ()))


def start_owned(api: Engine, journal: Journal, owned: OwnedContainer) -> None:
    """Start a created container under the lock, with the fence checked again. Raises Fenced, EngineError."""
    with journal.starting(owned.intent.nonce), engine_call("start container", _locked_call()):
        api.start(owned.id)


def create_owned_network(api: Engine, journal: Journal, *, internal: bool, subnet: str | None = None) -> OwnedNetwork:
    """Create one owned bridge network. An internal one gives its bridge no host address (harness facts: 20.10
    otherwise lets its containers reach the host). Raises like `create_owned`.
    """
    intent = journal.intend(Role.NETWORK, kind="network")
    options = {"com.docker.network.bridge.inhibit_ipv4": "true"} if internal else {}
    ipam = None if subnet is None else {"Driver": "default", "Config": [{"Subnet": subnet}]}
    with journal.creating(intent) as slot:
        answer = _create(
            slot, "create network", lambda: api.create_network(
                _name(intent), driver="bridge", options=options, ipam=ipam, check_duplicate=True,
                internal=internal, labels=intent.labels, enable_ipv6=False, attachable=False,
            )
        )  # fmt: skip
    return OwnedNetwork(answer["Id"], _name(intent), intent)


def connect_owned(api: Engine, journal: Journal, owned: OwnedContainer, network: OwnedNetwork) -> None:
    """Give a created container a second leg in another owned network. Raises Fenced, EngineError."""
    journal.check_open()
    with engine_call("connect network"):
        api.connect_container_to_network(owned.id, network.id)


def address_in(api: Engine, container_id: str, network_id: str) -> str:
    """The IPv4 address of a running container in a network; EngineError `engine_absent` when it has none."""
    with engine_call("inspect container", Deadline()):
        seen = api.inspect_container(container_id)
    for leg in (seen.get("NetworkSettings", {}).get("Networks") or {}).values():
        if leg.get("NetworkID") == network_id and leg.get("IPAddress"):
            return str(leg["IPAddress"])
    raise EngineError("engine_absent", "The container has no address in its network.", container_id)


def _create(slot: Slot, what: str, call: Any) -> dict[str, Any]:
    try:
        with engine_call(what, _locked_call()):
            answer: dict[str, Any] = call()
    except EngineError as error:
        if error.nothing_was_done:
            slot.refuse(error.detail)
        raise
    slot.persist(answer["Id"])
    return answer


def _locked_call() -> Deadline:
    return Deadline(LOCKED_CALL_S, LOCKED_CALL_S)


def _name(intent: Intent) -> str:
    # The engine refuses a second container of this name, so one intent never makes two.
    return f"benchsite-{intent.nonce}"
