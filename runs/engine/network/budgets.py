"""The budgets of a run's endpoint while the run is carried out: what is left before each step, and what it used."""

import docker

from runs.documents.ledger import read_ledger
from runs.documents.run_spec import RunSpec
from runs.documents.spending import Left
from runs.engine.network.gateway import RunGateway
from runs.engine.network.gateway_log import container_log
from runs.services import endpoint_usage


def left_for_gateway(spec: RunSpec) -> dict[str, Left]:
    """What other runs left of the budgets over runs."""
    endpoint = spec.endpoint
    return endpoint_usage.left(endpoint.name, endpoint.budgets, endpoint.prices)


def reached_before_trial(api: docker.APIClient, gateway: RunGateway, spec: RunSpec, run_key: str) -> str | None:
    """The budget that keeps the next trial from starting, by the gateway's log and by what other runs used meanwhile;
    None while there is none. Raises EngineError."""
    endpoint = spec.endpoint
    if endpoint.budgets is None:
        return None
    report = read_ledger(container_log(api, gateway.container.id))
    endpoint_usage.record(run_key, endpoint.name, report, endpoint.prices)
    own = Left.of(endpoint.budgets.run, *endpoint_usage.used(report, endpoint.prices))
    return endpoint_usage.reached({"run": own} | left_for_gateway(spec))
