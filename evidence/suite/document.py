"""The suite result of a run: builds `anvil-serving.environment-suite-run/v1`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from evidence.reading.clocks import Interval
from evidence.suite.run_facts import RunFacts
from evidence.suite.verdict import SuiteVerdict
from evidence.trial.document import timing_document

SCHEMA = "anvil-serving.environment-suite-run/v1"
UNAVAILABLE = "unavailable"
PROMOTION = (
    "This result does not authorize any promotion: "
    "a scripted smoke run proves that the adapter works, and never says anything about a model."
)


def suite_document(
    run: RunFacts,
    verdict: SuiteVerdict,
    trials: Sequence[Mapping[str, Any]],
    *,
    cleanup: Mapping[str, Any],
    provenance_sha256: str,
    observed: Mapping[str, Any] | None = None,
    evidence_root: str = "",
) -> dict[str, Any]:
    """The suite result as canonical JSON's value. Public: private ids and details are not part of it.

    `trials` are the documents of `evidence.trial.document`. `cleanup` is {"state": one of
    `runs.models.states.Cleanup`, "found", "removed", "left"}.
    `observed` is what the worker saw of itself (see `provenance_document`).
    """
    return {
        "schema": SCHEMA,
        "run": {
            "id": _or_unavailable(run.run_id),
            "suite": run.spec.suite if run.spec else UNAVAILABLE,
            "spec_sha256": _or_unavailable(run.spec_sha256),
            "timing": timing_document(Interval.of(run.document)),
            "evidence_root": evidence_root or UNAVAILABLE,
        },
        "identities": identities(run, observed or {}),
        "completeness": {
            "requested": verdict.counts.requested,
            "evaluated": verdict.counts.evaluated,
            "complete": verdict.counts.evaluated == verdict.counts.requested > 0,
            "sentence": verdict.counts.sentence,
            "profile_cases": run.spec.case_count if run.spec else UNAVAILABLE,
            "chosen_cases": len(run.spec.tasks) if run.spec else UNAVAILABLE,
        },
        "counts": asdict(verdict.counts),
        "answers": {
            name: sum(trial["usage"][name] for trial in trials)
            for name in ("answers_cut", "answers_refused", "context_overflows")
        },
        "verdict": {
            "value": verdict.verdict.value,
            "sentence": verdict.sentence,
            "pass_rate": verdict.counts.pass_rate,
            "pass_rate_floor": verdict.floor,
            "floor_met": verdict.floor_met,
        },
        "cleanup": dict(cleanup),
        "integrity": {"failed": sorted({check.name for check in run.checks if not check.ok})},
        "provenance": {"sha256": provenance_sha256},
        "promotion": {"authorized": False, "sentence": PROMOTION},
        "trials": [dict(trial) for trial in trials],
    }


def identities(run: RunFacts, observed: Mapping[str, Any]) -> dict[str, Any]:
    """Who and what was measured with what. Nothing is null: what is not known says so."""
    spec = declared(run)
    endpoint = spec.get("endpoint", {})
    served = [endpoint.get("served_model"), *endpoint.get("served_models", [])]
    facts = {
        "model": endpoint.get("model"),
        "served_model": ", ".join(filter(None, served)) or None,
        "runtime": observed.get("runtime"),
        "image": spec.get("images"),
        "hardware": observed.get("hardware"),
        "topology": observed.get("topology"),
        "harnesses": spec.get("harness"),
        "dataset": dataset(spec),
        "profile": spec.get("profile"),
        "endpoint": {name: endpoint.get(name) for name in ("name", "version", "host", "scripted")},
        "worker": spec.get("worker"),
    }
    return {name: without_null(value) for name, value in facts.items()}


def dataset(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The task bundle with its tasks' checksums: the data that was measured with."""
    return {
        "bundle": spec.get("bundle"),
        "tasks": [{name: task[name] for name in ("name", "checksum", "ordinal")} for task in spec.get("tasks", [])],
    }


def declared(run: RunFacts) -> dict[str, Any]:
    """The spec as a document, every default written out; empty when it cannot be read."""
    return run.spec.model_dump(mode="json", by_alias=True) if run.spec else {}


def without_null(value: Any) -> Any:
    """The same value with "unavailable" in place of every null."""
    if value is None:
        return UNAVAILABLE
    if isinstance(value, Mapping):
        return {str(key): without_null(below) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [without_null(below) for below in value]
    return value


def _or_unavailable(value: object) -> str:
    return value if isinstance(value, str) else UNAVAILABLE
