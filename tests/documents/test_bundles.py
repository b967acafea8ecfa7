"""The manifest: the same on every machine, and every byte of every file is bound by it."""

import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchsite.lib.canonical import canonical_bytes, canonical_sha256, load_object
from benchsite.lib.problems import DocumentError
from runs.documents.bundle import checksums, manifest
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE, packaged_folder, read_bundle, read_profile, rebuild
from runs.documents.bundle.tree import FileRecord, left_out_of, read_tree
from runs.images.recipes import recipe_identities
from tests.documents import samples

RECIPES = {
    role: {"recipe_sha256": digit * 64, "content_sha256": "c" * 64}
    for role, digit in (("agent", "1"), ("verifier", "2"), ("gateway", "3"))
}


@pytest.fixture
def folder(tmp_path):
    return samples.copy_bundle(tmp_path)


def codes(problems):
    return [(problem.code, problem.path) for problem in problems]


def test_the_packaged_manifest_and_profile_are_what_lies_on_disk():
    assert rebuild(ENVIRONMENT_SMOKE, recipes=recipe_identities(), write=False) == []
    bundle = read_bundle(ENVIRONMENT_SMOKE)
    assert manifest.verify_bundle(ENVIRONMENT_SMOKE, bundle, recipes=recipe_identities()) == []
    assert read_profile(ENVIRONMENT_SMOKE).v2.suites.environment.task_bundle.manifest_sha256 == bundle.manifest_sha256


def test_a_copy_elsewhere_builds_the_same_bytes(folder):
    first = manifest.manifest_bytes(manifest.build_manifest(ENVIRONMENT_SMOKE, recipes=RECIPES))
    for path in folder.rglob("*"):
        path.chmod(0o700)
    assert manifest.manifest_bytes(manifest.build_manifest(folder, recipes=RECIPES)) == first


def test_a_manifest_survives_being_written_and_read(folder):
    document = manifest.build_manifest(folder, recipes=RECIPES)
    loaded = manifest.load_manifest(manifest.manifest_bytes(document))
    assert canonical_bytes(loaded.document) == canonical_bytes(document)
    assert loaded.task_names == ("ledger-totals", "config-merge", "file-tree")


def test_one_changed_byte_of_any_file_is_told_and_changes_the_manifest(folder):
    bundle = manifest.load_manifest(manifest.manifest_bytes(manifest.build_manifest(folder, recipes=RECIPES)))
    for path in sorted(file for file in (folder / "tasks").rglob("*") if file.is_file() and file.name != "task.toml"):
        original = path.read_bytes()
        path.write_bytes(original[:-1] + bytes([(original[-1] ^ 1) if original else 65]))
        found = codes(manifest.verify_bundle(folder, bundle))
        assert found == [("bundle.file_changed", path.relative_to(folder).as_posix())]
        built = manifest.build_manifest(folder, recipes=RECIPES)
        assert manifest.load_manifest(manifest.manifest_bytes(built)).manifest_sha256 != bundle.manifest_sha256
        path.write_bytes(original)
    assert manifest.verify_bundle(folder, bundle) == []


def test_verify_tells_every_difference_at_once(folder):
    bundle = manifest.load_manifest(manifest.manifest_bytes(manifest.build_manifest(folder, recipes=RECIPES)))
    (folder / "tasks/ledger-totals/environment/extra.txt").write_text("x")
    (folder / "tasks/ledger-totals/environment/ledger.csv").write_text("x")
    (folder / "tasks/config-merge/tests/input/site.json").unlink()
    shutil.rmtree(folder / "tasks/file-tree")
    (folder / "tasks/another").mkdir()
    other = {**RECIPES, "gateway": {**RECIPES["gateway"], "content_sha256": "0" * 64}}
    assert codes(manifest.verify_bundle(folder, bundle, recipes=other)) == [
        ("bundle.file_added", "tasks/ledger-totals/environment/extra.txt"),
        ("bundle.file_changed", "tasks/ledger-totals/environment/ledger.csv"),
        ("bundle.file_missing", "tasks/config-merge/tests/input/site.json"),
        ("tree.unreadable", "tasks/file-tree/"),
        ("bundle.task_added", "tasks/another"),
        ("bundle.recipe_differs", "images.gateway"),
    ]


