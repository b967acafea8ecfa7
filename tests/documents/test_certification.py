"""A certification passes only if every case came out as it must."""

import shutil
from itertools import islice
from pathlib import Path

import pytest

from benchsite.lib.canonical import canonical_bytes, load_object
from benchsite.lib.problems import DocumentError
from runs.documents.bundle import certification, hostile
from runs.documents.bundle.certification import GradeResult, certify, check_record, subject_sha256
from runs.documents.bundle.hostile import OUTPUT
from runs.documents.bundle.manifest import load_manifest
from runs.documents.bundle.packaged import read_bundle, rebuild
from runs.images.recipes import recipe_identities
from tests.documents import samples

RIGHT = {"reward.json": b'{"reward": 1}\n'}
WRONG = {"reward.json": b'{"reward": 0}\n'}
SIDECAR = {"reward-details.json": b'{"resolved":true,"regressions":[]}'}


class FakeGrader:
    """Grades by whether the one answer is there and says `right`; `result` replaces what it answers to a case."""

    name = "container"

    def __init__(self, spoil=lambda _root, _count: None):
        self._spoil = spoil
        self.grades = 0

    def work(self, task: Path, script: Path, root: Path) -> None:
        (root / OUTPUT).mkdir(parents=True)
        (root / OUTPUT / "answer").write_text("right" if script.name == "solution.sh" else "wrong")

    def grade(self, task: Path, root: Path) -> GradeResult:
        self.grades += 1
        answer = root / OUTPUT / "answer"
        right = (
            answer.is_file()
            and not answer.is_symlink()
            and answer.stat().st_size < 10
            and answer.read_bytes() == b"right"
        )
        spoilt = self._spoil(root, self.grades)
        return spoilt or GradeResult(0, RIGHT if right else WRONG, b"graded")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """One task, and of the costly plantings only a few: what is tried here is how results are judged."""
    bundle = samples.copy_bundle(tmp_path)
    source = load_object((bundle / "bundle.json").read_bytes())
    (bundle / "bundle.json").write_bytes(canonical_bytes({**source, "tasks": ["file-tree"]}))
    for name in ("ledger-totals", "config-merge"):
        shutil.rmtree(bundle / "tasks" / name)
    (bundle / "profile.json").unlink()
    rebuild(bundle, recipes=recipe_identities())
    outputs = [planting for planting in hostile.hostile_outputs() if planting.name != "2,500 files"]
    monkeypatch.setattr(certification, "hostile_outputs", lambda: iter(outputs))
    monkeypatch.setattr(certification, "hostile_answers", lambda answer: islice(hostile.hostile_answers(answer), 2))
    return bundle


def test_a_grader_that_grades_as_it_must_gives_a_passed_record(folder):
    bundle = read_bundle(folder)
    record = certify(folder, bundle, FakeGrader())
    assert record["passed"] is True
    assert [task["name"] for task in record["tasks"]] == list(bundle.task_names)
    check_record(load_object(canonical_bytes(record)), bundle)


SPOILT = {
    "everything passes": lambda root, count: GradeResult(0, RIGHT, b"graded"),
    "everything fails": lambda root, count: GradeResult(0, WRONG, b"graded"),
    "a hostile artifact crashes it": lambda root, count: (
        GradeResult(1, WRONG) if not (root / OUTPUT).exists() else None
    ),
    "a hostile artifact leaves no reward": lambda root, count: (
        GradeResult(0, {}) if (root / OUTPUT).is_file() else None
    ),
    "it never ends": lambda root, count: GradeResult(None) if (root / OUTPUT / "tree").exists() else None,
    "other bytes the second time": lambda root, count: (
        GradeResult(0, RIGHT, str(count).encode()) if count < 3 else None
    ),
    "a forged file is believed": lambda root, count: (
        GradeResult(0, RIGHT) if (root / OUTPUT / "reward.txt").exists() else None
    ),
    "two reward files": lambda root, count: GradeResult(0, WRONG | {"reward.txt": b"0"}) if count == 5 else None,
    "a second reward file beside another's syntax": lambda root, count: (
        GradeResult(0, {"reward.json": b'{"reward": 0.0, "resolved": false}', "reward.txt": b"0"})
        if count == 5
        else None
    ),
    "only a file beside the reward": lambda root, count: GradeResult(0, SIDECAR) if count == 5 else None,
    "a boolean reward": lambda root, count: (
        GradeResult(0, {"reward.json": b'{"reward": false}'}) if count == 5 else None
    ),
    "a reward of 0.0": lambda root, count: GradeResult(0, {"reward.json": b'{"reward": 0.0}'}) if count == 5 else None,
    "a second key": lambda root, count: (
        GradeResult(0, {"reward.json": b'{"reward": 0, "x": 1}'}) if count == 5 else None
    ),
    "a repeated key": lambda root, count: (
        GradeResult(0, {"reward.json": b'{"reward":1,"reward":0}'}) if count == 5 else None
    ),
}


