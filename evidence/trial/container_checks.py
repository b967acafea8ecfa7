"""Checks of a trial's containers: image, limits, network and identity, by what the engine said of each when it was
opened, and by the journal.
"""

from typing import Any

import msgspec

from evidence.reading.observed import AGENT, VERIFIER, Observed, Opened
from evidence.reading.proofs import Proof, at, equal
from runs.documents.run_spec import RunSpec
from runs.images.recipes import MARK_SESSIONS
from runs.ownership.document import Intent, JournalDocument, Role

# How Harbor ends the names of its two environments (docs/compatibility.md).
SESSION_ENDS = {AGENT: "__env", VERIFIER: "__verifier__trial"}
# Of networks, which have a proof of their own; and where there is no swap to limit, which the preflight tries.
HARMLESS_WARNINGS = ("IPv4 forwarding is disabled", "Memory limited without swap")
CPU_SLACK = 1e-6  # the engine counts CPUs in whole billionths
_NETWORK = "integrity.network_mismatch"
_IDENTITY = "integrity.trial_identity"
_LIMITS = "invalid_evaluation.other_limits"


def container_checks(
    observed: Observed, journal: JournalDocument | None, spec: RunSpec, trial: int, folder: str | None
) -> list[Proof]:
    """Every container of the trial; `folder` is the name that Harbor gave the trial, when it has one."""
    checks = [check for opened in observed.opened for check in _opened(opened, journal, spec, trial, folder)]
    for role in (AGENT, VERIFIER):
        count = sum(opened.role == role for opened in observed.opened)
        checks.append(Proof(f"{role}.containers", "integrity.duplicate_trial", count <= 1, f"{count} opened"))
    return checks + _journaled_images(journal, spec, trial)


def run_container_checks(document: dict[str, Any], journal: JournalDocument | None, spec: RunSpec) -> list[Proof]:
    """The containers that serve the whole run: its gateway, and the probes. They use the verifier's image, but for
    those that look for an image's mark, which use that image.
    """
    if journal is None:
        return []
    checks = [
        _image(f"journal.{intent.role.value}.image", image, intent.image_id, spec)
        for intent in _intents(journal)
        if (image := _image_of(intent))
    ]
    recorded = at(document, "gateway", "container_id")
    if recorded is not None:
        known = recorded in _ids(journal, Role.GATEWAY, None)
        checks.append(
            Proof(
                "run.gateway",
                "integrity.run_identity",
                known,
                "the run's record names another gateway than the journal",
            )
        )
    return checks


def _image_of(intent: Intent) -> str | None:
    if intent.role is Role.PROBE:
        return MARK_SESSIONS.get(intent.session_id or "", "verifier")
    return "gateway" if intent.role is Role.GATEWAY else None


def internal_network(journal: JournalDocument | None) -> str | None:
    """The id of the run's internal network, which is made before its egress network."""
    networks = [] if journal is None else [each for each in journal.resources if each.intent.role is Role.NETWORK]
    return networks[0].resource_id if networks else None


def _opened(
    opened: Opened, journal: JournalDocument | None, spec: RunSpec, trial: int, folder: str | None
) -> list[Proof]:
    role = opened.role
    network = internal_network(journal) if role == AGENT else None
    known = journal is None or opened.container_id in _ids(journal, Role(role), trial)
    return [
        _image(f"{role}.image", role, opened.image_id, spec),
        equal(f"{role}.trial", _IDENTITY, trial, opened.trial, f"the {role}'s container was opened for another trial"),
        Proof(f"{role}.container", _IDENTITY, known, f"the {role}'s container is not the journaled one"),
        Proof(f"{role}.session", _IDENTITY, _is_session(opened, folder), f"the {role}'s container has another session"),
        Proof(f"{role}.network", _NETWORK, journal is None or opened.network == network, "another network"),
        _limits_check(role, spec.limits.of(role).model_dump(), msgspec.structs.asdict(opened.limits)),
        _warnings_check(role, opened.warnings),
    ]


def _is_session(opened: Opened, folder: str | None) -> bool:
    session, end = opened.session_id or "", SESSION_ENDS[opened.role]
    return session == f"{folder}{end}" if folder is not None else session.endswith(end)


def _limits_check(role: str, expected: dict[str, Any], found: dict[str, Any]) -> Proof:
    differing = [
        name for name in sorted({*expected, *found}) if not _same_limit(name, expected.get(name), found.get(name))
    ]
    return Proof(f"{role}.limits", _LIMITS, not differing, ", ".join(differing)[:200])


def _warnings_check(role: str, warnings: list[str]) -> Proof:
    """The engine did what it was asked: `limits` show what it was told, and a warning says what is not in force."""
    serious = [warning for warning in warnings if not any(words in warning for words in HARMLESS_WARNINGS)]
    return Proof(f"{role}.warnings", _LIMITS, not serious, "; ".join(serious)[:200])


def _same_limit(name: str, expected: object, found: object) -> bool:
    if name == "cpus" and isinstance(expected, int | float) and isinstance(found, int | float):
        return abs(expected - found) <= CPU_SLACK
    return expected == found


def _image(name: str, image: str, found: str | None, spec: RunSpec) -> Proof:
    return equal(name, "integrity.image_mismatch", spec.images.of(image), found)


def _journaled_images(journal: JournalDocument | None, spec: RunSpec, trial: int) -> list[Proof]:
    return [
        _image(f"journal.{intent.role.value}.image", intent.role.value, intent.image_id, spec)
        for intent in _intents(journal)
        if intent.trial == trial and intent.role.value in SESSION_ENDS and intent.image_id is not None
    ]


def _intents(journal: JournalDocument | None) -> list[Intent]:
    return [] if journal is None else [resource.intent for resource in journal.resources]


def _ids(journal: JournalDocument, role: Role, trial: int | None) -> set[str | None]:
    own = [each for each in journal.resources if (each.intent.role, each.intent.trial) == (role, trial)]
    return {each.resource_id for each in own} - {None}
