"""The kinds of files in a run's folder, by their place, and which of them a viewer may read.

The first pattern that matches decides. Places are those of the run's folder; what the attendant kept comes
before Harbor's own copies, because Harbor rewrites its files.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """`tail` says that of a file beyond the bound its end is kept, because a log's end tells most.

    `crowd` says that an agent decides how many of these there are, so they come after everything else.
    """

    name: str
    title: str
    pattern: str
    tail: bool = False
    crowd: bool = False


_TRIAL = r"trials/\d+"
_JOB = rf"{_TRIAL}/job/[^/]+"
KINDS = (
    Kind("spec", "Spec", r"spec\.json"),
    Kind("manifest", "Reviewed manifest", r"manifest\.json"),
    Kind("run_record", "Run record", r"run\.json"),
    Kind("journal", "Ownership journal", r"journal\.json"),
    Kind("engine", "Engine's identity", r"engine\.json"),
    Kind("ledger", "Gateway's ledger", r"ledger\.jsonl"),
    Kind("redactions", "Record of redactions", r"evidence/redactions\.json"),
    Kind("suite_result", "Suite result", r"evidence/suite\.json"),
    Kind("provenance", "Provenance", r"evidence/provenance\.json"),
    Kind("run_statement", "Worker's statement", r"evidence/run\.dsse\.json"),
    Kind("publication", "Site's statement", r"evidence/suite\.dsse\.json"),
    Kind("trajectory_index", "Index of the trajectory", rf"evidence/{_TRIAL}/trajectory\.index"),
    Kind("conversation", "Transcript to read", rf"evidence/{_TRIAL}/conversation\.json"),
    Kind("conversation_index", "Index of the transcript", rf"evidence/{_TRIAL}/conversation\.index"),
    Kind("transcript", "Gateway's transcript", rf"{_TRIAL}/transcript\.jsonl"),
    Kind("supervision", "Supervisor's record", rf"{_TRIAL}/supervision\.json"),
    Kind("observed", "Attendant's record", rf"{_TRIAL}/observed\.jsonl"),
    Kind("harness_config", "Config given to Harbor", rf"{_TRIAL}/config\.json"),
    Kind("environment_plan", "Plan of the attendant", rf"{_TRIAL}/environment\.json"),
    Kind("harness_log", "Harness log", rf"{_TRIAL}/harbor\.log", tail=True),
    Kind("trajectory", "Trajectory (native)", rf"{_TRIAL}/kept/agent/mini-swe-agent\.trajectory\.json"),
    Kind("reward", "Reward", rf"{_TRIAL}/kept/verifier/reward\.(json|txt)"),
    Kind("verifier_output", "Verifier's output", rf"{_TRIAL}/kept/verifier/.*", tail=True),
    Kind("agent_log", "Agent's log", rf"{_TRIAL}/kept/agent/.*", tail=True, crowd=True),
    Kind("artifact", "Artifact", rf"{_TRIAL}/kept/.*", crowd=True),
    Kind("trajectory_atif", "Trajectory (ATIF)", rf"{_JOB}/agent/trajectory\.json"),
    Kind("harbor_result", "Harbor's result", rf"({_JOB}|{_TRIAL}/job)/result\.json"),
    Kind("harbor_lock", "Harbor's lock", rf"({_JOB}|{_TRIAL}/job)/lock\.json"),
    Kind("harbor_config", "Harbor's config", rf"({_JOB}|{_TRIAL}/job)/config\.json"),
    Kind("harbor_log", "Harbor's log", rf"{_TRIAL}/job/.*\.(log|txt)", tail=True, crowd=True),
    Kind("harbor_copy", "Harbor's copy", rf"{_TRIAL}/job/.*", crowd=True),
    Kind("other", "Other", r".*", tail=True, crowd=True),
)
_COMPILED = tuple((re.compile(kind.pattern, re.DOTALL), kind) for kind in KINDS)
TITLES = {kind.name: kind.title for kind in KINDS}
PUBLIC = frozenset({"suite_result", "provenance", "publication"})
# We write every byte of these, and copy nothing into them that others wrote: nothing is taken out of them.
OWN = frozenset({
    "spec", "manifest", "run_record", "journal", "engine", "ledger", "redactions", "suite_result", "provenance",
    "run_statement", "publication", "trajectory_index", "conversation", "conversation_index", "supervision", "observed",
    "harness_config", "environment_plan",
})  # fmt: skip
# Inputs that the bundle's manifest already holds, what a cleanup deletes, and what only exists while it is
# written; the last only where nobody but us names files.
IGNORED = re.compile(rf"(tasks|work)/.*|journal\.lock|({_TRIAL}/|evidence/)?\.[^/]*\.new", re.DOTALL)


def kind_of(path: str) -> Kind:
    return next(kind for pattern, kind in _COMPILED if pattern.fullmatch(path))


def trial_of(path: str) -> int | None:
    """The trial that a file belongs to, or None for a file of the whole run."""
    found = re.match(r"(?:evidence/)?trials/(\d{1,5})/", path)
    return int(found[1]) if found else None
