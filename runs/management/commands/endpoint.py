"""Lists and shows endpoints, and tests the connection to one from a worker."""

import time
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.database_retry import patiently
from runs.management.heartbeat import heartbeat
from runs.management.output import Exit, SiteCommand
from runs.models import ConnectionOutcome, Endpoint, EndpointTest
from runs.services import access, endpoint_testing, registry
from runs.services.refusals import BadInput
from runs.web.presenting.connections import connection_row

_LIST, _SHOW, _TEST = "benchsite.endpoints/v1", "benchsite.endpoint-record/v1", "benchsite.endpoint-test/v1"
_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"
_POLL_S = 0.5
_EXITS = {
    ConnectionOutcome.READY: Exit.DONE,
    ConnectionOutcome.NOT_READY: Exit.FAILED,
    ConnectionOutcome.UNPROVED: Exit.ERROR,
    ConnectionOutcome.NOT_MADE: Exit.ERROR,
}


class Command(SiteCommand):
    help = (
        "List endpoints, show one, or test the connection to one from a worker. With test --wait: exit 0 when it is "
        "ready, 1 when it is not, 4 when that could not be found out."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["list", "show", "test"], help="what to do")
        parser.add_argument("name", nargs="?", help="name of the endpoint; for show and test")
        parser.add_argument("--worker", default=settings.WORKER_NAME, help="the worker that tests (%(default)s)")
        parser.add_argument("--wait", action="store_true", help="wait until the worker has made the test")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.VIEW)
        if options["action"] == "list":
            return self._list()
        if options["name"] is None:
            raise BadInput("Name the endpoint; manage.py endpoint list shows them.", code="input.no_target")
        endpoint = registry.find_endpoint(options["name"])
        if options["action"] == "show":
            return self._show(endpoint)
        worker = registry.find_worker(options["worker"])
        test, _ = endpoint_testing.request_test(user=user, endpoint=endpoint, worker=worker)
        test.refresh_from_db()  # without a queue it has ended already
        return self._told(self._ended(test) if options["wait"] else test)

    def _list(self) -> Exit:
        rows = list(Endpoint.objects.filter(active=True).defer("record").order_by("name"))
        if not rows and self.output.on_terminal:
            self.output.line("There is no endpoint yet. Register one in the admin.")
        elif rows:
            headings = ("name", "version", "model", "address", "route")
            self.output.table(headings, [(e.name, e.version, e.model, e.base_url, e.route) for e in rows])
        self.output.json(_LIST, {"endpoints": [_endpoint_json(endpoint) for endpoint in rows]})
        return Exit.DONE

    def _show(self, endpoint: Endpoint) -> Exit:
        self.output.table(("field", "value"), list(_endpoint_json(endpoint).items()))
        tests = endpoint_testing.last_tests(endpoint)
        for test in tests:
            self._lines(test)
        document = {**_endpoint_json(endpoint), "tests": [_test_json(test) for test in tests]}
        self.output.json(_SHOW, document)
        return Exit.DONE

    def _ended(self, test: EndpointTest) -> EndpointTest:
        with heartbeat(self.output, f"waiting for worker {test.worker.name} to test {test.endpoint.name}"):
            while test.live:
                time.sleep(_POLL_S)
                test = patiently(EndpointTest.objects.select_related("endpoint", "worker").filter(pk=test.pk).get)
        return test

    def _told(self, test: EndpointTest) -> Exit:
        self._lines(test)
        self.output.json(_TEST, _test_json(test))
        if test.live:
            return Exit.DONE
        return _EXITS[ConnectionOutcome(test.outcome)] if test.done else Exit.ERROR

    def _lines(self, test: EndpointTest) -> None:
        row = connection_row(test)
        self.output.line(f"{test.endpoint} from {row.worker}: {row.word.lower()}{f' ({row.why})' if row.why else ''}")
        cells = [("held" if one["passed"] else one["code"], one["name"], _found(one)) for one in test.checks]
        if cells:
            self.output.table(("result", "check", "found"), cells)


def _found(check: dict[str, Any]) -> str:
    return f"{check['detail']} {check['remedy']}".strip()


def _endpoint_json(endpoint: Endpoint) -> dict[str, Any]:
    """What everybody may see: the address and the names, not the credential's place."""
    names = ("name", "version", "model", "served_model", "base_url", "route", "scripted", "active", "record_sha256")
    return {name: getattr(endpoint, name) for name in names}


def _test_json(test: EndpointTest) -> dict[str, Any]:
    return {
        "test": test.pk.hex,
        "endpoint": test.endpoint.name,
        "version": test.endpoint.version,
        "worker": test.worker.name,
        "state": test.state,
        "outcome": test.outcome or None,
        "checks": test.checks,
        "seconds": test.seconds,
        "failure": {"code": test.failure_code, "sentence": test.failure} if test.failure_code else None,
        "requested_by": test.requested_by_name,
        "requested_at": test.requested_at.strftime(_TIME),
        "ended_at": None if test.ended_at is None else test.ended_at.strftime(_TIME),
    }
