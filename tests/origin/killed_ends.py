"""`python -m tests.origin.killed_ends PLACE`: ends of runs, each in a process of its own that is killed at a step.

PLACE is a folder for the data, with a database of its own. Prints one JSON line a step: what the kill left, and what
came of it when another process made the end again, as recovery does.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

SECRET = "sk-SENTINEL-0123456789"
# The module and name of what the process is killed before or behind.
STEPS = (
    ("evidence.register.judging", "publish", "behind"),
    ("evidence.register.judging", "sign_run", "before"),
    ("evidence.register.signing", "_write", "before"),
    ("evidence.register.signing", "register_files", "before"),  # the statement lies in the folder and in no register
    ("evidence.register.signing", "_record", "before"),
    ("evidence.register.signing", "_record", "behind"),
    ("evidence.register.signing", "register_bytes", "behind"),  # within the transaction of the site's signature
    ("evidence.register.signing", "_countersign", "behind"),
    ("evidence.register.judging", "sign_run", "behind"),
    ("runs.services.lifecycle", "finish", "behind"),
)


def main(place: Path) -> None:
    from django.core.management import call_command
    from django.db import connections

    from evidence.register import keys
    from runs.services.access import Role
    from tests.evidence.folders import passing_run
    from tests.evidence.rows import run_of
    from tests.runs.rows import Process, person

    call_command("migrate", verbosity=0)
    for role in ("worker", "site"):
        keys.make(user=person("somebody", Role.OPERATOR), role=role)
    for number, (module, name, when) in enumerate(STEPS):
        from runs.services import lifecycle

        run, folder = run_of(passing_run(1), place / str(number))
        lifecycle.claim(run.pk, worker="local", identity=Process(), host="h")
        connections.close_all()
        died = _alone(lambda: _end(run.pk, folder, (module, name, when)))  # noqa: B023
        left = (folder / "evidence/run.dsse.json").exists()
        assert _alone(lambda: _end(run.pk, folder, None)) == 0  # noqa: B023
        print(json.dumps({"step": f"{when} {name}", "died": died, "left": left, **_found(run.pk, folder)}), flush=True)


def _alone(act: Callable[[], None]) -> int:
    """How a process ended that does this and nothing else: 0, or the signal that killed it."""
    child = os.fork()
    if child == 0:
        try:
            act()
            os._exit(0)
        finally:
            os._exit(99)
    return os.waitpid(child, 0)[1]


def _end(key: Any, folder: Path, step: tuple[str, str, str] | None) -> None:
    """What `conclude` does with the judge, for a run that has not ended."""
    import importlib

    from django.db import connections

    from evidence.register.judging import RegisterJudge
    from runs.models import Cleanup, Run, RunState
    from runs.services import lifecycle

    if step is not None:
        module, name, when = step
        owner = importlib.import_module(module)
        real = getattr(owner, name)

        def killed(*arguments: Any, **more: Any) -> None:
            if when == "behind":
                real(*arguments, **more)
            os.kill(os.getpid(), signal.SIGKILL)

        mock.patch.object(owner, name, killed).start()
    run = Run.objects.get(pk=key)
    if not run.terminal:
        judge = RegisterJudge()
        judge.keep(run, folder, secrets=[SECRET])
        judged = judge.judge(run, folder, cleanup=Cleanup.CLEAN, secrets=[SECRET])
        lifecycle.finish(key, state=RunState.FINISHED, verdict=judged.verdict, cleanup=Cleanup.CLEAN)
    connections.close_all()


def _found(key: Any, folder: Path) -> dict[str, Any]:
    """What there is of the run at the end."""
    from benchsite.lib.folder import Folder
    from evidence.management.commands.verify import rederive
    from evidence.models import SigningKey
    from evidence.origin.verifying import verify
    from evidence.register import keys
    from evidence.register.auditing import audit
    from runs.models import Run

    run = Run.objects.get(pk=key)
    found = verify(Folder(folder), [keys.public_key(row) for row in SigningKey.objects.all()], rederive=rederive)
    return {
        "verdict": run.verdict,
        "verifies": found.holds,
        "roles": sorted(run.statements.values_list("role", flat=True)),
        "differences": [str(each) for each in audit(run).differences],
    }


if __name__ == "__main__":
    import django

    django.setup()
    main(Path(sys.argv[1]))
