"""A gateway ends as soon as somebody stops its endpoint, whatever waits for it at that moment."""

import logging
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from runs.containers import connect
from runs.engine.network.gateway import RunGateway
from runs.services import endpoint_switch

log = logging.getLogger(__name__)

# Stopped means within a second; the gateway itself takes up to a third of one.
LOOK_EVERY_S = 0.25


@contextmanager
def ended_by_switch(endpoint: str, gateway: RunGateway) -> Iterator[None]:
    """While this lasts, ``gateway`` is ended when the endpoint of this name is stopped: by a thread of its own, since
    a run may be waiting for a probe or an engine. A database that does not answer is asked again."""
    over = threading.Event()

    def watch() -> None:
        try:
            while not _is_stopped(endpoint):
                if over.wait(LOOK_EVERY_S):
                    return
            log.warning("endpoint %s was stopped: its gateway ends", endpoint)
            with closing(connect(settings.DOCKER_TIMEOUT_S)) as api:
                gateway.end_traffic(api)
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
