"""What the verifier received is graded again from the kept artifacts, in a fresh owned container."""

import json
import shutil
from pathlib import Path

import pytest
from django.conf import settings

from benchsite.lib.canonical import canonical_bytes, sha256
from evidence.register.auditing import AuditDifference, audit
from runs.engine.assets import load_assets
from runs.engine.grading import replay as replaying
from runs.engine.grading.replay import Replay, ReplayImpossible, replay_verifier
from runs.models import Run, TaskBundle, Trial
from tests.evidence.folders import passing_run
from tests.evidence.rows import run_of
from tests.runs.rows import endpoint_row, profile_row, worker_row

REAL = Path(__file__).parents[2] / "fixtures/real-run"
PACKAGED = Path(__file__).parents[3] / "runs/bundles/environment-smoke"
TASKS = ("ledger-totals", "config-merge", "file-tree")


def stored_run(verifier: str) -> Run:
    """A run of the packaged bundle whose three trials passed."""
    bundle = TaskBundle.objects.create(
        name="replayed",
        revision=1,
        manifest=(PACKAGED / "manifest.json").read_text(),
        manifest_sha256="0" * 64,
        packaged="environment-smoke",
        status="draft",
    )
    document = json.loads((REAL / "spec.json").read_text())
    document["images"]["verifier"] = verifier
    spec = canonical_bytes(document)
    run = Run.objects.create(
        profile=profile_row(),
        bundle=bundle,
        endpoint=endpoint_row(),
        worker=worker_row(),
        spec=spec.decode(),
        spec_sha256=sha256(spec),
    )
    for number, name in enumerate(TASKS, 1):
        Trial.objects.create(run=run, ordinal=number, task_name=name, task_checksum="0" * 64, bucket="passed", reward=1)
    return run


@pytest.mark.django_db
@pytest.mark.harbor_compatibility
def test_the_kept_artifacts_of_a_real_run_are_graded_as_before(tmp_path: Path) -> None:
    run = stored_run(load_assets(settings.ASSETS).images.verifier.id)
    replays = replay_verifier(run, REAL)
    assert [(each.found, each.exit_code, each.agrees) for each in replays] == [(1, 0, True)] * 3
    changed = tmp_path / "changed"
    shutil.copytree(REAL, changed)
    (changed / "trials/1/kept/artifacts/app/output/totals.json").write_text("{}")
    assert [each.agrees for each in replay_verifier(run, changed)] == [False, True, True]


@pytest.mark.django_db
@pytest.mark.harbor_compatibility
def test_another_verifier_image_is_no_replay() -> None:
    replays = replay_verifier(stored_run("sha256:" + "0" * 64), REAL)
    assert all(each.reason and not each.agrees for each in replays)


@pytest.mark.parametrize(
    ("replay", "agrees"),
    [
        (Replay(1, 1, 1, 0), True),
        (Replay(1, 0, 0, 0), True),
        (Replay(1, 1, 0, 0), False),
        (Replay(1, 1, None, 0), False),
        (Replay(1, 1, 1, 3), False),
        (Replay(1, 1, 1, None), False),
        (Replay(1, 1, 1, 0, "another image"), False),
    ],
)
def test_a_replay_agrees_only_with_the_same_reward_and_exit_0(replay: Replay, agrees: bool) -> None:
    assert replay.agrees == agrees


@pytest.mark.django_db
def test_a_replay_that_differs_is_a_difference_of_the_audit(tmp_path: Path) -> None:
    run, _ = run_of(passing_run(1), tmp_path)
    found = AuditDifference("replay_differs", "trial 1", "reward 1", "reward 0, exit code 0")
    assert found in audit(run, replay=lambda _run, _folder: [found]).differences


@pytest.mark.django_db
def test_a_worker_that_is_not_prepared_cannot_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying.settings, "ASSETS", tmp_path / "nothing", raising=False)
    with pytest.raises(ReplayImpossible):
        replay_verifier(stored_run("sha256:" + "0" * 64), REAL)
