"""A worker's test of the connection to an endpoint: a gateway of its own asks the question of a run.

Networks, gateway and probe stand in the worker's maintenance journal, as everything that belongs to no run does, and
are gone when the test is over.
"""

import logging
from contextlib import closing
from functools import partial

from django.conf import settings

from runs.containers import EngineError, connect
from runs.documents.endpoints import EndpointRecord
from runs.documents.profile.v2 import MAX_COMPLETION_TOKENS
from runs.engine.assets import AssetError, Assets, load_assets, verify_images
from runs.engine.host.ca_files import CaFileError, ca_file_checks, read_ca_file
from runs.engine.host.credentials import CredentialError, evidence_checks, read_credential
from runs.engine.host.maintenance import maintenance
from runs.engine.network.endpoint_readiness import Readiness, check_readiness
from runs.engine.network.gateway import GatewayError, GatewayPlan, open_networks, start_gateway
from runs.engine.network.switched import ended_by_switch
from runs.models import EndpointTest
from runs.ownership import JournalError
from runs.ownership.scratch import scratch
from runs.services import endpoint_switch, endpoint_testing, registry

log = logging.getLogger(__name__)

_TRIAL = 1  # the only number that this gateway knows; there is no run
_CPUS, _MEMORY, _PIDS, _NOFILE = 1.0, 128 * 1024 * 1024, 32, 256


def make_test(test_id: str) -> None:
    """Make the test ``test_id`` if it waits for this worker; exit quietly otherwise. Its row keeps every failure."""
    test = endpoint_testing.claim(test_id, worker=settings.WORKER_NAME)
    if test is None:
        return
    if _stopped(test):
        return
    try:
        found = _check(test)
    except (EngineError, JournalError, GatewayError, AssetError, CredentialError, CaFileError) as error:
        log.warning("the connection test of %s was not made: %s", test.endpoint, error.detail or error.code)
        endpoint_testing.not_made(test.pk, error.code, error.sentence)
    except Exception as error:  # the row must say so: a page waits for it
        log.exception("the connection test of %s failed unexpectedly", test.endpoint)
        sentence = f"The test failed unexpectedly ({type(error).__name__}); the worker's log says more."
        endpoint_testing.not_made(test.pk, "endpoint_test.unexpected", sentence)
    else:
        if _stopped(test):
            return
        record = registry.endpoint_version(test.endpoint).record
        checks = [
            *found.checks,
            *ca_file_checks(record.ca_file),
            *evidence_checks(record.credential, test.endpoint.record),
        ]
        endpoint_testing.finish(test, checks, seconds=found.seconds)


def _stopped(test: EndpointTest) -> bool:
    """Whether the endpoint was stopped since the test was asked for; then its row says so."""
    stop = endpoint_switch.stopped(test.endpoint.name)
    if stop is not None:
        endpoint_testing.not_made(test.pk, endpoint_testing.STOPPED, endpoint_testing.stopped_sentence(stop))
    return stop is not None


def _check(test: EndpointTest) -> Readiness:
    record = registry.endpoint_version(test.endpoint).record
    credential = read_credential(record.credential)
    assets = load_assets(settings.ASSETS)
    directory = settings.DATA / "maintenance" / settings.WORKER_NAME
    reach = partial(connect, settings.DOCKER_TIMEOUT_S)
    with (
        closing(reach()) as api,
        maintenance(directory, settings.WORKER_NAME, reach) as journal,
        scratch(settings.DATA, "connection") as place,
    ):
        for problem in verify_images(api, assets.images):
            raise AssetError(problem.code, problem.sentence, problem.detail)
        plan = _plan(record, assets)
        networks = open_networks(api, journal)
        gateway = start_gateway(api, journal, networks, plan, credential, place / "ledger.jsonl")
        try:
            with ended_by_switch(test.endpoint.name, gateway):
                return check_readiness(
                    api,
                    journal,
                    gateway,
                    assets.images.verifier.id,
                    model=record.model,
                    max_tokens=plan.max_completion_tokens,
                    sampling=plan.sampling,
                    trial=_TRIAL,
                    has_credential=credential is not None,
                )
        finally:
            gateway.close(api)


def _plan(record: EndpointRecord, assets: Assets) -> GatewayPlan:
    """One question, in the form in which a run of the widest profile asks it. Raises CaFileError."""
    ca = read_ca_file(record.ca_file)
    return GatewayPlan(
        image_id=assets.images.gateway.id,
        cpus=_CPUS,
        memory_bytes=_MEMORY,
        pids=_PIDS,
        nofile=_NOFILE,
        base_url=record.base_url,
        model=record.model,
        served_models=tuple(record.served_models),
        private_addresses=record.private_addresses == "allowed",
        route=record.route,
        trials=_TRIAL,
        max_steps=1,
        max_completion_tokens=MAX_COMPLETION_TOKENS,
        request_timeout_s=record.request_timeout_s,
        within=settings.GATEWAY_ADDRESSES,
        headers=record.headers,
        ca_pem=None if ca is None else ca.pem,
    )
