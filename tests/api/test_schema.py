"""Whatever follows the OpenAPI document, and whatever breaks it, is answered as that says: driven from it alone."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode, openapi
from schemathesis.specs.openapi.checks import positive_data_acceptance

from benchsite.wsgi import application
from runs.models import Run
from tests.api.conftest import Callers
from tests.pages.factories import Site

SCHEMA = "/api/v1/openapi.json"


@pytest.fixture
def kept_connection() -> Iterator[None]:
    """Of the transaction that the test runs in: a real server closes its connection after each request."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.mark.usefixtures("kept_connection")
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_operation_answers_as_its_schema_says(site: Site, call: Callers, mode: GenerationMode) -> None:
    headers = {"Authorization": f"Bearer {call('admin', 'read', 'publish', 'run').text}"}
    schema = openapi.from_wsgi(SCHEMA, application, headers=headers)
    known = {"run": [run.key for run in Run.objects.all()]}
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 5
    for operation in operations:
        _drive(operation, mode, headers, known)


def _drive(operation: Any, mode: GenerationMode, headers: dict[str, str], known: dict[str, list[str]]) -> None:
    named = [name for name in known if "{" + name + "}" in operation.path]

    @settings(max_examples=8, database=None, derandomize=True, suppress_health_check=list(HealthCheck), deadline=None)
    @given(case=operation.as_strategy(generation_mode=mode), real=st.booleans(), data=st.data())
    def one(case: Any, real: bool, data: st.DataObject) -> None:
        if real and named:
            case.path_parameters = {name: data.draw(st.sampled_from(known[name])) for name in named}
        # A name that follows the schema and that nobody registered is refused.
        case.call_and_validate(headers=headers, excluded_checks=[positive_data_acceptance])

    one()
