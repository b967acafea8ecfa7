"""Each image's mark is looked for from inside its container: an engine with a wrong root shows the host's files."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker.errors
import pytest

from runs.containers import EngineError
from runs.engine.assets import AssetError
from runs.engine.preflight.image_marks import mark_checks, require_marks
from runs.images.recipes import mark_of
from runs.ownership import Journal
from tests.ownership.fake_engine import FakeEngine, Fault, api_error

ROLES = ("agent", "verifier", "gateway")
NO_PS = 'exec: "ps": executable file not found in $PATH'


@dataclass
class Engine(FakeEngine):
    """Its containers say `said`, by image id; `shells` lacks the images in which nothing can be started."""

    said: dict[str, str] = field(default_factory=dict)
    no_shell: set[str] = field(default_factory=set)
    top_error: docker.errors.APIError | None = None
    images: dict[str, str] = field(default_factory=dict)

    def create_container_from_config(self, config: dict[str, Any], name: str | None = None) -> dict[str, Any]:
        made = super().create_container_from_config(config, name)
        self.images[made["Id"]] = config["Image"]
        return made

    def start(self, container: str) -> None:
        if self.images[container] in self.no_shell:
            raise api_error(400, 'exec: "/bin/sh": no such file or directory')
        super().start(container)

    def logs(self, container: str, **_: Any) -> bytes:
        return self.said[self.images[container]].encode()

    def top(self, container: str, **_: Any) -> dict[str, Any]:
        assert container in self.started
        if self.top_error:
            raise self.top_error
        return {"Processes": [["1", "S"]]}


LOCK: Any = SimpleNamespace(
    images=[
        SimpleNamespace(role=role, id=f"sha256:{number}" + "0" * 63, recipe_sha256=str(number) * 64)
        for number, role in enumerate(ROLES, 1)
    ]
)


@pytest.fixture
def engine() -> Engine:
    return Engine(said={image.id: mark_of(image.role, image.recipe_sha256) for image in LOCK.images})


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal.create(tmp_path / "run", run_id="0" * 32)


def codes(engine: Engine, journal: Journal) -> dict[str, str]:
    found = {check.name: check.code for check in mark_checks(engine, journal, LOCK) if not check.passed}
    assert engine.resources == {} and all(resource.settled for resource in journal.read().resources)
    return found


def test_three_containers_that_see_their_own_images_pass_and_are_removed(engine: Engine, journal: Journal) -> None:
    assert codes(engine, journal) == {} and len(engine.removed) == 3
    require_marks(engine, journal, LOCK)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("said", ["none\n", "root:x:0:0\n", "agent", "", f"other {'1' * 64}\n"])
def test_a_container_without_its_images_mark_is_named(
    engine: Engine, journal: Journal, role: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.engine.preflight.image_marks._SAID_BOUND_S", 0)
    image = next(image for image in LOCK.images if image.role == role)
    engine.said[image.id] = said
    code = "image.mark_differs" if said == "agent" else "image.mark_missing"
    assert codes(engine, journal) == {f"{role} image's files": code}
    with pytest.raises(AssetError) as refused:
        require_marks(engine, journal, LOCK)
    assert refused.value.code == code and role in refused.value.sentence


def test_the_mark_of_another_recipe_or_role_is_not_its_own(engine: Engine, journal: Journal) -> None:
    agent, verifier, _ = LOCK.images
    engine.said[agent.id] = mark_of("agent", "9" * 64)
    engine.said[verifier.id] = mark_of("agent", agent.recipe_sha256)
    differs = "image.mark_differs"
    assert codes(engine, journal) == {"agent image's files": differs, "verifier image's files": differs}


def test_an_image_in_which_nothing_starts_has_no_mark(engine: Engine, journal: Journal) -> None:
    engine.no_shell = {LOCK.images[2].id}
    assert codes(engine, journal) == {"gateway image's files": "image.mark_missing"}


def test_an_engine_whose_host_lacks_ps_is_named_with_the_remedy(engine: Engine, journal: Journal) -> None:
    engine.top_error = api_error(500, NO_PS)
    checks = {check.name: check for check in mark_checks(engine, journal, LOCK)}
    assert checks["process list"].code == "engine.no_ps" and "procps" in checks["process list"].remedy
    engine.top_error = api_error(500, "something else")
    assert codes(engine, journal) == {"process list": "engine.no_process_list"}


@pytest.mark.parametrize("call", ["create", "start"])
def test_an_engine_that_fails_proves_nothing_and_leaves_nothing(engine: Engine, journal: Journal, call: str) -> None:
    engine.script(call, Fault.NONE, Fault.ERROR)
    with pytest.raises(EngineError):
        list(mark_checks(engine, journal, LOCK))
    assert engine.resources == {}