@pytest.mark.parametrize("fault", SPOILT)
def test_one_case_that_comes_out_otherwise_fails_the_certification(folder, fault):
    bundle = read_bundle(folder)
    record = certify(folder, bundle, FakeGrader(SPOILT[fault]))
    assert record["passed"] is False
    with pytest.raises(DocumentError) as caught:
        check_record(record, bundle)
    assert caught.value.code == "certification.failed"


def test_a_file_beside_the_reward_decides_nothing(folder):
    """Some suites' verifiers tell more than the reward."""
    bundle = read_bundle(folder)
    grader = FakeGrader()

    def beside(root: Path, task: Path) -> GradeResult:
        found = FakeGrader.grade(grader, task, root)
        reward = b"1" if found.reward_files is RIGHT else b"0"
        return GradeResult(0, {"reward.txt": reward, **SIDECAR}, found.output)

    grader.grade = lambda task, root: beside(root, task)
    record = certify(folder, bundle, grader)
    assert record["passed"] is True
    check_record(record, bundle)


def test_progress_is_told_case_by_case(folder):
    told = []
    certify(folder, read_bundle(folder), FakeGrader(), on_case=lambda *case: told.append(case))
    assert {task for task, _, _ in told} == set(read_bundle(folder).task_names)
    assert all(passed for _, _, passed in told)


@pytest.mark.parametrize("missing", ["solution.sh", "wrong.sh"])
def test_a_task_without_reference_scripts_cannot_be_certified(folder, missing):
    (folder / "certification/file-tree" / missing).unlink()
    with pytest.raises(DocumentError) as caught:
        certify(folder, read_bundle(folder), FakeGrader())
    assert caught.value.problems[0].path == "certification/file-tree"


def test_files_that_are_not_the_manifests_are_not_certified(folder):
    (folder / "tasks/file-tree/tests/verify.py").write_text("print('1')\n")
    grader = FakeGrader()
    with pytest.raises(DocumentError) as caught:
        certify(folder, read_bundle(folder), grader)
    assert (caught.value.code, grader.grades) == ("bundle.file_changed", 0)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (samples.put("subject_sha256", value="0" * 64), "certification.other_bundle"),
        (samples.put("schema", value="x"), "certification.other_bundle"),
        (samples.put("passed", value=1), "certification.failed"),
        (samples.put("grader", value="local"), "certification.not_in_containers"),
        (samples.drop("grader"), "certification.not_in_containers"),
    ],
)
def test_a_record_that_says_something_else_is_refused(folder, change, code):
    bundle = read_bundle(folder)
    record = {"schema": "benchsite.certification/v1", "subject_sha256": subject_sha256(bundle), "passed": True}
    record |= {"grader": "container"}
    check_record(record, bundle)
    with pytest.raises(DocumentError) as caught:
        check_record(samples.changed(record, change), bundle)
    assert caught.value.code == code


def test_a_certification_is_void_when_a_task_or_one_of_its_images_changed_and_not_for_a_new_gateway():
    document = samples.manifest()
    original = subject_sha256(load_manifest(canonical_bytes(document)))
    for place in (("images", "agent", "recipe_sha256"), ("images", "verifier", "content_sha256")):
        changed = samples.changed(document, samples.put(*place, value="0" * 64))
        assert subject_sha256(load_manifest(canonical_bytes(changed))) != original
    other_task = samples.changed(document, samples.drop("tasks", 0))
    assert subject_sha256(load_manifest(canonical_bytes(other_task))) != original
    gateway = samples.changed(document, samples.put("images", "gateway", "recipe_sha256", value="0" * 64))
    assert subject_sha256(load_manifest(canonical_bytes(gateway))) == original
