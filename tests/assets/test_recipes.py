"""A recipe's identity covers every byte that takes part in a build, and nothing else."""

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runs.images.recipes import FOLDER, ROLES, ImageRole, RecipeError, read_recipe, recipe_identities

BUILD_FILES = sorted(
    path.relative_to(FOLDER).as_posix()
    for name in ("agent", "base")
    for path in (FOLDER / name).rglob("*")
    if path.is_file() and path.suffix not in {".in", ".md", ".pyc"}
)


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    shutil.copytree(FOLDER, tmp_path / "images")
    return tmp_path / "images"


def test_a_copy_of_the_recipes_has_their_identity(recipes: Path) -> None:
    assert recipe_identities(recipes) == recipe_identities()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(name=st.sampled_from(BUILD_FILES), position=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_any_flipped_byte_of_a_build_file_is_another_recipe(recipes: Path, name: str, position: int, flip: int) -> None:
    original = (FOLDER / name).read_bytes()
    changed = bytearray(original)
    changed[position % len(changed)] ^= flip
    if name.endswith("recipe.json"):  # must stay readable
        document = json.loads(original)
        document["packages"].append(f"extra{position}")
        changed = bytearray(json.dumps(document).encode())
    (recipes / name).write_bytes(bytes(changed))
    try:
        assert read_recipe("agent", recipes).recipe_sha256 != read_recipe("agent").recipe_sha256
    finally:
        (recipes / name).write_bytes(original)


def test_a_new_file_in_a_recipe_is_another_recipe(recipes: Path) -> None:
    (recipes / "verifier" / "extra.sh").touch()
    assert recipe_identities(recipes)["verifier"] != recipe_identities()["verifier"]
    assert recipe_identities(recipes)["agent"] == recipe_identities()["agent"]


def test_the_base_is_part_of_every_recipe(recipes: Path) -> None:
    (recipes / "base" / "holder.c").write_text("int main(void) { return 0; }\n")
    assert all(read_recipe(role, recipes).recipe_sha256 != read_recipe(role).recipe_sha256 for role in ROLES)


@pytest.mark.parametrize("name", ["agent/README.md", "agent/requirements.in", "agent/__pycache__/x.pyc"])
def test_notes_and_caches_are_no_part_of_a_recipe(recipes: Path, name: str) -> None:
    (recipes / name).parent.mkdir(exist_ok=True)
    (recipes / name).write_text("another word")
    assert recipe_identities(recipes) == recipe_identities()


@pytest.mark.parametrize(
    ("name", "content_changes"),
    [("packages.amd64.lock", True), ("requirements.txt", True), ("build.sh", False)],
)
def test_only_the_locks_are_the_content(recipes: Path, name: str, content_changes: bool) -> None:
    path = recipes / "agent" / name
    path.write_text(path.read_text() + "\n")
    before, after = read_recipe("agent"), read_recipe("agent", recipes)
    assert (before.content_sha256 != after.content_sha256) is content_changes


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (None, "recipe.missing"),
        ("{", "recipe.unreadable"),
        ('{"schema": "benchsite.image-recipe/v9", "role": "agent"}', "recipe.schema"),
        ('{"schema": "benchsite.image-recipe/v1", "role": "verifier"}', "recipe.schema"),
    ],
)
def test_a_recipe_that_cannot_be_read_says_so(recipes: Path, text: str | None, code: str) -> None:
    path = recipes / "agent" / "recipe.json"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(RecipeError) as caught:
        read_recipe("agent", recipes)
    assert caught.value.code == code


@pytest.mark.parametrize("role", ROLES)
def test_no_lock_of_a_recipe_names_a_place_to_download_from(role: ImageRole) -> None:
    recipe = read_recipe(role)
    for lock in [*recipe.folder.glob("packages.*.lock"), recipe.requirements]:
        text = lock.read_text() if lock.is_file() else ""
        assert "://" not in text
        assert "index-url" not in text
