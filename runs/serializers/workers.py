"""Documents about a worker and what it talks to: report, prepared assets, endpoints and their tests."""

from collections.abc import Iterable, Mapping
from typing import Any

from benchsite.lib.canonical import stored_object
from benchsite.lib.problems import Problem
from benchsite.lib.serializing import Document, serializes, timestamp
from runs.documents.spending import Left, left_document
from runs.models import Endpoint, EndpointStop, EndpointTest, Run, Worker
from runs.services.workers import report_of


@serializes("benchsite.worker/v1")
def worker_document(worker: Worker) -> Document:
    """A worker's stored capability report."""
    return {"worker": worker.name, "capability_sha256": worker.capability_sha256, "report": report_of(worker)}


@serializes("benchsite.prepare/v1")
def prepare_document(harness: Mapping[str, Any], images: Mapping[str, Any]) -> Document:
    """The harness lock, and each role's locked image."""
    return {"harness": harness, "images": images}


@serializes("benchsite.endpoints/v2")
def endpoints_document(endpoints: Iterable[Endpoint]) -> Document:
    """Registered endpoints."""
    return {"endpoints": [endpoint_fields(endpoint) for endpoint in endpoints]}


@serializes("benchsite.endpoint-record/v2")
def endpoint_document(endpoint: Endpoint, left: Mapping[str, Left], tests: Iterable[EndpointTest]) -> Document:
    """One endpoint with what is left of its budgets over runs, and its last connection tests."""
    return {
        **endpoint_fields(endpoint),
        "budgets_left": left_document(left),
        "tests": [_test(test) for test in tests],
    }


@serializes("benchsite.endpoint-test/v1")
def endpoint_test_document(test: EndpointTest) -> Document:
    """One connection test, which may not have been made yet."""
    return _test(test)


@serializes("benchsite.endpoint-registration/v1")
def endpoint_registration_document(
    endpoint: Endpoint | None, problems: Iterable[Problem] = (), *, new: bool = False
) -> Document:
    """The version that a record's file became or was already, or None and every problem of a file that was refused."""
    found: Document = {"valid": endpoint is not None, "problems": [problem.as_json() for problem in problems]}
    if endpoint is None:
        return found
    return {**found, **_version(endpoint), "new": new}


@serializes("benchsite.endpoint-retirement/v1")
def endpoint_retirement_document(endpoint: Endpoint, *, retired: bool) -> Document:
    """The version that was in use; `retired` is false when it was taken out of use meanwhile."""
    return {**_version(endpoint), "retired": retired}


@serializes("benchsite.endpoint-switch/v1")
def endpoint_switch_document(name: str, stop: EndpointStop | None, ended: Iterable[Run]) -> Document:
    """Whether the endpoint's traffic is stopped now, by whom and why, and the runs that this act asked to end."""
    said = stop and {"by": stop.stopped_by_name, "at": timestamp(stop.stopped_at), "reason": stop.reason}
    return {"name": name, "stopped": said, "runs": [run.key for run in ended]}


def _version(endpoint: Endpoint) -> Document:
    return {"name": endpoint.name, "version": endpoint.version, "record_sha256": endpoint.record_sha256}


@serializes("benchsite.scripted-endpoint/v1")
def scripted_endpoint_document(base_url: str, models: list[str]) -> Document:
    """Where the scripted endpoint answers, and for which model aliases."""
    return {"base_url": base_url, "models": models, "scripted": True}


def endpoint_fields(endpoint: Endpoint) -> Document:
    """What everybody may see: the address, the names and what is spent, not the places of credential and CA file."""
    names = ("name", "version", "model", "served_models", "base_url", "route")
    record = stored_object(endpoint.record)
    return {
        **{name: getattr(endpoint, name) for name in names},
        "private_addresses": record.get("private_addresses", "allowed"),
        **{name: getattr(endpoint, name) for name in ("scripted", "active", "record_sha256")},
        **{name: record.get(name) for name in ("prices", "limits", "budgets")},
    }


def _test(test: EndpointTest) -> Document:
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
        "requested_at": timestamp(test.requested_at),
        "ended_at": timestamp(test.ended_at),
    }
