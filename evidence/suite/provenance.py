"""The provenance of a run's results: the declared values apart from the observed ones."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from evidence.reading.clocks import Interval
from evidence.reading.proofs import Proof, at, mapping
from evidence.suite.document import UNAVAILABLE, declared, without_null
from evidence.suite.run_facts import RunFacts
from evidence.trial.document import timing_document
from evidence.trial.facts import TrialFacts

SCHEMA = "benchsite.provenance/v1"
# What was observed of the worker while it carried the run out, each stated as unavailable when it was not recorded.
OBSERVED = (
    "product",
    "interpreter",
    "harness_tree_sha256",
    "harness_lock_sha256",
    "adapter_sha256",
    "images",
    "image_recipes",
    "engine",
    "kernel",
    "hardware",
    "runtime",
    "topology",
    "limits",
    "network_isolation",
)

# In the list of checks, the number of the run itself.
WHOLE_RUN = 0


def observed_worker(run: RunFacts) -> dict[str, Any]:
    """What the worker recorded of itself when it claimed the run: the product's version, engine, images and limits.

    It is part of the run's own files, so an upgrade of the worker afterwards changes nothing of it.
    """
    worker = mapping(run.document.get("worker"))
    report = mapping(worker.get("report"))
    engine, assets = mapping(report.get("engine")), mapping(report.get("assets"))
    version, name = worker.get("version"), run.spec.worker.name if run.spec else UNAVAILABLE
    route = run.spec.endpoint.route if run.spec else UNAVAILABLE
    return {
        "product": {"name": "benchsite", "version": version} if version else None,
        "engine": engine or None,
        "kernel": engine.get("kernel"),
        "hardware": {name: engine.get(name) for name in ("architecture", "cpus", "memory_bytes")} if engine else None,
        "limits": report.get("limits"),
        "images": assets.get("images"),
        "image_recipes": worker.get("image_recipes"),
        "interpreter": at(worker, "harness", "interpreter"),
        "adapter_sha256": at(worker, "harness", "adapter_sha256"),
        "harness_lock_sha256": at(assets, "harness", "lock_sha256"),
        "harness_tree_sha256": at(assets, "harness", "tree_sha256"),
        "topology": f"1 worker ({name}), 1 trial at a time, endpoint by route {route}",
    }


def provenance_document(run: RunFacts, observed: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that was observed, and beside it everything that was declared.

    `observed` holds the keys of OBSERVED as the worker saw them; `limits` map each limit to its value and the
    mechanism that enforces it. Probe, gateway, ledger and timings come from the run's own files.
    """
    spec = declared(run)
    return {
        "schema": SCHEMA,
        "run_id": without_null(run.run_id),
        "spec_sha256": without_null(run.spec_sha256),
        "declared": {
            name: without_null(spec.get(name))
            for name in (
                "profile",
                "bundle",
                "harness",
                "images",
                "worker",
                "controls",
                "limits",
                "scoring",
                "tasks",
            )
        }
        | {"endpoint": without_null(_endpoint(spec))},
        "observed": {name: without_null(observed.get(name)) for name in OBSERVED}
        | {
            "probe": without_null(run.document.get("probe")),
            "readiness": without_null(run.document.get("readiness")),
            "unscrubbed": run.document.get("unscrubbed") or [],
            "ledger": ledger_document(run),
            "containers": [_containers(trial) for trial in run.trials],
            "timings": {
                "run": timing_document(Interval.of(run.document)),
                "trials": {str(trial.trial): timing_document(trial.total) for trial in run.trials},
            },
            "checks": [*_checks(WHOLE_RUN, run.checks), *_checks_of_trials(run)],
        },
    }


def ledger_document(run: RunFacts) -> dict[str, Any]:
    """The ledger's summary: whether it is whole, and what each trial was answered."""
    fault = run.ledger.fault
    return {
        "whole": fault is None,
        "fault": fault.code if fault else "none",
        "lines": run.ledger.lines,
        "unattributed": dict(run.ledger.unattributed),
        "trials": {
            str(trial.trial): {
                "completions": trial.endpoint.completions,
                "failures": trial.endpoint.failures,
                "refusals": trial.endpoint.refusals,
                "session_mismatches": trial.endpoint.session_mismatches,
            }
            for trial in run.trials
        },
    }


def _checks_of_trials(run: RunFacts) -> Iterator[dict[str, Any]]:
    """Those of each trial, without the run's own, which they begin with."""
    for trial in run.trials:
        yield from _checks(trial.trial, trial.checks[len(run.checks) :])


def _checks(trial: int, checks: Iterable[Proof]) -> Iterator[dict[str, Any]]:
    """Each name once, and held when all of its comparisons were. The kept files are one: an agent chose their names."""
    held: dict[str, bool] = {}
    for check in checks:
        name = "kept.files" if check.name.startswith("kept.") else check.name
        held[name] = held.get(name, True) and check.ok
    return ({"trial": trial, "name": name, "held": ok} for name, ok in held.items())


def _endpoint(spec: dict[str, Any]) -> dict[str, Any]:
    """Without the base URL's path and the credential's name, which are private."""
    kept = (
        "name", "version", "host", "model", "served_model", "served_models", "route", "private_addresses", "scripted",
    )  # fmt: skip
    return {name: value for name, value in spec["endpoint"].items() if name in kept} if spec else {}


def _containers(trial: TrialFacts) -> dict[str, Any]:
    proofs = {proof.name.removeprefix("proof."): proof.ok for proof in trial.proofs}
    return {"trial": trial.trial, "proofs": proofs, "started": trial.started}
