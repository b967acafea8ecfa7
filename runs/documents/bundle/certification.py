"""The certification of a bundle: the cases that must be graded as expected, and the record of it.

For each task: the reference solution passes, doing nothing fails, each plausible wrong answer fails, every
forgery over a wrong answer fails, hostile artifacts give exit 0 and reward 0, and the same artifacts give the
same bytes twice. How a script is carried out and a folder graded is the `Grader`'s business.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from benchsite.lib.canonical import Json, JsonObject, canonical_sha256, load_json, sha256
from benchsite.lib.problems import DocumentError, raise_if, refuse
from runs.documents.bundle.hostile import OUTPUT, RIGHT_ANSWER, Planting, forgeries, hostile_answers, hostile_outputs
from runs.documents.bundle.manifest import LoadedBundle, verify_bundle

SCHEMA = "benchsite.certification/v1"
RECORD_NAME = "certification.json"
REWARDS = ("reward.json", "reward.txt")


@dataclass(frozen=True, slots=True)
class GradeResult:
    """What a verifier left: its exit code (None: it did not end in time), its files by name, its output."""

    exit_code: int | None
    reward_files: dict[str, bytes] = field(default_factory=dict)
    output: bytes = b""

    @property
    def reward(self) -> int | None:
        """The reward if there is exactly one well-formed `reward.json` or `reward.txt`, else None. Other files
        beside it decide nothing, as in a run."""
        found = [(name, self.reward_files[name]) for name in REWARDS if name in self.reward_files]
        return _reward(*found[0]) if len(found) == 1 else None


class Grader(Protocol):
    """Where scripts are carried out and artifacts graded."""

    name: str

    def work(self, task: Path, script: Path, root: Path) -> None:
        """Carry out `script` in a copy of the task's environment; leave its output below `root/app/output`."""

    def grade(self, task: Path, root: Path) -> GradeResult:
        """Grade what lies below `root/app/output` and `root/logs/artifacts` in a fresh verifier."""


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that is tried: `prepare` fills a root, and the reward must be `expected` with exit 0."""

    name: str
    expected: int
    prepare: Callable[[Path], None]
    repeated: bool = False


def certify(
    folder: Path,
    bundle: LoadedBundle,
    grader: Grader,
    *,
    scratch: Path | None = None,
    on_case: Callable[[str, str, bool], None] = lambda *_: None,
) -> JsonObject:
    """Try every case of every task; the record, with `passed` only if every one came out as it must.

    `folder` is the bundle's; answers lie below `scratch` while they are graded; `on_case(task, case, passed)` tells of
    progress.

    Raises DocumentError when the folder is not the manifest's, or a task has no solution or no wrong answer to try.
    """
    raise_if(verify_bundle(folder, bundle))
    tasks: list[Json] = [_certify_task(folder, name, grader, scratch, on_case) for name in bundle.task_names]
    return {
        "schema": SCHEMA,
        "bundle": bundle.manifest.name,
        "revision": bundle.manifest.revision,
        "manifest_sha256": bundle.manifest_sha256,
        "subject_sha256": subject_sha256(bundle),
        "grader": grader.name,
        "passed": all(isinstance(task, dict) and task["passed"] is True for task in tasks),
        "tasks": tasks,
    }


def subject_sha256(bundle: LoadedBundle) -> str:
    """The hash of all that a certification depends on: tasks, verifier policy, and the two images with their limits.

    The gateway plays no part in it, so a new gateway does not make a certification void.
    """
    manifest = bundle.manifest.model_dump(mode="json")
    roles = ("agent", "verifier")
    return canonical_sha256(
        {
            "tasks": manifest["tasks"],
            "verifier": manifest["verifier"],
            "images": {role: manifest["images"][role] for role in roles},
            "ceilings": {role: manifest["ceilings"][role] for role in roles},
        }
    )


def check_record(record: JsonObject, bundle: LoadedBundle) -> None:
    """Raise DocumentError unless the record is a passed one of just these tasks and images, graded in containers."""
    if record.get("schema") != SCHEMA or record.get("subject_sha256") != subject_sha256(bundle):
        raise refuse(
            "certification.other_bundle", "the certification is not one of these tasks and images; certify again"
        )
    if record.get("passed") is not True:
        raise refuse("certification.failed", "the bundle did not pass its certification")
    if record.get("grader") != "container":
        raise refuse("certification.not_in_containers", "the certification was not made in the bundle's own containers")


def cases_of(bundle_folder: Path, task: str, grader: Grader, scratch: Path | None = None) -> Iterator[Case]:
    """Every case of one task; raises DocumentError when a reference script is missing."""
    scripts = bundle_folder / "certification" / task
    folder = bundle_folder / "tasks" / task
    solution, wrong = scripts / "solution.sh", sorted(scripts.glob("wrong*.sh"))
    if not solution.is_file() or not wrong:
        sentence = "certification/<task>/ needs solution.sh and at least one wrong….sh"
        raise refuse("certification.no_script", sentence, f"certification/{task}")

    def worked(script: Path, *more: Planting) -> Callable[[Path], None]:
        def prepare(root: Path) -> None:
            grader.work(folder, script, root)
            for planting in more:
                planting.plant(root)

        return prepare

    yield Case("the reference solution", 1, worked(solution), repeated=True)
    for script in wrong:
        yield Case(f"a wrong answer: {script.stem}", 0, worked(script), repeated=True)
    for forgery in forgeries():
        yield Case(f"forged: {forgery.name}", 0, worked(wrong[0], forgery))
    for planting in hostile_outputs():
        yield Case(f"hostile: {planting.name}", 0, planting.plant)
    for answer in _answers(grader, folder, solution, scratch):
        for planting in hostile_answers(answer):
            yield Case(f"hostile: {planting.name}", 0, worked(solution, _replacing(answer, planting)))


def _certify_task(
    folder: Path, task: str, grader: Grader, scratch: Path | None, on_case: Callable[[str, str, bool], None]
) -> JsonObject:
    results: list[JsonObject] = []
    for case in cases_of(folder, task, grader, scratch):
        results.append(_try(folder / "tasks" / task, case, grader, scratch))
        on_case(task, case.name, results[-1]["passed"] is True)
    return {"name": task, "passed": all(result["passed"] is True for result in results), "cases": [*results]}


def _try(task: Path, case: Case, grader: Grader, scratch: Path | None) -> JsonObject:
    first = _grade_once(task, case, grader, scratch)
    same = not case.repeated or _grade_once(task, case, grader, scratch) == first
    return {
        "name": case.name,
        "expected": case.expected,
        "exit_code": first.exit_code,
        "reward": first.reward,
        "output_sha256": sha256(first.output),
        "same_twice": same if case.repeated else None,
        "passed": first.exit_code == 0 and first.reward == case.expected and same,
    }


def _grade_once(task: Path, case: Case, grader: Grader, scratch: Path | None) -> GradeResult:
    with tempfile.TemporaryDirectory(prefix="certify-", dir=scratch) as name:
        case.prepare(Path(name))
        return grader.grade(task, Path(name))


def _replacing(answer: str, planting: Planting) -> Planting:
    """So that everything but this one answer is right, and only it can be what fails."""

    def plant(root: Path) -> None:
        (root / OUTPUT / answer).rename(root / OUTPUT / RIGHT_ANSWER)
        planting.plant(root)

    return Planting(planting.name, plant)


def _answers(grader: Grader, task: Path, solution: Path, scratch: Path | None) -> list[str]:
    """The files that the solution leaves, relative to the output folder; the first three of a whole tree."""
    with tempfile.TemporaryDirectory(prefix="certify-", dir=scratch) as name:
        grader.work(task, solution, Path(name))
        output = Path(name) / OUTPUT
        return sorted(path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file())[:3]


def _reward(name: str, data: bytes) -> int | None:
    """Design 5, "reward syntax"."""
    if name == "reward.txt":
        return {b"0": 0, b"0\n": 0, b"1": 1, b"1\n": 1}.get(data)
    try:
        document = load_json(data)
    except DocumentError:
        return None
    if not isinstance(document, dict) or list(document) != ["reward"]:
        return None
    reward = document["reward"]
    return reward if type(reward) is int and reward in (0, 1) else None
