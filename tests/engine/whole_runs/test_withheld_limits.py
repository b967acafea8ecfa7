"""A worker whose engine lacks a limit fails its preflight with the mechanism named."""

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import pytest

from runs.checks.worker import OPTIONAL_LIMITS, REQUIRED_LIMITS, report_checks
from runs.containers import connect
from runs.engine.assets import Assets, load_assets
from runs.engine.preflight.capabilities import prove_limits
from runs.ownership import Journal
from tests.engine.conftest import HANG
from tests.engine.site import GateSite
from tests.engine.whole_runs.test_bad_surroundings import TASK, nothing_started
from tests.engine.withholding import WITHHELD, withholding

pytestmark = pytest.mark.harbor_compatibility


@pytest.fixture(scope="module")
def assets() -> Assets:
    return load_assets(Path(os.environ["BENCHSITE_ASSETS"]))


def judged(place: Path, assets: Assets, *withheld: str) -> dict[str, Any]:
    """Every limit's check, made by a real probe through an engine that lacks some."""
    journal = Journal.create(place, run_id="withheld")
    with withholding(*withheld) as host, closing(docker.APIClient(base_url=host, version="auto", timeout=30)) as api:
        proofs = prove_limits(api, journal, assets.images.verifier.id)
        assert all(resource.settled for resource in journal.read().resources)
    limits = [
        {"name": proof.name, "enforced": proof.enforced, "mechanism": proof.mechanism, "detail": proof.detail}
        for proof in proofs
    ]
    report = {"platform": "Linux", "python": "3.12", "engine": {"version": "x"}, "limits": limits}
    checks = {check.name.removeprefix("limit "): check for check in report_checks(report)}
    return {name: checks[name] for name in (*REQUIRED_LIMITS, *OPTIONAL_LIMITS)}


def test_every_limit_can_be_withheld() -> None:
    assert set(WITHHELD) == {*REQUIRED_LIMITS, *OPTIONAL_LIMITS}


def test_through_a_proxy_that_withholds_nothing_every_limit_holds(assets: Assets, tmp_path: Path) -> None:
    assert [name for name, check in judged(tmp_path / "j", assets).items() if not check.passed] == []


@pytest.mark.parametrize("name", WITHHELD)
def test_each_limit_that_an_engine_lacks_is_found_by_its_mechanism(assets: Assets, tmp_path: Path, name: str) -> None:
    checks = judged(tmp_path / "j", assets, name)
    assert [other for other, check in checks.items() if not check.passed] == [name]
    check = checks[name]
    assert (check.passed, check.code) == (False, f"limit.{name}_not_enforced")
    assert check.detail.startswith("Not enforced by ") and "The probe saw: " in check.detail
    assert check.refuses is (name in REQUIRED_LIMITS)


def test_a_run_through_an_engine_that_lost_a_limit_ends_in_preflight_and_leaves_nothing(world: GateSite) -> None:
    run = world.start(HANG, TASK)
    with withholding("pids") as host:
        world.done("worker", "--burst", "--no-report", DOCKER_HOST=host)
    document = world.status(run)
    code = "limit.pids_not_enforced"
    assert document["failure"] == {"stage": "preflight", "class": "worker_runtime", "code": code}
    assert document["trials"][0]["code"] == "worker_runtime.preflight"
    assert "pids limit" in world.done("logs", run).out
    nothing_started(world, document)


def test_what_a_bundle_requires_blocks_and_cannot_be_accepted(world: GateSite) -> None:
    with withholding("pids") as host:
        world.manage("worker", "--report", DOCKER_HOST=host)
    for more in ((), ("--accept", "limit pids")):
        done = world.manage("start", "--endpoint", HANG, "--json", *more)
        assert (done.code, done.json["code"]) == (3, "preview.blocked")
        assert [check["code"] for check in done.json["checks"]] == ["limit.pids_not_enforced"]
        assert "pids limit" in done.json["checks"][0]["detail"]


def test_what_nothing_requires_is_accepted_by_name_and_not_otherwise(world: GateSite) -> None:
    with withholding("core") as host:
        world.manage("worker", "--report", DOCKER_HOST=host)
    refused = world.manage("start", "--endpoint", HANG, "--json")
    assert (refused.code, refused.json["code"]) == (3, "preview.not_accepted") and "limit core" in refused.err
    other = world.manage("start", "--endpoint", HANG, "--json", "--accept", "limit harness_uid")
    assert other.code == 3
    assert world.done("start", "--endpoint", HANG, "--json", "--accept", "limit core").json["state"] == "queued"


def test_with_the_engine_stopped_a_preview_still_renders_and_says_so(world: GateSite, tmp_path: Path) -> None:
    world.manage("worker", "--report", DOCKER_HOST=f"unix://{tmp_path}/no.sock")
    done = world.manage("preview", "--endpoint", HANG, "--json")
    assert done.code == 3
    (engine,) = [check for check in done.json["checks"] if check["name"] == "engine"]
    assert (engine["passed"], engine["code"]) == (False, "engine.unreachable")
    assert "cannot be reached" in engine["detail"] and "Start the engine" in engine["remedy"]


def test_an_engine_behind_the_proxy_is_the_real_one() -> None:
    with (
        withholding() as host,
        closing(docker.APIClient(base_url=host, version="auto", timeout=30)) as api,
        closing(connect(30)) as direct,
    ):
        assert api.info()["ID"] == direct.info()["ID"]
