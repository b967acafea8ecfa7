"""A gateway ends as soon as somebody stops its endpoint, whatever waits for it at that moment."""

import logging
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from runs.containers import EngineError, connect
from runs.engine.network.gateway import RunGateway
from runs.services import endpoint_switch

log = logging.getLogger(__name__)

# Stopped means within a second; the gateway itself takes up to a third of one.
LOOK_EVERY_S = 0.25


@contextmanager
def ended_by_switch(endpoint: str, gateway: RunGateway) -> Iterator[None]:
    """While this lasts, ``gateway`` is ended when the endpoint of this name is stopped: by a thread of its own, since
    a run may be waiting for a probe or an engine. Database and engine are asked again when they do not answer."""
    over = threading.Event()

    def watch() -> None:
        try:
            while not (_is_stopped(endpoint) and _has_no_traffic(gateway)):
                if over.wait(LOOK_EVERY_S):
                    return
            log.warning("endpoint %s was stopped: its gateway ends", endpoint)
        finally:
            connection.close()

    thread = threading.Thread(target=watch, name="endpoint-switch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _is_stopped(endpoint: str) -> bool:
    try:
        return endpoint_switch.stopped(endpoint) is not None
    except (DatabaseError, InterfaceError):
        connection.close()
        return False


def _has_no_traffic(gateway: RunGateway) -> bool:
    """End it; False when the engine did not do so."""
    try:
        with closing(connect(settings.DOCKER_TIMEOUT_S)) as api:
            gateway.end_traffic(api)
    except EngineError as error:
        log.warning("a gateway of a stopped endpoint was not ended: %s", error.code)
        return error.status in (404, 409)  # gone, or not running any more
    return True
