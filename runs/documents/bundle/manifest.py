"""The manifest of a task bundle: built, loaded, and compared with the files on disk (design 6).

A bundle's folder holds `bundle.json` (people write it), `tasks/<name>/`, `certification/<name>/` (reference
solutions, no part of any task) and the built `manifest.json`, which is identified by its canonical SHA-256.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchsite.lib.canonical import Json, JsonObject, as_list, as_object, canonical_sha256, load_object, sha256
from benchsite.lib.closed import validate
from benchsite.lib.problems import DocumentError, Problem, path_of, raise_if, refuse
from runs.documents import names
from runs.documents.bundle import checksums
from runs.documents.bundle.models import MANIFEST_SCHEMA, BundleSource, Manifest, ManifestTask
from runs.documents.bundle.task_files import TaskRecord, read_task
from runs.documents.bundle.tree import FileRecord
from runs.documents.ceilings import memory_problems

# role -> {"recipe_sha256", "content_sha256"}: what an image is built from, as `runs.images.recipes` computes it.
type Recipes = Mapping[str, Mapping[str, str]]

ROLES = ("agent", "verifier", "gateway")
MAX_MANIFEST_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class LoadedBundle:
    """A valid manifest. `manifest_sha256` is its identity, `file_sha256` that of the bytes it was read from."""

    manifest: Manifest
    document: JsonObject
    manifest_sha256: str
    file_sha256: str

    @property
    def task_names(self) -> tuple[str, ...]:
        """In the order in which they are listed."""
        return tuple(task.name for task in self.manifest.tasks)

    def task(self, name: str) -> ManifestTask:
        """The task of that name; KeyError when there is none."""
        return {task.name: task for task in self.manifest.tasks}[name]


def build_manifest(folder: Path, *, recipes: Recipes) -> JsonObject:
    """The manifest of the bundle in `folder`.

    Raises DocumentError with every problem of `bundle.json` and of every task.
    """
    source = _load_source(folder)
    tasks, problems = _read_tasks(folder, source)
    problems += _timeout_problems(source, tasks)
    problems += [
        Problem(f"images.{role}", "bundle.no_recipe", "the recipe of this image is missing")
        for role in ROLES
        if role not in recipes
    ]
    raise_if(problems)
    document = source.model_dump(mode="json", by_alias=True)
    document |= {
        "schema": MANIFEST_SCHEMA,
        "tasks": [_task_entry(task) for task in tasks],
        "images": {role: {"name": f"benchsite-{role}", **recipes[role]} for role in ROLES},
    }
    load_manifest(manifest_bytes(document))
    return document


def manifest_bytes(document: JsonObject) -> bytes:
    """The bytes of `manifest.json`: sorted and indented, so that a change reads well in a diff."""
    return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=True, allow_nan=False) + "\n").encode()


def load_manifest(data: bytes) -> LoadedBundle:
    """The manifest in a file's bytes; raises DocumentError with every problem."""
    document = load_object(data, max_bytes=MAX_MANIFEST_BYTES)
    if document.get("schema") != MANIFEST_SCHEMA:
        raise refuse("unknown_schema", f"this is no manifest; its schema is not {MANIFEST_SCHEMA}", "schema")
    model, problems = validate(Manifest, document, prefix="bad_bundle")
    problems += [*_manifest_problems(document), *memory_problems(document.get("ceilings"), "ceilings")]
    if problems or model is None:
        raise DocumentError(problems)
    return LoadedBundle(model, document, canonical_sha256(document), sha256(data))


def verify_bundle(folder: Path, bundle: LoadedBundle, *, recipes: Recipes | None = None) -> list[Problem]:
    """Every difference between a manifest and what lies on disk now; links are never followed.

    With `recipes` those are compared too.
    """
    problems: list[Problem] = []
    for task in bundle.manifest.tasks:
        problems += verify_task(folder / "tasks" / task.name, task)
    return [*problems, *_unlisted_tasks(folder, bundle), *_recipe_problems(bundle, recipes or {})]


def verify_task(folder: Path, task: ManifestTask) -> list[Problem]:
    """Every difference between a task in a manifest and a folder, also a copy of it; paths begin with the name."""
    try:
        found = read_task(folder)
    except DocumentError as error:
        return [problem.below(f"tasks/{task.name}/") for problem in error.problems]
    listed = {file.path: FileRecord(file.path, file.size, file.sha256) for file in task.files}
    problems = _file_differences(listed, {file.path: file for file in found.files})
    if not problems and found.checksum != task.checksum:
        problems = [Problem("", "bundle.checksum_differs", "the task's checksum is not the manifest's")]
    for field, said, read in (
        ("title", task.title, found.title),
        ("artifacts", task.artifacts, [*found.config.artifacts]),
    ):
        if not problems and said != read:
            problems = [Problem(f"task.toml:{field}", "bundle.entry_differs", "the manifest says something else")]
    return [problem.below(f"tasks/{task.name}/") for problem in problems]


def _load_source(folder: Path) -> BundleSource:
    try:
        data = (folder / "bundle.json").read_bytes()
    except OSError as error:
        raise refuse("bundle.no_source", "there is no readable bundle.json", detail=str(error)) from error
    document = load_object(data)
    model, problems = validate(BundleSource, document, prefix="bad_bundle")
    problems += _repeated(as_list(document.get("tasks")), "tasks")
    problems += memory_problems(document.get("ceilings"), "ceilings")
    if problems or model is None:
        raise DocumentError(problems)
    return model


