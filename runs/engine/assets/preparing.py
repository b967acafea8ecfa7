"""The steps of prepare: see what is missing, name it or fetch it, build, and verify."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from runs.containers import EngineError
from runs.engine.assets.errors import AssetError
from runs.engine.assets.folder import AssetFolder
from runs.engine.assets.harness import (
    build_harness,
    current_interpreter,
    environment_key,
    harness_wheels,
    load_harness,
    replace_adapter,
)
from runs.engine.assets.harness_check import outdated, verify_tree
from runs.engine.assets.images import missing_inputs, prepare_images, stale_images
from runs.engine.assets.importing import forget_unfinished
from runs.engine.assets.interpreters import Interpreter
from runs.engine.assets.steps import Report, disk_full
from runs.engine.assets.wheels import own_pip

HarnessState = Literal["ready", "adapter", "absent"]


def prepare_assets(folder: AssetFolder, *, offline: bool, report: Report) -> None:
    """Raises AssetError; a full disk anywhere is `assets.disk_full`, a second prepare at once `assets.busy`."""
    try:
        folder.create()
        with _alone(folder):
            shutil.rmtree(folder.work)
            folder.create()
            _prepare(folder, offline, report)
            shutil.rmtree(folder.work)
    except EngineError as error:
        raise AssetError("image.engine_failed", error.sentence, error.detail) from error
    except OSError as error:
        raise disk_full(error) or AssetError(
            "assets.unwritable",
            "The assets folder cannot be used. Check its owner and permissions.",
            str(error),
        ) from error


def _prepare(folder: AssetFolder, offline: bool, report: Report) -> None:
    for image_id in forget_unfinished(folder):
        report(f"images: removed {image_id}, which an interrupted prepare left")
    interpreter = current_interpreter(folder)
    state = harness_state(folder, interpreter)
    roles = stale_images(folder)
    missing = missing_inputs(roles, folder)
    if state == "absent" and not harness_wheels(folder, interpreter).is_dir():
        missing.insert(0, "Harbor and its dependencies")
    if missing and offline:
        raise AssetError(
            "assets.missing_offline",
            f"Not here, and not downloaded because of --offline: {'; '.join(missing)}. Run: manage.py prepare",
            "\n".join(missing),
        )
    pip = own_pip(Path(interpreter.executable), folder) if missing or state == "absent" else None
    match state:
        case "absent":
            assert pip is not None
            build_harness(folder, interpreter, pip, report)
        case "adapter":
            replace_adapter(folder, interpreter, report)
        case "ready":
            report("harness: verified")
    prepare_images(roles, folder, pip, report)
    report("images: ready")


def harness_state(folder: AssetFolder, interpreter: Interpreter) -> HarnessState:
    """What must be done for the harness. Raises the AssetError of a tampered one: it is never repaired silently."""
    if not folder.harness_lock.exists():
        return "absent"
    try:
        harness = load_harness(folder)
    except AssetError as error:
        if error.code == "assets.not_prepared":
            return "absent"
        raise
    for problem in verify_tree(harness):
        raise AssetError(problem.code, problem.sentence, problem.detail)
    if harness.path.name != environment_key(interpreter):
        return "absent"
    return "adapter" if outdated(harness) else "ready"


@contextmanager
def _alone(folder: AssetFolder) -> Iterator[None]:
    descriptor = os.open(folder.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise AssetError(
            "assets.busy", "Another prepare is at work in this assets folder. Wait until it is done."
        ) from error
    finally:
        os.close(descriptor)
