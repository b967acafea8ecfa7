"""The suite result of a run: builds `anvil-serving.environment-suite-run/v1`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from evidence.reading.clocks import Interval
from evidence.reading.proofs import at, mapping
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

    `trials` are the documents of `trial_result.trial_document`. `cleanup` is {"state":
    "clean"|"failed"|"pending",
    "found", "removed", "left"}. `observed` is what the worker saw of itself (see `provenance_document`).
    """
    return {
        "schema": SCHEMA,
        "run": {
            "id": _or_unavailable(run.run_id),
            "suite": _or_unavailable(run.spec.get("suite")),
            "spec_sha256": _or_unavailable(run.spec_sha256),
            "timing": timing_document(
                Interval(_text(run.document.get("started_at")), _text(run.document.get("ended_at")))
            ),
            "evidence_root": evidence_root or UNAVAILABLE,
        },
        "identities": identities(run, observed or {}),
        "completeness": {
            "requested": verdict.counts.requested,
            "evaluated": verdict.counts.evaluated,
            "complete": verdict.counts.evaluated == verdict.counts.requested > 0,
            "sentence": verdict.counts.sentence,
        },
        "counts": asdict(verdict.counts),
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
    spec = run.spec
    facts = {
        "model": at(spec, "endpoint", "model"),
        "served_model": at(spec, "endpoint", "served_model"),
        "runtime": observed.get("runtime"),
        "image": mapping(spec.get("images")) or None,
        "hardware": observed.get("hardware"),
        "topology": observed.get("topology"),
        "harnesses": mapping(spec.get("harness")) or None,
        "dataset": dataset(spec),
        "profile": mapping(spec.get("profile")) or None,
        "endpoint": {
            "name": at(spec, "endpoint", "name"),
            "version": at(spec, "endpoint", "version"),
            "host": at(spec, "endpoint", "host"),
            "scripted": at(spec, "endpoint", "scripted"),
        },
        "worker": mapping(spec.get("worker")) or None,
    }
    return {name: without_null(value) for name, value in facts.items()}


def dataset(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The task bundle with its tasks' checksums: the data that was measured with."""
    tasks = spec.get("tasks")
    listed = tasks if isinstance(tasks, list) else []
    return {
        "bundle": mapping(spec.get("bundle")) or None,
        "tasks": [
            {"name": at(task, "name"), "checksum": at(task, "checksum"), "ordinal": at(task, "ordinal")}
            for task in listed
        ],
    }


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


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