def _read_tasks(folder: Path, source: BundleSource) -> tuple[list[TaskRecord], list[Problem]]:
    tasks: list[TaskRecord] = []
    problems: list[Problem] = []
    for name in source.tasks:
        try:
            tasks.append(read_task(folder / "tasks" / name))
        except DocumentError as error:
            problems += [problem.below(f"tasks/{name}/") for problem in error.problems]
    return tasks, problems


def _timeout_problems(source: BundleSource, tasks: list[TaskRecord]) -> Iterator[Problem]:
    """A task's own limits must be the bundle's: Harbor can only be told of lower ones."""
    phases = source.ceilings.phases
    for task in tasks:
        stated = {
            "agent.timeout_sec": (task.config.agent.timeout_sec, phases.agent_s),
            "verifier.timeout_sec": (task.config.verifier.timeout_sec, phases.verifier_s),
            "environment.build_timeout_sec": (task.config.environment.build_timeout_sec, phases.environment_start_s),
        }
        for key, (found, ceiling) in stated.items():
            if found != ceiling:
                path = f"tasks/{task.name}/task.toml:{key}"
                yield Problem(path, "task.timeout_differs", f"{found:g} is not the bundle's {ceiling}")


def _task_entry(task: TaskRecord) -> JsonObject:
    files: list[Json] = [{"path": file.path, "size": file.size, "sha256": file.sha256} for file in task.files]
    artifacts: list[Json] = [*task.config.artifacts]
    return {
        "name": task.name,
        "title": task.title,
        "checksum": task.checksum,
        "files_sha256": task.digest,
        "artifacts": artifacts,
        "files": files,
    }


def _repeated(values: list[Json], path: str) -> Iterator[Problem]:
    for index, value in enumerate(values):
        if value in values[:index]:
            yield Problem(f"{path}[{index}]", "bad_bundle.repeated", "it stands here twice")


def _manifest_problems(document: JsonObject) -> Iterator[Problem]:
    """A manifest must agree with itself: its hashes follow from its list of files."""
    tasks = as_list(document.get("tasks"))
    yield from _repeated([as_object(task).get("name") for task in tasks], "tasks")
    for index, task in enumerate(tasks):
        yield from _task_problems(as_object(task), f"tasks[{index}]")
    for role, image in as_object(document.get("images")).items():
        if as_object(image).get("name") != f"benchsite-{role}":
            path = path_of(("images", role, "name"))
            yield Problem(path, "bad_bundle.image_name", "the image is not called after its role")


def _task_problems(task: JsonObject, path: str) -> Iterator[Problem]:
    files = [as_object(file) for file in as_list(task.get("files"))]
    paths = [str(file.get("path")) for file in files]
    for index, file_path in enumerate(paths):
        if problem := names.file_path_problem(file_path, f"{path}.files[{index}].path"):
            yield problem
    if paths != sorted(set(paths)):
        yield Problem(f"{path}.files", "bad_bundle.not_ascending", "the files are not in the order of their paths")
        return
    yield from _hash_problems(task, files, path)


def _hash_problems(task: JsonObject, files: list[JsonObject], path: str) -> Iterator[Problem]:
    records = [FileRecord(str(file.get("path")), 0, str(file.get("sha256"))) for file in files]
    try:
        expected = {"checksum": checksums.task_checksum(records), "files_sha256": checksums.content_digest(records)}
    except (ValueError, AttributeError, TypeError):
        yield Problem(f"{path}.files", "bad_bundle.file_is_folder", "a path is both a file and a folder")
        return
    for field, value in expected.items():
        if task.get(field) != value:
            yield Problem(f"{path}.{field}", "bad_bundle.hash_mismatch", "it does not follow from the listed files")


def _file_differences(listed: Mapping[str, FileRecord], found: Mapping[str, FileRecord]) -> list[Problem]:
    problems = []
    for path in sorted({*listed, *found}):
        match listed.get(path), found.get(path):
            case None, _:
                problems.append(Problem(path, "bundle.file_added", "the file is not in the manifest"))
            case _, None:
                problems.append(Problem(path, "bundle.file_missing", "the file of the manifest is missing"))
            case old, new if old != new:
                problems.append(Problem(path, "bundle.file_changed", "the file is not the one of the manifest"))
    return problems


def _unlisted_tasks(folder: Path, bundle: LoadedBundle) -> Iterator[Problem]:
    tasks = folder / "tasks"
    for entry in sorted(tasks.iterdir()) if tasks.is_dir() and not tasks.is_symlink() else []:
        if entry.name not in bundle.task_names:
            yield Problem(f"tasks/{ascii(entry.name)[1:-1]}", "bundle.task_added", "the task is not in the manifest")


def _recipe_problems(bundle: LoadedBundle, recipes: Recipes) -> Iterator[Problem]:
    images = bundle.manifest.images
    for role, image in (("agent", images.agent), ("verifier", images.verifier), ("gateway", images.gateway)):
        if role in recipes and recipes[role] != image.model_dump(exclude={"name"}):
            yield Problem(f"images.{role}", "bundle.recipe_differs", "the recipe is not the one of the manifest")
