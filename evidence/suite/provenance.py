"""Where does a result come from? Builds the provenance document: declared values apart from observed ones."""

from collections.abc import Mapping
from typing import Any

from evidence.reading.clocks import Interval
from evidence.reading.proofs import at, mapping
from evidence.suite.document import without_null
from evidence.suite.run_facts import RunFacts
from evidence.trial.document import timing_document
from evidence.trial.facts import TrialFacts

SCHEMA = "benchsite.provenance/v1"
# What the engine reports about the worker and the run while it lasts, each stated as unavailable when
# missing.
OBSERVED = (
    "interpreter",
    "harness_tree_sha256",
    "harness_lock_sha256",
    "adapter_sha256",
    "images",
    "engine",
    "kernel",
    "hardware",
    "runtime",
    "topology",
    "limits",
    "network_isolation",
)


def provenance_document(run: RunFacts, observed: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that was observed, and beside it everything that was declared.

    `observed` holds the keys of OBSERVED as the worker saw them; `limits` map each limit to its value and the
    mechanism that enforces it. Probe, gateway, ledger and timings come from the run's own files.
    """
    spec = run.spec
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
            "ledger": ledger_document(run),
            "containers": [_containers(trial) for trial in run.trials],
            "timings": {
                "run": timing_document(
                    Interval(_text(run.document.get("started_at")), _text(run.document.get("ended_at")))
                ),
                "trials": {str(trial.trial): timing_document(trial.total) for trial in run.trials},
            },
            "checks": [{"name": check.name, "held": check.ok} for trial in run.trials[:1] for check in trial.checks],
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


def _endpoint(spec: dict[str, Any]) -> dict[str, Any]:
    """Without the base URL's path and the credential's name, which are private."""
    kept = ("name", "version", "host", "model", "served_model", "route", "scripted")
    return {name: at(spec, "endpoint", name) for name in kept} if mapping(spec.get("endpoint")) else {}


def _containers(trial: TrialFacts) -> dict[str, Any]:
    proofs = {proof.name.removeprefix("proof."): proof.ok for proof in trial.proofs}
    return {"trial": trial.trial, "proofs": proofs, "started": trial.started}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
