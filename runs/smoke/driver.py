"""Makes the smoke's runs as a person would: preview, confirm, wait or cancel, through queue and worker."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from benchsite.lib import embedded_redis
from benchsite.lib.commandline import command
from runs.containers import connect, still_present
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE
from runs.documents.profile.loading import load_profile
from runs.documents.run_spec import load_spec
from runs.engine.host.folder import RunFolder
from runs.engine.trials.trial_process import ObservedTail
from runs.models import Profile, Run, Trial, Worker
from runs.ownership import Journal, process_identity
from runs.scripted.scripts import Mode
from runs.serializers.runs import counts_of
from runs.services import lifecycle, previewing, registry, starting
from runs.services.refusals import Refusal
from runs.smoke.endpoint import ScriptedEndpoint
from runs.smoke.scenarios import Scenario, ScenarioResult

POLL_S = 0.25
# It proves what the host can enforce before it serves, with a container for each limit.
WORKER_START_S = 300
# A worker whose runs have ended needs a moment to end; what takes longer is stopped, and the results stand.
WORKER_STOP_S = 120
# Beyond a run's own limit, within which it is ended whatever happens: for its turn in the queue and its end.
RUN_MARGIN_S = 600


class SmokeBlocked(Refusal):
    """The smoke could not even begin (exit code 3)."""

    code = "smoke.blocked"


type Report = Callable[[str], None]


@contextmanager
def worker_running(report: Report) -> Iterator[None]:
    """A worker that serves this host's queue: the one that runs already, else one for as long as the smoke takes."""
    if _worker_alive():
        yield
        return
    log = settings.DATA / "smoke-worker.log"
    with log.open("ab") as output, subprocess.Popen(command("worker"), stdout=output, stderr=output) as process:
        try:
            _wait_for_worker(process)
            yield
        finally:
            process.terminate()
            try:
                process.wait(WORKER_STOP_S)
            except subprocess.TimeoutExpired:
                report(f"warning: the worker did not end within {WORKER_STOP_S} s and was killed")
                process.kill()
                process.wait()
            embedded_redis.stop()  # nothing of ours stays; whoever needs the queue next starts it again


def _worker_alive() -> bool:
    """Whether the process that the worker's row names still runs here; a fresh heartbeat alone may be a dead one's."""
    worker = Worker.objects.filter(name=settings.WORKER_NAME, pid__isnull=False, draining=False).first()
    if worker is None or worker.pid is None:
        return False
    seen = process_identity(worker.pid)
    return seen is not None and (seen.start_ticks, seen.boot_id) == (worker.start_ticks, worker.boot_id)


def _wait_for_worker(process: "subprocess.Popen[bytes]") -> None:
    started, deadline = timezone.now(), time.monotonic() + WORKER_START_S
    while not Worker.objects.filter(name=settings.WORKER_NAME, reported_at__gte=started, pid=process.pid).exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SmokeBlocked(f"The worker did not start; its log is {settings.DATA / 'smoke-worker.log'}.")
        time.sleep(POLL_S)


def make_run(scenario: Scenario, endpoint: ScriptedEndpoint, user: User, report: Report) -> tuple[Run, ScenarioResult]:
    """Make one scenario's run to its end, and return it with its result."""
    registry.register_endpoint(endpoint.record(scenario.mode), user=user)
    profile = packaged_profile()
    choice = previewing.Choice(
        profile=profile,
        bundle=registry.bundle_of(profile),
        endpoint=registry.find_endpoint(scenario.endpoint),
        worker=registry.find_worker(settings.WORKER_NAME),
        tasks=scenario.tasks,
        max_trial_seconds=scenario.max_trial_seconds,
    )
    shown = previewing.make_preview(user=user, choice=choice)
    run = starting.confirm(user=user, preview_id=shown.id, token=starting.token_of(shown))
    content = load_spec(run.spec.encode()).content
    started = time.monotonic()
    report(f"{scenario.name}: run {run.key}")
    # Wait for the run's end, reporting each change; cancel it where the scenario says so.
    last, cancelled, deadline = "", False, time.monotonic() + content.limits.run_s + RUN_MARGIN_S
    while not run.terminal and time.monotonic() < deadline:
        time.sleep(POLL_S)
        run.refresh_from_db()
        now = f"{run.get_stage_display()} {run.stage_trial or ''}".strip().lower()
        if now != last:
            report(f"{scenario.name}: {now}")
            last = now
        if scenario.cancel_during_agent and not cancelled and Trial.objects.filter(run=run, stage="agent").exists():
            cancelled = True
            report(f"{scenario.name}: cancelling while the agent waits for its first answer")
            lifecycle.request_cancel(run.pk, user=user)
    notes = list(unrecorded_forgeries(run)) if scenario.mode is Mode.FORGE else []
    return run, _result(run, time.monotonic() - started, tuple(notes))


def packaged_profile() -> Profile:
    """The one that came with the release, by its hash: its name means whichever profile was imported last."""
    packaged = load_profile((ENVIRONMENT_SMOKE / "profile.json").read_bytes())
    return registry.find_profile(packaged.content_sha256)


def unrecorded_forgeries(run: Run) -> Iterator[str]:
    """A sentence for each trial in which what the forger planted was neither kept as evidence nor refused."""
    folder = RunFolder.of(settings.DATA, run.key)
    for trial in Trial.objects.filter(run=run).order_by("ordinal"):
        events = ObservedTail(folder.trial(trial.ordinal) / "observed.jsonl").new_lines()
        if not any(_shows_forgery(event) for event in events):
            yield f"trial {trial.ordinal}: its forgery was not recorded"


def _shows_forgery(event: dict[str, Any]) -> bool:
    if event.get("event") != "transfer" or event.get("purpose") != "artifact":
        return False
    paths = {entry.get("path", "").rpartition("/")[2] for entry in event.get("entries") or []}
    return event.get("outcome") == "refused" or {"reward.json", "reward.txt", "result.json"} <= paths


def _result(run: Run, seconds: float, notes: tuple[str, ...]) -> ScenarioResult:
    trials = Trial.objects.filter(run=run).order_by("ordinal")
    # What the engine still lists under the labels of the run's journal.
    folder = RunFolder.of(settings.DATA, run.key)
    api = connect(settings.DOCKER_TIMEOUT_S)
    return ScenarioResult(
        verdict=run.verdict,
        **counts_of(run),
        classes=tuple(trial.failure_class for trial in trials if trial.failure_class),
        cleanup=run.cleanup,
        left=len(still_present(api, Journal(folder.path)) if folder.facts.exists() else []),
        seconds=seconds,
        notes=notes,
    )
