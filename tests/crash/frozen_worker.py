"""`manage.py worker`, with places between the steps of a run's end at which it stops when it is told to.

Nothing of the product is replaced: the real function is called when the place is left again. A place is armed by a
file of its name in the folder that CRASH_PLACES names, and stops once.
"""

import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PLACES = "CRASH_PLACES"
BEFORE_INGEST, MID_INGEST, BEFORE_FINAL_STATE = "before-ingest", "mid-ingest", "before-final-state"
FILES_BEFORE_MID_INGEST = 3
POLL_S = 0.01


class Places:
    """The test's side: arm a place, see that it is reached, release it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def arm(self, name: str) -> None:
        for left in self.folder.iterdir():
            left.unlink()
        (self.folder / f"{name}.armed").touch()

    def is_reached(self, name: str) -> bool:
        return (self.folder / f"{name}.reached").exists()

    def release(self, name: str) -> None:
        (self.folder / f"{name}.released").touch()


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchsite.settings")
    import django

    django.setup()
    from django.core.management import execute_from_command_line

    _install()
    execute_from_command_line(["manage.py", "worker", *sys.argv[1:]])


def _install() -> None:
    from evidence.register import ingest
    from evidence.register.judging import RegisterJudge
    from runs.services import lifecycle

    _stop_before(RegisterJudge, "keep", BEFORE_INGEST)
    _stop_before(ingest, "_keep", MID_INGEST, calls=FILES_BEFORE_MID_INGEST)
    _stop_before(lifecycle, "finish", BEFORE_FINAL_STATE)


def _stop_before(module: Any, name: str, place: str, *, calls: int = 1) -> None:
    act: Callable[..., Any] = getattr(module, name)
    made = 0

    @functools.wraps(act)
    def stopping(*arguments: Any, **named: Any) -> Any:
        nonlocal made
        made += 1
        if made >= calls:
            _stop_if_armed(place)
        return act(*arguments, **named)

    setattr(module, name, stopping)


def _stop_if_armed(place: str) -> None:
    folder = Path(os.environ[PLACES])
    try:
        (folder / f"{place}.armed").rename(folder / f"{place}.reached")
    except FileNotFoundError:
        return
    while not (folder / f"{place}.released").exists():
        time.sleep(POLL_S)


if __name__ == "__main__":
    main()
