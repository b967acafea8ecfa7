"""JUnit XML from a ``benchsite.run/v1`` document. Pure.

An evaluated failure is a ``<failure>``, whatever was never graded an ``<error>``, and a cancelled trial is
``<skipped>``: only a graded reward 1 is a plain pass. Every text from elsewhere is inert.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from xml.etree import ElementTree

from runs.documents.run_spec import covered
from runs.management.escaping import escape_for_report
from runs.outcomes.codes import CODES

_PROPERTIES = ("run", "state", "verdict", "cleanup", "worker", "spec_sha256", "created_by")


@dataclass(frozen=True, slots=True)
class _Case:
    """One test case. ``outcome`` is ``passed``, ``failure``, ``error`` or ``skipped``."""

    name: str
    outcome: str
    kind: str = ""
    message: str = ""
    seconds: float | None = None


def junit_xml(run: Mapping[str, Any]) -> bytes:
    """The report of a run, as UTF-8. One suite holds a case per trial, so its numbers are those of the count strip.

    A second suite with one case tells of the run as a whole, only where the trials alone would look better than the
    run is: a failed cleanup, a verdict that no trial explains.
    """
    root = ElementTree.Element("testsuites", name="benchsite")
    suites = [_suite(escape_for_report(str(run["profile"])), [_trial_case(trial) for trial in run["trials"]], run)]
    whole = _whole_run(run)
    if whole is not None:
        suites.append(_suite("run", [whole], run))
    for name in ("tests", "failures", "errors"):  # a schema that reports are held against knows no more of the root
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    root.extend(suites)
    ElementTree.indent(root)
    report: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return report + b"\n"


def _suite(name: str, cases: list[_Case], run: Mapping[str, Any]) -> ElementTree.Element:
    numbers = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    counted = {word: str(sum(case.outcome == outcome for case in cases)) for word, outcome in numbers.items()}
    suite = ElementTree.Element("testsuite", {"name": name, "tests": str(len(cases)), **counted})
    if run["started_at"] is not None:
        suite.set("timestamp", escape_for_report(str(run["started_at"])))
    properties = ElementTree.SubElement(suite, "properties")
    for key in _PROPERTIES:
        ElementTree.SubElement(properties, "property", name=key, value=escape_for_report(str(run[key])))
    ElementTree.SubElement(properties, "property", name="scope", value=scope(run))
    suite.extend(_elements(cases, name))
    return suite


def _elements(cases: Iterable[_Case], suite: str) -> Iterator[ElementTree.Element]:
    for case in cases:
        element = ElementTree.Element("testcase", classname=suite, name=case.name)
        if case.seconds is not None:
            element.set("time", f"{case.seconds:.3f}")
        if case.outcome != "passed":
            reason = ElementTree.SubElement(element, case.outcome, message=case.message)
            if case.kind:
                reason.set("type", case.kind)
        yield element


def _trial_case(trial: Mapping[str, Any]) -> _Case:
    name, seconds = escape_for_report(str(trial["task"])), _seconds(trial["started_at"], trial["ended_at"])
    match trial["bucket"], trial["reward"]:
        case "passed", 1:
            return _Case(name, "passed", seconds=seconds)
        case "failed", 0:
            message = reason_of(trial["code"]) if trial["code"] else "graded with reward 0"
            return _Case(name, "failure", "evaluated", message, seconds)
        case "cancelled", _:
            return _Case(name, "skipped", "", "cancelled before it was graded", seconds)
        case None, _:
            return _Case(name, "error", "not_ended", "has not ended and was never graded", seconds)
    return _Case(
        name, "error", escape_for_report(str(trial["class"] or "not_graded")), reason_of(trial["code"]), seconds
    )


def _whole_run(run: Mapping[str, Any]) -> _Case | None:
    if run["cleanup"] == "failed":
        return _Case("cleanup", "error", "cleanup_failed", "something that the run owned may be left behind")
    buckets = {trial["bucket"] for trial in run["trials"]}
    shown_by_trials = {
        "passed": buckets == {"passed"},
        "failed": "failed" in buckets,
        "cancelled": "cancelled" in buckets,
        None: None in buckets,
    }
    if shown_by_trials.get(run["verdict"], "error" in buckets):
        return None
    if run["verdict"] == "cancelled":
        return _Case("verdict", "skipped", "", "the run was cancelled")
    failure = run["failure"] or {}
    message = reason_of(failure.get("code")) if failure else f"the run's verdict is {run['verdict']}"
    return _Case("verdict", "error", escape_for_report(str(run["verdict"] or "not_ended")), message)


def scope(run: Mapping[str, Any]) -> str:
    """How many of the profile's cases the run covers."""
    cases = run["cases"]
    return "an unknown part of the profile" if cases is None else covered(cases["chosen"], cases["profile"])


def reason_of(code: object) -> str:
    """A failure's code and its title, where it has one."""
    known = CODES.get(str(code))
    return escape_for_report(str(code or "not recorded")) + (f": {known.title}" if known else "")


def _seconds(start: str | None, end: str | None) -> float | None:
    if start is None or end is None:
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
