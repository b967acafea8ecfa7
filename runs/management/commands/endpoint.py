"""Registers, retires, stops, lists and shows endpoints, and tests the connection to one from a worker."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib import words
from benchsite.lib.canonical import stored_object
from benchsite.lib.database import retry_database
from benchsite.lib.problems import DocumentError
from benchsite.lib.serializing import Exit
from runs.documents.spending import Left
from runs.management.command import SiteCommand
from runs.management.files import read_document
from runs.management.run_text import print_checks
from runs.management.waiting import heartbeat
from runs.models import ConnectionOutcome, Endpoint, EndpointTest, Run
from runs.serializers.workers import (
    endpoint_document,
    endpoint_fields,
    endpoint_registration_document,
    endpoint_retirement_document,
    endpoint_switch_document,
    endpoint_test_document,
    endpoints_document,
)
from runs.services import access, endpoint_switch, endpoint_testing, endpoint_usage, registry
from runs.services.refusals import BadInput
from runs.web.presenting import specs
from runs.web.presenting.check_rows import connection_outcome

_POLL_S = 0.5
_NAME_ONE = "Name the endpoint; manage.py endpoint list shows them."
_EXITS = {
    ConnectionOutcome.READY: Exit.DONE,
    ConnectionOutcome.NOT_READY: Exit.FAILED,
    ConnectionOutcome.UNPROVED: Exit.ERROR,
    ConnectionOutcome.NOT_MADE: Exit.ERROR,
}


def _lines(endpoint: Endpoint, left: Mapping[str, Left]) -> list[tuple[str, Any]]:
    """What is known of an endpoint, a line each; what it does not have is left out."""
    fields = endpoint_fields(endpoint)
    said = specs.spending(fields, left)
    prices = fields.pop("prices")
    fields["served_models"] = ", ".join(fields["served_models"]) or "none"
    if prices is not None:
        kinds = {"input": "input", "cached_input": "cached input", "output": "output"}
        amounts = [f"{prices[name]} {word}" for name, word in kinds.items() if prices[name]]
        fields["prices"] = f"{', '.join(amounts)} {prices['currency']} a million tokens, as of {prices['date']}"
    del fields["limits"], fields["budgets"]
    if said["pace"]:
        fields["limits"] = ", ".join(said["pace"])
    for whose, amount, rest in said["budgets"]:
        fields[f"budget, {whose}"] = f"{amount}, {rest}" if rest else amount
    return list(fields.items())


class Command(SiteCommand):
    help = (
        "List endpoints, show one, register the record in a file as the next version of its name, retire one, stop "
        "all traffic of one or allow it again, or let a worker test the connection to one. Lists every problem of a "
        "file. Exit of test --wait: 0 ready, 1 not ready, 4 when that could not be found out."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        actions = ["list", "show", "test", "register", "retire", "stop", "allow"]
        parser.add_argument("action", choices=actions, metavar="|".join(actions), help="what to do")
        parser.add_argument(
            "name", nargs="?", metavar="NAME|FILE", help="name of the endpoint; for register the record's JSON file"
        )
        parser.add_argument(
            "--worker",
            default=settings.WORKER_NAME,
            metavar="NAME",
            help="the worker that makes the test (%(default)s)",
        )
        parser.add_argument("--wait", action="store_true", help="wait until the worker has made the test")
        parser.add_argument("--reason", default="", metavar="TEXT", help="why it is stopped, in one line")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.VIEW)
        if options["action"] == "list":
            return self._list()
        if options["name"] is None:
            wanted = "Name the record's file." if options["action"] == "register" else _NAME_ONE
            raise BadInput(wanted, code="input.no_target")
        if options["action"] == "register":
            return self._register(user, Path(options["name"]))
        if options["action"] in ("stop", "allow"):
            return self._switch(user, options["action"], options["name"], options["reason"])
        endpoint = registry.find_endpoint(options["name"])
        if options["action"] == "show":
            return self._show(endpoint)
        if options["action"] == "retire":
            return self._retire(user, endpoint)
        worker = registry.find_worker(options["worker"])
        test, _ = endpoint_testing.request_test(user=user, endpoint=endpoint, worker=worker)
        test.refresh_from_db()  # without a queue it has ended already
        return self._report(self._wait(test) if options["wait"] else test)

    def _list(self) -> Exit:
        rows = list(Endpoint.objects.filter(active=True).order_by("name"))
        if not rows and self.output.on_terminal:
            self.output.line("There is no endpoint yet. Register one with manage.py endpoint register FILE.")
        elif rows:
            headings = ("name", "version", "model", "address", "route")
            self.output.table(headings, [(e.name, e.version, e.model, e.base_url, e.route) for e in rows])
        self.output.json(endpoints_document(rows))
        return Exit.DONE

    def _register(self, user: User, file: Path) -> Exit:
        access.require(user, access.REGISTER_ENDPOINT)
        in_use = set(Endpoint.objects.filter(active=True).values_list("pk", flat=True))
        try:
            endpoint = registry.register_endpoint(read_document(file), user=user)
        except DocumentError as error:
            self.output.problems(file, error.problems)
            self.output.json(endpoint_registration_document(None, error.problems))
            return Exit.BAD_INPUT
        new = endpoint.pk not in in_use
        self.output.line(f"{endpoint}: {'registered' if new else 'was registered so already'}")
        self.output.line(f"record SHA-256  {endpoint.record_sha256}")
        self.output.json(endpoint_registration_document(endpoint, new=new))
        return Exit.DONE

    def _retire(self, user: User, endpoint: Endpoint) -> Exit:
        access.require(user, access.REGISTER_ENDPOINT)
        retired = registry.retire_endpoint(endpoint, user=user)
        self.output.line(f"{endpoint}: {'retired' if retired else 'was retired meanwhile'}; past runs keep its records")
        self.output.json(endpoint_retirement_document(endpoint, retired=retired))
        return Exit.DONE

    def _switch(self, user: User, act: str, name: str, reason: str) -> Exit:
        name = registry.endpoint_name(name)
        ended: list[Run] = []
        if act == "stop":
            ended = endpoint_switch.stop(user=user, name=name, reason=reason)
            self.output.line(f"{name}: all traffic stopped, {words.counted(len(ended), 'run')} asked to end")
        elif endpoint_switch.allow(user=user, name=name):
            self.output.line(f"{name}: allowed again; runs that were ended stay ended")
        else:
            self.output.line(f"{name}: was not stopped")
        self.output.json(endpoint_switch_document(name, endpoint_switch.stopped(name), ended))
        return Exit.DONE

    def _show(self, endpoint: Endpoint) -> Exit:
        left = endpoint_usage.of_record(endpoint.name, stored_object(endpoint.record))
        self.output.table(("field", "value"), _lines(endpoint, left))
        tests = endpoint_testing.last_tests(endpoint)
        for test in tests:
            self._print(test)
        self.output.json(endpoint_document(endpoint, left, tests))
        return Exit.DONE

    def _wait(self, test: EndpointTest) -> EndpointTest:
        with heartbeat(self.output, f"waiting for worker {test.worker.name} to test {test.endpoint.name}"):
            while test.live:
                time.sleep(_POLL_S)
                test = retry_database(EndpointTest.objects.select_related("endpoint", "worker").filter(pk=test.pk).get)
        return test

    def _report(self, test: EndpointTest) -> Exit:
        self._print(test)
        self.output.json(endpoint_test_document(test))
        if test.live:
            return Exit.DONE
        return _EXITS[ConnectionOutcome(test.outcome)] if test.done else Exit.ERROR

    def _print(self, test: EndpointTest) -> None:
        found = connection_outcome(test)
        why = f" ({found.why})" if found.why else ""
        self.output.line(f"{test.endpoint} from {test.worker.name}: {found.word.lower()}{why}")
        print_checks(self.output, test.checks)
