"""Rows for evidence tests: a run whose spec is the one of a synthetic folder."""

from pathlib import Path

from runs.models import Run, Trial
from tests.evidence.folders import RunCase, canonical, checksum, sha256
from tests.runs.rows import bundle_row, endpoint_row, profile_row, worker_row


def run_of(case: RunCase, where: Path) -> tuple[Run, Path]:
    """The queued run of a case, and its folder written below `where`."""
    run = row_of(canonical(case.spec), len(case.trials))
    Trial.objects.bulk_create(
        Trial(run=run, ordinal=trial.number, task_name=f"task-{trial.number}", task_checksum=checksum(trial.number))
        for trial in case.trials
    )
    case.rename(run.key)
    return run, case.write(where / "run")


def row_of(spec: bytes, trials: int) -> Run:
    """The queued run of a spec, without trials."""
    return Run.objects.create(
        profile=profile_row(),
        bundle=bundle_row(),
        endpoint=endpoint_row(),
        worker=worker_row(),
        spec=spec.decode(),
        spec_sha256=sha256(spec),
        count_requested=trials,
    )