def test_a_file_replaced_by_a_link_to_equal_content_is_told(folder, tmp_path):
    bundle = manifest.load_manifest(manifest.manifest_bytes(manifest.build_manifest(folder, recipes=RECIPES)))
    path = folder / "tasks/ledger-totals/environment/ledger.csv"
    path.rename(tmp_path / "ledger.csv")
    path.symlink_to(tmp_path / "ledger.csv")
    assert ("tree.symlink", "tasks/ledger-totals/environment/ledger.csv") in codes(
        manifest.verify_bundle(folder, bundle)
    )


def test_a_copied_task_is_held_against_its_manifest_entry(folder):
    bundle = read_bundle(ENVIRONMENT_SMOKE)
    task = bundle.task("file-tree")
    assert manifest.verify_task(folder / "tasks/file-tree", task) == []
    (folder / "tasks/file-tree/instruction.md").write_text("Do nothing.\n")
    assert codes(manifest.verify_task(folder / "tasks/file-tree", task)) == [
        ("bundle.file_changed", "tasks/file-tree/instruction.md")
    ]


def test_a_missing_recipe_is_named(folder):
    with pytest.raises(DocumentError) as caught:
        manifest.build_manifest(folder, recipes={"agent": RECIPES["agent"], "verifier": RECIPES["verifier"]})
    assert codes(caught.value.problems) == [("bundle.no_recipe", "images.gateway")]


def test_a_task_that_allows_another_time_than_the_bundle_is_refused(folder):
    path = folder / "tasks/config-merge/task.toml"
    path.write_text(path.read_text().replace("timeout_sec = 60.0\nenv", "timeout_sec = 59.0\nenv"))
    with pytest.raises(DocumentError) as caught:
        manifest.build_manifest(folder, recipes=RECIPES)
    assert codes(caught.value.problems) == [
        ("task.timeout_differs", "tasks/config-merge/task.toml:verifier.timeout_sec")
    ]


def test_the_problems_of_all_tasks_are_told_at_once(folder):
    (folder / "tasks/config-merge/solution").mkdir()
    (folder / "tasks/config-merge/solution/solve.sh").write_text("x")
    (folder / "tasks/file-tree/instruction.md").unlink()
    with pytest.raises(DocumentError) as caught:
        manifest.build_manifest(folder, recipes=RECIPES)
    assert codes(caught.value.problems) == [
        ("task.solution", "tasks/config-merge/solution/solve.sh"),
        ("task.missing_file", "tasks/file-tree/instruction.md"),
    ]


@pytest.mark.parametrize("missing", ["bundle.json", "manifest.json", "profile.json"])
def test_a_bundle_without_one_of_its_files_says_which(folder, missing):
    (folder / missing).unlink()
    with pytest.raises(DocumentError, match=missing):
        manifest.build_manifest(folder, recipes=RECIPES)
        read_bundle(folder)
        read_profile(folder)


def test_rebuilding_writes_only_what_changed_and_then_nothing(folder):
    (folder / "tasks/file-tree/instruction.md").write_text("Changed.\n")
    assert rebuild(folder, recipes=RECIPES, write=False) == ["manifest.json", "profile.json"]
    assert rebuild(folder, recipes=RECIPES) == ["manifest.json", "profile.json"]
    assert rebuild(folder, recipes=RECIPES) == []
    bound = read_profile(folder).v2.suites.environment.task_bundle
    assert bound.manifest_sha256 == read_bundle(folder).manifest_sha256


def test_only_packaged_bundles_are_found_by_name():
    assert packaged_folder("environment-smoke") == ENVIRONMENT_SMOKE
    for name in ("..", "../bundles", "nothing", "environment-smoke/tasks", ""):
        with pytest.raises(DocumentError) as caught:
            packaged_folder(name)
        assert caught.value.code == "bundle.unknown"


