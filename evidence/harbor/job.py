"""What do Harbor's own files say about one trial, and do they agree with the spec?

Of these files only identity, controls and times are believed, and only against us: a difference is an error,
while agreement proves nothing (Harbor reports a reward for an agent that never ran). Shapes are those of
Harbor 0.22.0: trial lock schema 2, job lock schema 3, a trial result without a schema version.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from benchsite.lib.folder import Folder
from evidence.harbor.applied import (
    config_differences,
    lock_differences,
    trial_config_differences,
    trial_lock_differences,
)
from evidence.harbor.controls import PHASES, control_checks, interval, uuid_of
from evidence.harbor.documents import (
    JOB_LOCK_VERSIONS,
    TRIAL_LOCK_VERSIONS,
    Document,
    document,
    versioned,
    without_unknown_version,
)
from evidence.harbor.identity import identity_checks, locked_trials
from evidence.reading.clocks import Interval
from evidence.reading.proofs import Proof, at, mapping


@dataclass(frozen=True, slots=True)
class HarborFacts:
    """What the job folder of one trial holds. `folders` are its trial folders, of which one is expected."""

    folders: tuple[str, ...]
    result: Document
    checks: tuple[Proof, ...]
    trial_uuid: str | None
    exception_type: str | None
    phases: dict[str, Interval]
    total: Interval
    usage: dict[str, Any]
    reported_rewards: dict[str, Any] | None
    documents: tuple[Document, ...]
    not_taken_over: tuple[str, ...] = ()
    job_result: Document = field(default_factory=lambda: Document("", "missing", {}))

    @property
    def unsupported(self) -> bool:
        return any(each.state == "unsupported" for each in self.documents)


def read_harbor(folder: Folder, base: str, spec: dict[str, Any], task: dict[str, Any]) -> HarborFacts:
    """Everything under `base` (the job folder, relative); `task` is the spec's task of this trial."""
    folders = tuple(name for name in folder.names(base) if folder.names(f"{base}/{name}", limit=1))
    trial = f"{base}/{folders[0]}" if len(folders) == 1 else None
    result = document(folder, f"{trial}/result.json") if trial else Document("", "missing", {})
    trial_lock = versioned(folder, f"{trial}/lock.json", TRIAL_LOCK_VERSIONS) if trial else None
    job_lock = versioned(folder, f"{base}/lock.json", JOB_LOCK_VERSIONS)
    job_config = document(folder, f"{base}/config.json")
    job_result = document(folder, f"{base}/result.json")
    trial_config = document(folder, f"{trial}/config.json") if trial else None
    documents = tuple(each for each in (result, trial_lock, job_lock, job_config) if each is not None)
    return HarborFacts(
        folders=folders,
        result=without_unknown_version(result),
        checks=(
            *control_checks(result, trial_lock, job_lock, job_config, spec, task),
            *identity_checks(
                folders[0] if trial else None,
                task,
                result=result.content,
                config=trial_config.content if trial_config else {},
                locks=locked_trials(trial_lock.content if trial_lock else {}, job_lock.content),
                job=job_result.content,
            ),
        ),
        trial_uuid=uuid_of(result.content.get("id")),
        exception_type=_exception_type(result),
        phases={name: interval(result.content.get(key)) for name, key in PHASES.items()},
        total=interval(result.content),
        usage=mapping(at(result.content, "agent_result")),
        reported_rewards=mapping(at(result.content, "verifier_result", "rewards")) or None,
        documents=(without_unknown_version(result), *documents[1:]),
        not_taken_over=(
            *_not_recorded(result, trial_lock, job_lock, job_config, trial_config),
            *_not_taken_over(folder, base, spec, trial_lock, job_lock, job_config),
            *_not_of_the_trial(folder, base, result, trial_config),
        ),
        job_result=job_result,
    )


def _not_recorded(result: Document, *documents: Document | None) -> Iterator[str]:
    """Documents that a Harbor which came to its end has written and that cannot be read: nothing shows then what
    it applied, and what is not shown does not agree. One that was stopped early may have written none (RS02)."""
    if result.state == "ok":
        yield from (found.path for found in documents if found is not None and found.state in ("missing", "unreadable"))


def _not_taken_over(
    folder: Folder,
    base: str,
    spec: dict[str, Any],
    trial_lock: Document | None,
    job_lock: Document,
    job_config: Document,
) -> Iterator[str]:
    """The places where what Harbor recorded is not what it was told: it ignores keys that it does not know."""
    asked = document(folder, f"{base.rpartition('/')[0]}/config.json")
    if asked.state != "ok":
        yield "config.json"
        return
    version = str(at(spec, "harness", "harbor"))
    try:
        if job_config.state == "ok":
            yield from (found.path for found in config_differences(asked.content, job_config.content))
        if job_lock.state == "ok":
            found_in_lock = lock_differences(asked.content, job_lock.content, harbor_version=version)
            yield from (found.path for found in found_in_lock)
        if trial_lock is not None and trial_lock.state == "ok":
            yield from (found.path for found in trial_lock_differences(asked.content, trial_lock.content))
    except (KeyError, IndexError, TypeError, AttributeError):
        yield "config.json"  # what it was told does not have the form that we write


def _not_of_the_trial(folder: Folder, base: str, result: Document, trial_config: Document | None) -> Iterator[str]:
    """The same for the trial's own config, and for the one in its result, which Harbor wrote out in full."""
    asked = document(folder, f"{base.rpartition('/')[0]}/config.json").content
    configs = {"config": trial_config.content if trial_config else {}, "result.config": at(result.content, "config")}
    for where, config in configs.items():
        try:
            if asked and config:
                yield from (f"{where}.{found.path}" for found in trial_config_differences(asked, config))
        except (KeyError, IndexError, TypeError, AttributeError):
            yield where


def _exception_type(result: Document) -> str | None:
    """Harbor's exception type, private: a note for people who look into the evidence, never a class."""
    info = result.content.get("exception_info")
    if info is None:
        return None
    name = at(info, "exception_type")
    return name[:100] if isinstance(name, str) else "unnamed"
