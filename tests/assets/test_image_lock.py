"""An image is used only while the engine, the recipe and the lock agree about it."""

import json
from dataclasses import replace
from typing import Any

import docker
import pytest
import requests

from runs.containers import EngineError
from runs.engine.assets import AssetError, ImageLock, LockedImage, verify_images
from runs.engine.assets.folder import AssetFolder
from runs.engine.assets.image_lock import read_image_lock, read_images, verify_image, write_images
from runs.images.recipes import ROLES, ImageRole, read_recipe


def locked(role: ImageRole) -> LockedImage:
    recipe = read_recipe(role)
    return LockedImage(
        role=role,
        id=f"sha256:{ROLES.index(role):064x}",
        layers=("sha256:" + "a" * 64,),
        recipe_sha256=recipe.recipe_sha256,
        content_sha256=recipe.content_sha256,
        source="debootstrap",
        packages=(("bash", "5.2", "amd64"),),
        wheels=(("h11", "0.16.0", "b" * 64),),
    )


LOCK = ImageLock(locked("agent"), locked("verifier"), locked("gateway"))


class Engine:
    """Has the given images; everything else is a 404."""

    def __init__(self, *images: LockedImage) -> None:
        self.images = {image.id: image for image in images}

    def inspect_image(self, image: str) -> dict[str, Any]:
        if image not in self.images:
            response = requests.Response()
            response.status_code = 404
            raise docker.errors.ImageNotFound("no such image", response=response)
        return {"Id": image, "RootFS": {"Layers": list(self.images[image].layers)}}


def test_a_lock_is_read_as_it_was_written(folder: AssetFolder) -> None:
    write_images(folder.image_lock, {image.role: image for image in LOCK.images})
    assert read_image_lock(folder.image_lock) == LOCK


def test_an_engine_that_has_the_locked_images_is_right() -> None:
    assert verify_images(Engine(*LOCK.images), LOCK) == []


def test_a_missing_image_is_named_by_role() -> None:
    (problem,) = verify_images(Engine(LOCK.agent, LOCK.gateway), LOCK)
    assert (problem.code, problem.detail) == ("image.missing", LOCK.verifier.id)
    assert "verifier" in problem.sentence


def test_an_image_with_other_layers_is_not_the_locked_one() -> None:
    engine = Engine(LOCK.agent, replace(LOCK.verifier, layers=("sha256:" + "c" * 64,)), LOCK.gateway)
    (problem,) = verify_images(engine, LOCK)
    assert problem.code == "image.changed" and problem.integrity


def test_an_image_rebuilt_under_another_id_is_not_used() -> None:
    rebuilt = replace(LOCK.agent, id="sha256:" + "f" * 64)
    (problem,) = verify_images(Engine(rebuilt, LOCK.verifier, LOCK.gateway), LOCK)
    assert problem.code == "image.missing" and not problem.integrity


def test_an_image_of_an_older_recipe_is_reported() -> None:
    old = replace(LOCK.agent, recipe_sha256="0" * 64)
    (problem,) = verify_images(Engine(*LOCK.images), replace(LOCK, agent=old))
    assert problem.code == "image.recipe_changed" and problem.integrity


def test_an_engine_that_does_not_answer_proves_nothing() -> None:
    class Silent:
        def inspect_image(self, image: str) -> dict[str, Any]:
            raise requests.exceptions.ConnectionError("refused")

    with pytest.raises(EngineError):
        verify_image(Silent(), LOCK.agent)


def test_no_lock_at_all_means_that_nothing_is_prepared(folder: AssetFolder) -> None:
    assert read_images(folder.image_lock) == {}
    with pytest.raises(AssetError) as caught:
        read_image_lock(folder.image_lock)
    assert (caught.value.code, caught.value.blocked) == ("assets.not_prepared", True)


def test_a_lock_of_an_interrupted_preparation_names_what_is_missing(folder: AssetFolder) -> None:
    write_images(folder.image_lock, {"agent": LOCK.agent})
    with pytest.raises(AssetError) as caught:
        read_image_lock(folder.image_lock)
    assert "verifier and gateway" in caught.value.sentence


@pytest.mark.parametrize("field", ["id", "recipe_sha256", "source"])
def test_a_lock_edited_by_hand_is_refused(folder: AssetFolder, field: str) -> None:
    write_images(folder.image_lock, {image.role: image for image in LOCK.images})
    document = json.loads(folder.image_lock.read_text())
    document["images"]["agent"][field] = "sha256:" + "e" * 64
    folder.image_lock.write_text(json.dumps(document))
    with pytest.raises(AssetError) as caught:
        read_images(folder.image_lock)
    assert caught.value.code == "image.lock_changed"


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "[" * 100_000])
def test_a_lock_that_is_no_lock_is_refused(folder: AssetFolder, text: str) -> None:
    folder.image_lock.write_text(text)
    with pytest.raises(AssetError) as caught:
        read_images(folder.image_lock)
    assert caught.value.code == "image.lock_changed"


def test_a_workers_row_gets_plain_json_with_the_id() -> None:
    document = LOCK.agent.document()
    assert document["image_id"] == LOCK.agent.id
    assert json.loads(json.dumps(document)) == document
