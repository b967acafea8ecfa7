"""The ids of experiments, suites, cases and checkpoints: the same for a job that is told live, imported or executed.

The rules are those of the published `agento11y-harbor` 0.20.0, so that its experiments and ours have the same names.
"""

import hashlib
import json
from collections.abc import Iterable

_AMBIGUOUS_SOURCES = frozenset({"", "tasks", "dataset"})
_NO_SOURCE = "adhoc"


def hashed(*parts: str | None) -> str:
    """The first 16 hex digits of the SHA-1 of the parts, joined by the byte 0x1F; None counts as empty."""
    joined = "\x1f".join(part or "" for part in parts)
    return hashlib.sha1(joined.encode(), usedforsecurity=False).hexdigest()[:16]


def experiment_id(base: str, agent_name: str, model_provider: str, model_name: str, source: str) -> str:
    """`base` is the job's id, or what somebody chose; the rest tells its candidates and datasets apart."""
    candidate = {"agent_name": agent_name, "model_name": model_name, "model_provider": model_provider}
    identity = {"candidate": candidate, "source": source or _NO_SOURCE}
    return f"{base}-{hashed(json.dumps(identity, sort_keys=True, separators=(',', ':')))}"


def suite_id(source: str) -> str:
    """The suite of a dataset when nobody named one."""
    return f"harbor-suite-{hashed(source or _NO_SOURCE)}"


def case_id(suite: str, source: str, task_name: str) -> str:
    return f"harbor-task-{hashed(suite, source, task_name)}"


def checkpoint_id(cases: Iterable[tuple[str, str]]) -> str:
    """Of pairs of case id and checksum, in any order."""
    return f"harbor-checkpoint-{hashed(*sorted({f'{case}:{checksum}' for case, checksum in cases}))}"


def live_checkpoint_id(job_id: str, source: str) -> str:
    """The checkpoint of a suite while its job goes on."""
    return f"harbor-live-{hashed(job_id, source)}"


def is_ambiguous(source: str) -> bool:
    """Harbor calls a folder of tasks by the folder's name, so that suites of different teams would be one."""
    return source in _AMBIGUOUS_SOURCES
