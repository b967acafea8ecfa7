"""The time of a managed run against plain Harbor: the three-task bundle, everything included (design 8)."""

import statistics
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from django.conf import settings
from django.core.management import call_command

from runs.engine.assets import load_assets
from runs.management.commands.smoke import smoke_user
from runs.models import Run
from runs.smoke.driver import make_run, worker_running
from runs.smoke.endpoint import ScriptedEndpoint, serve
from runs.smoke.scenarios import SCENARIOS, misses
from tests.benchmarks.plain_harbor import docker_config, plain_seconds
from tests.benchmarks.result import Result

TARGET = 0.20
MANAGED_RUNS = 2


def measure() -> Result:
    """The ratio of wall times, managed to plain, measured side by side in one go."""
    call_command("migrate", verbosity=0)
    call_command("prepare")
    docker_config()
    assets = load_assets(settings.ASSETS)
    with serve() as endpoint, worker_running(print), tempfile.TemporaryDirectory(prefix="benchsite-bench-") as work:
        managed = [_managed(endpoint) for _ in range(MANAGED_RUNS)]
        plain = plain_seconds(assets, endpoint.base_url, endpoint.key_file.read_text().strip(), Path(work))
        managed.append(_managed(endpoint))
    middle = statistics.median(managed)
    _say(f"managed runs {', '.join(f'{seconds:.1f}' for seconds in managed)} s; plain Harbor {plain:.1f} s")
    return Result("managed-vs-plain", middle / plain, "ratio", TARGET)


def _managed(endpoint: ScriptedEndpoint) -> float:
    run, outcome = make_run(SCENARIOS[0], endpoint, smoke_user(), _say)
    if wrong := misses(SCENARIOS[0].expected, outcome):
        raise RuntimeError(f"the managed run did not do the work: {wrong}")
    _say_parts(run)
    return outcome.seconds


def _say_parts(run: Run) -> None:
    """Where the time went: each stage's seconds, from the run's own marks."""
    marks = list(run.stage_marks.order_by("id"))
    for mark, following in pairwise(marks):
        name = f"{mark.get_stage_display()} {mark.trial or ''}".strip()
        _say(f"  {name}: {(following.at - mark.at).total_seconds():.2f} s")
    for trial in run.trials.order_by("ordinal"):
        parts = ", ".join(f"{name} {value}" for name, value in trial.timings.items())
        _say(f"  trial {trial.ordinal}: {parts}")


def _say(text: str) -> None:
    print(text, file=sys.stderr)
