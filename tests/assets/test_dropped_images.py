"""What does replacing an image remove? The image that no lock names any more, and nobody else's (OW27)."""

import io
import json
import tarfile
from collections.abc import Iterator
from typing import Any

import pytest
from docker.errors import ImageNotFound

from runs.containers import connect
from runs.engine.assets.images import _drop

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
