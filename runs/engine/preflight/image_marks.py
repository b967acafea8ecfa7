"""The proof, from inside, that a container of each image sees that image's files and not those of the engine's host."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import docker
from django.conf import settings

from runs.checks.check import Check
from runs.containers import ContainerRequest, EngineError, connect, create_owned, engine_call, remove_owned, start_owned
from runs.engine.assets import AssetError, ImageLock, LockedImage
from runs.engine.host.maintenance import maintenance
from runs.images.recipes import MARK_PATH, MARK_SESSIONS, mark_of
from runs.ownership import Journal, Role

MIB = 1024 * 1024
_COMMAND = ("/bin/sh", "-c", f"cat {MARK_PATH} || echo none; exec sleep 60")
_SESSIONS = {role: session for session, role in MARK_SESSIONS.items()}
_SAID_BOUND_S = 60.0
_POLL_S = 0.02
_OWN_ROOT = "Give the engine's process a root that is a mount point of its own, restart it, and run: manage.py prepare"


def mark_checks(api: docker.APIClient, journal: Journal, lock: ImageLock) -> Iterator[Check]:
    """Whether each image's mark stands inside its container, and whether the engine can list a container's processes.

    The containers are owned by `journal` and gone afterwards. Raises EngineError, JournalError.
    """
    with ExitStack() as containers:
        started = []
        for image in lock.images:
            # The session says in the run's record which image this probe must have had.
            owned = create_owned(api, journal, {"session_id": _SESSIONS[image.role]}, _request(image))
            containers.callback(remove_owned, api, journal, owned.intent.nonce)
            try:
                start_owned(api, journal, owned)
                started.append((image, owned.id))
            except EngineError as error:
                if not error.nothing_was_done:
                    raise
                yield _judge(image, f"not even a shell: {error.detail}")
        for image, container_id in started:
            yield _judge(image, _first_line(api, container_id))
        if started:
            yield _process_list(api, started[0][1])


def require_marks(api: docker.APIClient, journal: Journal, lock: ImageLock) -> None:
    """Raises AssetError for the first of `mark_checks` that does not hold, and what those raise."""
    for check in list(mark_checks(api, journal, lock)):
        if check.refuses:
            raise AssetError(check.code, check.sentence)


def prove_prepared(lock: ImageLock) -> None:
    """`require_marks` in the worker's maintenance journal, for who has just prepared the images."""
    name = settings.WORKER_NAME
    api = connect(settings.DOCKER_TIMEOUT_S)
    with maintenance(settings.DATA / "maintenance" / name, name, lambda _: api) as journal:
        require_marks(api, journal, lock)


def _request(image: LockedImage) -> ContainerRequest:
    return ContainerRequest(
        role=Role.PROBE,
        image_id=image.id,
        command=_COMMAND,
        cpus=1.0,
        memory_bytes=32 * MIB,
        pids=16,
        nofile=64,
    )


def _first_line(api: docker.APIClient, container_id: str) -> str:
    """What the container's program says first; empty when it says nothing in time."""
    deadline = time.monotonic() + _SAID_BOUND_S
    while True:
        with engine_call("read log"):
            said = bytes(api.logs(container_id, stdout=True, stderr=False)).decode("utf-8", "replace")
        if "\n" in said or time.monotonic() >= deadline:
            return said
        time.sleep(_POLL_S)


def _judge(image: LockedImage, said: str) -> Check:
    name = f"{image.role} image's files"
    if said == mark_of(image.role, image.recipe_sha256):
        return Check(
            name, True, "image.mark_found", f"A container of the {image.role} image sees the image's own files."
        )
    if said.split()[:1] in (["agent"], ["verifier"], ["gateway"]):
        seen = f"A container of the {image.role} image sees the files of another image."
        return Check(name, False, "image.mark_differs", seen, "Run: manage.py prepare")
    seen = f"A container of the {image.role} image does not see the image's own files; it may see those of the host."
    return Check(name, False, "image.mark_missing", seen, _OWN_ROOT)


def _process_list(api: docker.APIClient, container_id: str) -> Check:
    name = "process list"
    try:
        with engine_call("list processes"):
            api.top(container_id, ps_args="-eo pid,stat")
    except EngineError as error:
        if error.status is None:
            raise
        if '"ps"' in error.detail:
            seen = "The engine cannot list a container's processes: the program ps is missing on its host."
            return Check(name, False, "engine.no_ps", seen, "Install it there: on Debian the package procps.")
        seen = f"The engine cannot list a container's processes. {error.sentence}"
        return Check(name, False, "engine.no_process_list", seen, "Look at the engine's own log.")
    return Check(name, True, "engine.lists_processes", "The engine lists a container's processes.")
