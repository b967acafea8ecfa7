"""The checks of a claimed run on its worker: typed, and all of them reported."""

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
from django.conf import settings

from benchsite import __version__
from benchsite.lib.problems import DocumentError
from runs.checks.check import Check
from runs.checks.worker import ceiling_checks, disk_check, report_checks
from runs.containers import connect
from runs.documents.bundle.manifest import load_manifest, verify_task
from runs.documents.run_spec import RunSpec
from runs.engine.assets import Assets, verify_harness, verify_images
from runs.engine.host.ca_files import ca_file_checks
from runs.engine.host.credentials import evidence_checks
from runs.engine.host.folder import RunFolder, copy_task, free_bytes
from runs.engine.network.subnets import free_subnets
from runs.engine.preflight.capabilities import capability_digest, capability_report
from runs.engine.preflight.image_marks import mark_checks
from runs.models import TaskBundle
from runs.ownership import Journal
from runs.services.bundle_files import BundleFilesUnusable, BundleStorageFails, bundle_folder

MIB = 1024 * 1024
NETWORKS_OF_A_RUN = 2
_INTERPRETER_CODES = ("harness.interpreter_changed", "harness.interpreter_tampered")


class PreflightFailed(Exception):
    """A required check does not hold: class, code, sentence with the remedy, private detail."""

    def __init__(self, failure_class: str, code: str, sentence: str, detail: str = "") -> None:
        super().__init__(code)
        self.failure_class = failure_class
        self.code = code
        self.sentence = sentence
        self.detail = detail


def copy_tasks(bundle: TaskBundle, spec: RunSpec, folder: RunFolder) -> None:
    """Copy the spec's tasks into the run's folder and hash every copied byte against the reviewed manifest."""
    try:
        loaded = load_manifest(bundle.manifest.encode())
    except DocumentError as error:
        sentence = "The bundle's stored manifest was altered. Find out who wrote to the database."
        raise PreflightFailed("integrity", "bundle.changed", sentence, str(error)[:1000]) from error
    if loaded.manifest_sha256 != spec.bundle.manifest_sha256:
        raise PreflightFailed(
            "integrity", "bundle.changed", "The bundle is not the one that was previewed. Preview again."
        )
    try:
        with bundle_folder(bundle, settings.DATA) as source:
            for wanted in spec.tasks:
                copy_task(source / "tasks" / wanted.name, folder.task(wanted.name))
    except (BundleFilesUnusable, BundleStorageFails) as error:
        changed = isinstance(error, BundleFilesUnusable) and error.integrity
        raise PreflightFailed(_failure_class(changed), error.code, error.sentence, str(error)[:1000]) from error
    tasks = {task.name: task for task in loaded.manifest.tasks}
    for wanted in spec.tasks:
        problems = verify_task(folder.task(wanted.name), tasks[wanted.name])
        if problems or tasks[wanted.name].checksum != wanted.checksum:
            raise PreflightFailed(
                "integrity",
                "bundle.files_changed",
                f"The files of task {wanted.name} are not the reviewed ones. Restore them, or review them anew.",
                "; ".join(str(problem) for problem in problems)[:1000],
            )


def preflight(
    spec: RunSpec,
    assets: Assets,
    api: docker.APIClient,
    journal: Journal,
    folder: RunFolder,
    worker: str,
) -> list[Check]:
    """Make every check of a claimed run. Raises PreflightFailed for the first required one that does not hold."""
    with ThreadPoolExecutor(max_workers=2) as pool, closing(connect(settings.DOCKER_TIMEOUT_S)) as own_api:
        harness = pool.submit(lambda: list(harness_checks(assets, spec)))
        worker_checks = list(image_checks(api, assets, spec))
        if not any(check.refuses for check in worker_checks):
            marks = pool.submit(lambda: list(mark_checks(own_api, journal, assets.images)))
            worker_checks += room_checks(api, folder.path, spec.requirements.disk_bytes)
            report = worker_report(worker, journal, assets, api)
            folder.update_facts(worker=worker_facts(report, assets))
            worker_checks += [*capability_checks(spec, report), *marks.result()]
        checks = [*harness.result(), *worker_checks]
    checks += [*ca_file_checks(spec.endpoint.ca_file), *evidence_checks(spec.endpoint.credential, *folder.documents())]
    for check in checks:
        if check.refuses:
            raise PreflightFailed(_failure_class(check.integrity), check.code, check.sentence, check.detail)
    return checks


def _failure_class(integrity: bool) -> str:
    """What a check means for the trials: tampering is integrity, everything else is the worker's."""
    return "integrity" if integrity else "worker_runtime"


