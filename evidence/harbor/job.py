"""Harbor's own files of one trial, read and compared with the spec and with the configuration that it was given.

Of these files only identity, controls and times are believed, and only against us: a difference is an error,
while agreement proves nothing (Harbor reports a reward for an agent that never ran). Shapes are those of
Harbor 0.22.0: trial lock schema 2, job lock schema 3, a trial result without a schema version.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchsite.lib.folder import FileState, Folder
from benchsite.lib.foreign_files import is_foreign
from benchsite.lib.strict_json import JsonProblem, load_object
from evidence.harbor.applied import (
    config_differences,
    lock_differences,
    trial_config_differences,
    trial_lock_differences,
)
from evidence.harbor.controls import JOB_CONFIG, JOB_LOCK, TRIAL_CONFIG, TRIAL_LOCK, control_checks
from evidence.harbor.identity import PHASES, identity_checks, interval, locked_trials, result_checks, uuid_of
from evidence.reading.clocks import Interval
from evidence.reading.proofs import Proof, at, mapping
from runs.documents.run_spec import RunSpec, SpecTask

MAX_RESULT_BYTES = 4 * 1024 * 1024
# What Harbor was given is a few kilobytes, and its configs and locks repeat it.
MAX_CONFIG_BYTES = 256 * 1024
MAX_CONFIG_ITEMS = 4_096
MAX_ITEMS = 20_000
MAX_DEPTH = 32
# A job's folder has five names. Of one with more than these, those that are looked at depend on nothing but chance.
MAX_NAMES = 5_000
TRIAL_LOCK_VERSIONS = (2,)
JOB_LOCK_VERSIONS = (3,)


@dataclass(frozen=True, slots=True)
class Document:
    """One JSON file of Harbor. `state` is ok, missing, unreadable or unsupported; `reason` names the trouble."""

    path: str
    state: str
    content: dict[str, Any]
    reason: str = ""


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
    documents: tuple[Document, ...]
    not_taken_over: tuple[str, ...] = ()
    job_result: Document = field(default_factory=lambda: Document("", "missing", {}))

    @property
    def unsupported(self) -> bool:
        return any(each.state == "unsupported" for each in self.documents)


def read_harbor(folder: Folder, base: str, spec: RunSpec, task: SpecTask) -> HarborFacts:
    """Everything under `base` (the job folder, relative); `task` is the spec's task of this trial."""
    folders = tuple(name for name in folder.folders(base, limit=MAX_NAMES) if not is_foreign(name))
    trial = f"{base}/{folders[0]}" if len(folders) == 1 else None
    nothing = Document("", "missing", {})
    result = _document(folder, f"{trial}/result.json", MAX_RESULT_BYTES, MAX_ITEMS) if trial else nothing
    trial_lock = _versioned(folder, f"{trial}/lock.json", TRIAL_LOCK_VERSIONS) if trial else nothing
    trial_config = _document(folder, f"{trial}/config.json") if trial else nothing
    job_lock = _versioned(folder, f"{base}/lock.json", JOB_LOCK_VERSIONS)
    job_config = _document(folder, f"{base}/config.json")
    job_result = _document(folder, f"{base}/result.json", MAX_RESULT_BYTES, MAX_ITEMS)
    given = _document(folder, f"{base.rpartition('/')[0]}/config.json")
    recorded = (trial_lock, job_lock, job_config, trial_config) if trial else (job_lock, job_config)
    control_checks, others = _compared(
        given, result, trial_lock, job_lock, job_config, trial_config, harbor_version=spec.harness.harbor
    )
    return HarborFacts(
        folders=folders,
        result=_without_unknown_version(result),
        checks=(
            *(result_checks(result.content, task, spec) if result.state == "ok" else ()),
            *control_checks,
            *identity_checks(
                folders[0] if trial else None,
                task,
                result=result.content,
                config=trial_config.content,
                locks=locked_trials(trial_lock.content, job_lock.content),
                job=job_result.content,
            ),
        ),
        trial_uuid=uuid_of(result.content.get("id")),
        exception_type=_exception_type(result),
        phases={name: interval(result.content.get(key)) for name, key in PHASES.items()},
        total=interval(result.content),
        usage=mapping(at(result.content, "agent_result")),
        documents=(_without_unknown_version(result), trial_lock, job_lock, job_config),
        not_taken_over=(*_not_recorded(result, recorded), *others),
        job_result=job_result,
    )


