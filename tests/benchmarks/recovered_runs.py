"""The site of the benchmark `recovery-of-1000-runs`: makes finished runs with their journals, then recovers twice."""

import json
import os
import time
from pathlib import Path

RUNS = 1000
CONTAINERS = 9  # a gateway, two probes, and for each of three trials an agent and a verifier


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchsite.settings")
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from benchsite.lib import embedded_redis
    from runs.engine.ending.recovery import recover

    call_command("migrate", verbosity=0)
    _fill(settings.DATA / "runs")
    seconds, of_processor = [], []
    try:
        for _ in range(2):
            began, busy = time.perf_counter(), time.process_time()
            report = recover(settings.WORKER_NAME, every_folder=True)
            seconds.append(round(time.perf_counter() - began, 3))
            of_processor.append(round(time.process_time() - busy, 3))
            assert report.clean and not report.cleaned and not report.interrupted, report
    finally:
        embedded_redis.stop()
    print(json.dumps({"runs": RUNS, "containers_each": CONTAINERS, "seconds": seconds, "cpu_s": of_processor}))


def _fill(folder: Path) -> None:
    from django.conf import settings
    from django.utils import timezone

    from runs.models import Cleanup, Run, RunState, Stage
    from runs.outcomes.buckets import Verdict
    from tests.runs.rows import run_row

    pattern = run_row()
    key = pattern.key
    journal = _journal(folder.parent, key)
    now = timezone.now()
    ended = {
        "state": RunState.FINISHED, "stage": Stage.ENDED, "verdict": Verdict.PASSED, "cleanup": Cleanup.CLEAN,
        "count_requested": 3, "count_evaluated": 3, "count_passed": 3, "claimed_at": now, "ended_at": now,
        "lease_host": settings.WORKER_HOST, "lease_pid": 4_000_000, "lease_start_ticks": 1,
    }  # fmt: skip
    common = {name: getattr(pattern, name) for name in ("profile", "bundle", "endpoint", "worker", "spec")}
    pattern.delete()
    runs = [Run(**common, spec_sha256="0" * 64, **ended) for _ in range(RUNS)]
    Run.objects.bulk_create(runs)
    for run in runs:
        (folder / run.key).mkdir(parents=True)
        (folder / run.key / "journal.lock").touch(0o600)
        (folder / run.key / "journal.json").write_bytes(journal.replace(key.encode(), run.key.encode()))


def _journal(where: Path, run_id: str) -> bytes:
    """A journal of a run that ended clean, made by the journal itself."""
    from runs.ownership import Journal, Outcome, Role

    journal = Journal.create(where / "pattern", run_id=run_id)
    for number in range(CONTAINERS + 2):
        network = number >= CONTAINERS
        intent = journal.intend(Role.NETWORK if network else Role.AGENT, kind="network" if network else "container")
        with journal.creating(intent) as slot:
            slot.persist(f"{number:064x}")
        journal.record_outcome(intent.nonce, Outcome.REMOVED)
    journal.fence("ended")
    return journal.path.read_bytes()


if __name__ == "__main__":
    main()