def harness_checks(assets: Assets, spec: RunSpec | None = None) -> Iterator[Check]:
    """The environment that runs Harbor: every byte of its tree against its lock, and the lock against the spec."""
    problems = verify_harness(assets.harness)
    for problem in problems:
        name = "interpreter" if problem.code in _INTERPRETER_CODES else "harness"
        yield Check(name, False, problem.code, problem.sentence, integrity=problem.integrity)
    if not problems:
        yield Check("harness", True, "harness.intact", "Every file of the harness environment is the locked one.")
        python = f"Python {assets.harness.lock.interpreter.version} is the locked interpreter."
        yield Check("interpreter", True, "harness.interpreter_locked", python)
    if spec is not None and spec.harness.lock_sha256 != assets.harness.lock_sha256:
        yield Check(
            "harness_lock",
            False,
            "harness.lock_changed",
            "The harness is not the previewed one.",
            "Preview again.",
            integrity=True,
        )


def image_checks(api: docker.APIClient, assets: Assets, spec: RunSpec | None = None) -> Iterator[Check]:
    """The images of the lock are in the engine with their layers, and are those of the spec."""
    problems = verify_images(api, assets.images)
    for problem in problems:
        yield Check("images", False, problem.code, problem.sentence, integrity=problem.integrity)
    if not problems:
        yield Check("images", True, "images.locked", "Agent, verifier and gateway images are the locked ones.")
    locked = {image.role: image.id for image in assets.images.images}
    if spec is not None and spec.images.model_dump() != locked:
        yield Check(
            "images_spec",
            False,
            "image.spec_mismatch",
            "The images are not the previewed ones.",
            "Preview again.",
            integrity=True,
        )


def room_checks(api: docker.APIClient, path: Path, disk_bytes: int) -> Iterator[Check]:
    """Whether a run finds its place here: an owned folder ``path``, ``disk_bytes`` free, two networks."""
    seen = path.lstat()
    owned = stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid() and not seen.st_mode & 0o077
    yield Check(
        "folder",
        owned,
        "folder.owned" if owned else "worker.folder_not_private",
        "The run's folder is its worker's own." if owned else "The run's folder can be read by others.",
        "" if owned else "Give BENCHSITE_DATA to the worker's user, with mode 0700.",
    )
    yield disk_check(free_bytes(path), disk_bytes)
    yield from subnet_checks(api)


def subnet_checks(api: docker.APIClient) -> Iterator[Check]:
    """Whether the engine's address pools still hold the two networks of a run. Raises EngineError."""
    free = free_subnets(api, NETWORKS_OF_A_RUN)
    yield Check(
        "subnets",
        free >= NETWORKS_OF_A_RUN,
        "engine.subnets_free" if free >= NETWORKS_OF_A_RUN else "engine.no_free_subnet",
        f"{free} of the {NETWORKS_OF_A_RUN} subnets that a run needs are free.",
        "" if free >= NETWORKS_OF_A_RUN else "Remove networks that nobody uses, or widen the engine's address pools.",
    )


def worker_facts(report: dict[str, Any], assets: Assets) -> dict[str, Any]:
    """With what this run is carried out, for its provenance: the worker's row says later what it has by then."""
    lock = assets.harness.lock
    return {
        "version": __version__,
        "report": report,
        "image_recipes": {image.role: image.recipe_sha256 for image in assets.images.images},
        "harness": {"interpreter": lock.interpreter.version, "adapter_sha256": lock.adapter_sha256},
    }


def capability_checks(spec: RunSpec, report: dict[str, Any]) -> Iterator[Check]:
    """Hold the limits that were proved anew, and compare the worker with the one that was previewed."""
    yield from report_checks(report)
    yield from ceiling_checks(report, spec.limits)
    same = capability_digest(report) == spec.worker.capability_sha256
    yield Check(
        "worker",
        same,
        "worker.same" if same else "worker.changed",
        "" if same else "The worker can do other things than when it was previewed.",
        "Preview again.",
        integrity=True,
    )


def worker_report(
    worker: str, journal: Journal, assets: Assets | None, api: docker.APIClient | None = None
) -> dict[str, Any]:
    """This worker's capability report, with the digests of what it has prepared."""
    digests = {} if assets is None else assets.digests()
    image = None if assets is None else assets.images.verifier.id
    harness = None if assets is None else assets.harness.path
    return capability_report(
        worker=worker, journal=journal, image_id=image, assets=digests, harness=harness, uids=settings.SANDBOX_UIDS,
        api=api,
    )  # fmt: skip