def _not_recorded(result: Document, documents: Iterable[Document]) -> Iterator[str]:
    """Documents that a Harbor which came to its end has written and that cannot be read: nothing shows then what
    it applied, and what is not shown does not agree. One that was stopped early may have written none."""
    if result.state == "ok":
        yield from (found.path for found in documents if found.state in ("missing", "unreadable"))


def _compared(
    given: Document,
    result: Document,
    trial_lock: Document,
    job_lock: Document,
    job_config: Document,
    trial_config: Document,
    *,
    harbor_version: str,
) -> tuple[list[Proof], list[str]]:
    """Every document in which Harbor recorded its configuration, against the one that it was given: a check for each
    control, and the other places that differ. Of the trial's own config no place is a control: what it shows, lock and
    result show too."""
    if given.state != "ok":
        return [], ["config.json"]
    asked, checks, others = given.content, list[Proof](), list[str]()
    result_config = Document(result.path, result.state, mapping(result.content.get("config")))
    job_lock_of = partial(lock_differences, harbor_version=harbor_version)
    for where, found, differences, controls in (
        ("result.config", result_config, trial_config_differences, TRIAL_CONFIG),
        ("lock", trial_lock, trial_lock_differences, TRIAL_LOCK),
        ("job_lock", job_lock, job_lock_of, JOB_LOCK),
        ("job_config", job_config, config_differences, JOB_CONFIG),
        ("config", trial_config, trial_config_differences, {}),
    ):
        if found.state != "ok":
            continue
        try:
            paths = [each.path.removeprefix("trials[0].") for each in differences(asked, found.content)]
        except (KeyError, IndexError, TypeError, AttributeError):
            return [], ["config.json"]  # what Harbor was given does not have the form that we write
        of_controls, not_controls = control_checks(where, paths, controls)
        checks += of_controls
        others += (f"{where}.{path}" for path in not_controls)
    return checks, others


def _document(folder: Folder, path: str, limit: int = MAX_CONFIG_BYTES, items: int = MAX_CONFIG_ITEMS) -> Document:
    read = folder.read(path, limit=limit)
    if read.state is FileState.MISSING:
        return Document(path, "missing", {})
    if read.state is not FileState.OK:
        return Document(path, "unreadable", {}, read.state.value)
    try:
        content = load_object(read.data, depth=MAX_DEPTH, items=items)
    except JsonProblem as problem:
        return Document(path, "unreadable", {}, problem.code)
    # Harbor never writes an object without fields: it would say nothing, and so contradict nothing.
    return Document(path, "ok", content) if content else Document(path, "unreadable", {}, "empty object")


def _versioned(folder: Folder, path: str, known: tuple[int, ...]) -> Document:
    """A document with a schema version: an unknown one is unsupported, and nothing in it is believed."""
    found = _document(folder, path)
    version = found.content.get("schema_version")
    if found.state != "ok" or (type(version) is int and version in known):
        return found
    return Document(path, "unsupported", {}, "schema_version")


def _without_unknown_version(result: Document) -> Document:
    """Harbor 0.22 writes no version into results; one that has it is of a Harbor we do not know."""
    if "schema_version" in result.content:
        return Document(result.path, "unsupported", {}, "schema_version")
    return result


def _exception_type(result: Document) -> str | None:
    """Harbor's exception type, private: a note for people who look into the evidence, never a class."""
    info = result.content.get("exception_info")
    if info is None:
        return None
    name = at(info, "exception_type")
    return name[:100] if isinstance(name, str) else "unnamed"
