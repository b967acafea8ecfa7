"""Preparing images removes those that no lock names any more, and nobody else's."""

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker.errors import ImageNotFound

from runs.containers import connect
from runs.engine.assets import importing
from runs.engine.assets.errors import AssetError
from runs.engine.assets.folder import AssetFolder
from runs.engine.assets.image_lock import read_images
from runs.engine.assets.importing import LABEL_IMPORT, _drop, forget_unfinished, import_image
from runs.engine.assets.preparing import prepare_assets
from runs.engine.assets.rootfs import Content
from runs.images.recipes import read_recipe

pytestmark = pytest.mark.harbor_compatibility


@pytest.fixture
def api() -> Iterator[Any]:
    client = connect(30)
    yield client
    client.close()


def imported(api: Any, content: bytes) -> str:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("content")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return str(json.loads(api.import_image_from_data(archive.getvalue()))["status"])


def is_there(api: Any, image_id: str) -> bool:
    try:
        api.inspect_image(image_id)
    except ImageNotFound:
        return False
    return True


def test_an_image_without_a_name_is_removed_and_its_neighbour_is_not(api: Any) -> None:
    replaced, neighbour = imported(api, b"replaced"), imported(api, b"neighbour")
    try:
        _drop(api, replaced)
        assert (is_there(api, replaced), is_there(api, neighbour)) == (False, True)
    finally:
        api.remove_image(neighbour)


def test_an_image_that_somebody_named_is_left_with_its_name(api: Any) -> None:
    replaced = imported(api, b"named by somebody")
    api.tag(replaced, "benchsite-test-kept-by-somebody", "1")
    try:
        _drop(api, replaced)
        assert api.inspect_image(replaced)["RepoTags"] == ["benchsite-test-kept-by-somebody:1"]
    finally:
        api.remove_image("benchsite-test-kept-by-somebody:1")
    assert not is_there(api, replaced)


def test_an_image_that_is_gone_already_is_no_failure(api: Any) -> None:
    _drop(api, "sha256:" + "0" * 64)


RECIPE = read_recipe("gateway")
NOTHING_IN_IT = Content(packages=(), wheels=())


class Killed(BaseException):
    """Nothing of the program goes on, as after kill -9."""


def killed(*_: object) -> None:
    raise Killed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    (path / "content").write_text(f"an image of {tmp_path}")
    return path


@pytest.fixture
def images(api: Any, folder: AssetFolder) -> Iterator[None]:
    """Whatever a failed test leaves locked or noted is removed by its id."""
    yield
    forget_unfinished(folder)
    for image in read_images(folder.image_lock).values():
        _drop(api, image.id)


def handed_over(api: Any, folder: AssetFolder) -> list[str]:
    """The images that the note's number finds."""
    label = json.loads(folder.unfinished_import.read_bytes())["label"]
    return [image["Id"] for image in api.images(filters={"label": f"{LABEL_IMPORT}={label}"}, all=True)]


def import_killed_at(step: str, root: Path, folder: AssetFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand over another root than before, and end where ``step`` would begin."""
    (root / "content").write_text("another root")
    with monkeypatch.context() as killing, pytest.raises(Killed):
        killing.setattr(importing, step, killed)
        import_image(RECIPE, root, NOTHING_IN_IT, folder)


@pytest.mark.usefixtures("images")
def test_an_image_is_locked_and_leaves_no_note(api: Any, folder: AssetFolder, root: Path) -> None:
    image = import_image(RECIPE, root, NOTHING_IN_IT, folder)
    assert read_images(folder.image_lock) == {"gateway": image}
    assert is_there(api, image.id) and not folder.unfinished_import.exists()
    assert forget_unfinished(folder) == []


@pytest.mark.usefixtures("images")
def test_an_image_that_was_never_locked_is_removed_by_the_next_prepare(
    api: Any, folder: AssetFolder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = import_image(RECIPE, root, NOTHING_IN_IT, folder)
    import_killed_at("write_images", root, folder, monkeypatch)
    (left,) = handed_over(api, folder)
    assert forget_unfinished(folder) == [left]
    assert (is_there(api, left), is_there(api, kept.id)) == (False, True)


@pytest.mark.usefixtures("images")
def test_an_image_that_was_replaced_is_removed_by_the_next_prepare(
    api: Any, folder: AssetFolder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the lock was written and before the older one was removed."""
    older = import_image(RECIPE, root, NOTHING_IN_IT, folder)
    import_killed_at("forget_unfinished", root, folder, monkeypatch)
    newer = read_images(folder.image_lock)["gateway"]
    assert is_there(api, older.id)
    assert forget_unfinished(folder) == [older.id]
    assert (is_there(api, older.id), is_there(api, newer.id)) == (False, True)


@pytest.mark.usefixtures("images")
def test_a_hand_over_that_never_reached_the_engine_removes_nothing(
    api: Any, folder: AssetFolder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = import_image(RECIPE, root, NOTHING_IN_IT, folder)
    import_killed_at("_import", root, folder, monkeypatch)
    assert forget_unfinished(folder) == []
    assert is_there(api, kept.id)


@pytest.mark.usefixtures("images")
def test_prepare_begins_with_what_the_last_one_left(
    api: Any, folder: AssetFolder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_killed_at("write_images", root, folder, monkeypatch)
    (left,) = handed_over(api, folder)
    told: list[str] = []
    with pytest.raises(AssetError, match="--offline"):
        prepare_assets(folder, offline=True, report=told.append)
    assert told[0] == f"images: removed {left}, which an interrupted prepare left"
    assert not is_there(api, left)
