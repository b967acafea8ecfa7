"""Grading a run's kept artifacts again: in fresh owned containers, from the locked image, with the bundle's own files.

Nothing of the agent is carried out again.
"""

from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from benchsite.lib.problems import CodedError, DocumentError
from runs.containers import EngineError, connect
from runs.documents.bundle.manifest import LoadedBundle, load_manifest, verify_task
from runs.documents.run_spec import load_spec
from runs.engine.assets import AssetError, load_assets
from runs.engine.grading.certifying import GRADE_S, MARGIN_S, ContainerGrader
from runs.engine.host.maintenance import maintenance
from runs.models import Run
from runs.outcomes.buckets import EVALUATED
from runs.ownership import JournalError
from runs.services.bundle_files import BundleFilesUnusable, BundleStorageFails, bundle_folder

_JOURNAL = "replay"


@dataclass(frozen=True, slots=True)
class Replay:
    """One trial graded again. `expected` is the run's reward; `reason` says why a trial could not be replayed."""

    trial: int
    expected: int | None
    found: int | None
    exit_code: int | None = None
    reason: str = ""

    @property
    def agrees(self) -> bool:
        return not self.reason and self.exit_code == 0 and self.found == self.expected


class ReplayImpossible(CodedError):
    """Nothing can be graded again here and now."""


def replay_verifier(run: Run, folder: Path) -> list[Replay]:
    """Grade every evaluated trial of a run again. `folder` is the run's stored evidence, laid out as in a run.

    Raises ReplayImpossible when the worker is not prepared, its engine does not answer, or the bundle's files cannot be
    had.
    """
    try:
        return _replays(run, folder)
    except (AssetError, EngineError, JournalError, BundleFilesUnusable, BundleStorageFails) as error:
        raise ReplayImpossible(error.code, error.sentence) from error
    except DocumentError as error:
        sentence = f"The run's spec or bundle cannot be read: {error}. Restore the database."
        raise ReplayImpossible(error.code, sentence) from error


def _replays(run: Run, folder: Path) -> list[Replay]:
    spec = load_spec(run.spec.encode(), expected_sha256=run.spec_sha256).content
    bundle = load_manifest(run.bundle.manifest.encode())
    images = load_assets(settings.ASSETS).images
    reason = "" if images.verifier.id == spec.images.verifier else "this worker has another verifier image now"
    api = connect(GRADE_S + MARGIN_S)
    with (
        bundle_folder(run.bundle, settings.DATA) as source,
        maintenance(settings.DATA / "maintenance" / _JOURNAL, _JOURNAL, lambda _: api) as journal,
    ):
        grader = ContainerGrader(api, journal, bundle, images)
        return [
            _replay(source / "tasks", grader, bundle, folder, trial.ordinal, trial.task_name, trial.reward, reason)
            for trial in run.trials.filter(bucket__in=EVALUATED).order_by("ordinal")
        ]


def _replay(
    tasks: Path,
    grader: ContainerGrader,
    bundle: LoadedBundle,
    folder: Path,
    trial: int,
    name: str,
    expected: int | None,
    reason: str,
) -> Replay:
    task = tasks / name
    manifest = next((each for each in bundle.manifest.tasks if each.name == name), None)
    if not reason and (manifest is None or verify_task(task, manifest)):
        reason = "the task's files are not the reviewed ones"
    if reason:
        return Replay(trial, expected, None, reason=reason)
    graded = grader.grade(task, folder / "trials" / str(trial) / "kept" / "artifacts")
    return Replay(trial, expected, graded.reward, graded.exit_code)