NAMES = st.text("abcXYZ019.-_", min_size=1, max_size=6).filter(lambda name: name not in (".", ".."))
TREES = st.recursive(
    st.binary(max_size=20), lambda below: st.dictionaries(NAMES, below, min_size=1, max_size=4), max_leaves=12
).filter(lambda tree: isinstance(tree, dict))


def write_tree(folder, tree):
    folder.mkdir(exist_ok=True)
    for name, entry in tree.items():
        if isinstance(entry, dict):
            write_tree(folder / name, entry)
        else:
            (folder / name).write_bytes(entry)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(tree=TREES)
def test_both_checksums_depend_on_every_name_and_byte(tree, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    write_tree(folder, tree)
    records = read_tree(folder).records
    for number, record in enumerate(records):
        renamed = [*records[:number], FileRecord(record.path + "x", record.size, record.sha256), *records[number + 1 :]]
        rewritten = [*records[:number], FileRecord(record.path, record.size, "0" * 64), *records[number + 1 :]]
        for function in (checksums.task_checksum, checksums.content_digest):
            assert len({function(records), function(renamed), function(rewritten)}) == 3


def test_a_manifest_that_lists_a_path_as_file_and_folder_is_refused():
    document = load_object((ENVIRONMENT_SMOKE / "manifest.json").read_bytes())
    first = document["tasks"][0]["files"][0]
    document["tasks"][0]["files"].insert(1, {**first, "path": first["path"] + "/below"})
    with pytest.raises(DocumentError) as caught:
        manifest.load_manifest(canonical_bytes(document))
    assert codes(caught.value.problems) == [("bad_bundle.file_is_folder", "tasks[0].files")]


@pytest.mark.parametrize("role", RECIPES)
@pytest.mark.parametrize("part", ["recipe_sha256", "content_sha256"])
def test_another_recipe_or_content_lock_of_any_image_is_another_manifest(role, part):
    other = {**RECIPES, role: {**RECIPES[role], part: "0" * 64}}
    hashes = {
        canonical_sha256(manifest.build_manifest(ENVIRONMENT_SMOKE, recipes=recipes)) for recipes in (RECIPES, other)
    }
    assert len(hashes) == 2


def test_everything_that_people_write_is_bound_by_the_manifest(folder):
    source = load_object((folder / "bundle.json").read_bytes())
    original = canonical_sha256(manifest.build_manifest(folder, recipes=RECIPES))
    for change in (
        samples.put("revision", value=99),
        samples.put("description", value="Other."),
        samples.put("tasks", value=["file-tree", "config-merge", "ledger-totals"]),
        samples.put("agent", "version", value="2.4.7"),
        samples.put("ceilings", "verifier", "pids", value=65),
        samples.put("ceilings", "gateway", "nofile", value=513),
        samples.put("ceilings", "overhead_s", value=181),
        samples.put("ceilings", "phases", "agent_setup_s", value=61),
    ):
        (folder / "bundle.json").write_bytes(canonical_bytes(samples.changed(source, change)))
        assert canonical_sha256(manifest.build_manifest(folder, recipes=RECIPES)) != original


def test_a_compilers_leavings_are_no_part_of_a_packaged_task_and_a_file_too_many_anywhere_else(folder):
    bytecode = folder / "tasks/file-tree/tests/__pycache__"
    bytecode.mkdir()
    (bytecode / "verify.cpython-312.pyc").write_bytes(b"forged")
    found = codes(manifest.verify_bundle(folder, read_bundle(folder)))
    assert found == [("task.unhashed_file", "tasks/file-tree/tests/__pycache__/verify.cpython-312.pyc")]
    assert left_out_of(ENVIRONMENT_SMOKE / "tasks/file-tree") == {"__pycache__"}
    assert left_out_of(folder) == set()
