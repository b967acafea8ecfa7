"""The certification of a bundle in its own containers: one owned container per case, from the locked images.

The verifier's container has the limits, image and missing network that it has in a run. Reference scripts are
carried out in the agent's image, without a network and once each, since they do the same every time.
"""

import base64
import io
import json
import tarfile
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

import docker
from django.conf import settings

from benchsite.lib.canonical import JsonObject
from benchsite.lib.problems import refuse
from runs.containers import ContainerRequest, connect, create_owned, engine_call, remove_owned, start_owned
from runs.documents.bundle.certification import GradeResult, certify
from runs.documents.bundle.manifest import LoadedBundle
from runs.documents.bundle.packaged import read_bundle
from runs.documents.bundle.tree import left_out_of
from runs.documents.ceilings import RoleLimits
from runs.engine.assets import load_assets
from runs.engine.assets.image_lock import ImageLock, verify_image
from runs.engine.host.maintenance import maintenance
from runs.engine.preflight.image_marks import require_marks
from runs.images.recipes import ImageRole
from runs.ownership import Journal, Role
from runs.ownership.scratch import scratch

PROGRAM = Path(__file__).with_name("certify_inside.py")
# As in a run.
CAPABILITIES = {
    Role.AGENT: ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"),
    Role.VERIFIER: ("DAC_OVERRIDE", "KILL"),
}
WORK_S = 60
GRADE_S = 60
MARGIN_S = 30
# Larger files are made inside: a tar stream of a sparse file would be as long as it claims to be.
SENT_BYTES = 8 * 1024 * 1024
_JOURNAL = "certification"


def certify_in_containers(folder: Path, *, on_case: Callable[[str, str, bool], None]) -> JsonObject:
    """The record of a certification of the bundle in `folder` with this worker's locked images.

    Raises DocumentError, AssetError (nothing is prepared), EngineError, JournalError.
    """
    bundle = read_bundle(folder)
    images = load_assets(settings.ASSETS).images
    api = connect(WORK_S + MARGIN_S)
    roles: tuple[ImageRole, ...] = ("agent", "verifier")
    for role in roles:
        if problem := verify_image(api, images.of(role)):
            raise refuse(problem.code, problem.sentence, detail=problem.detail)
        if images.of(role).recipe_sha256 != getattr(bundle.manifest.images, role).recipe_sha256:
            sentence = "the worker's image was built from another recipe than the bundle's; run manage.py prepare"
            raise refuse("spec.recipe_mismatch", sentence, f"images.{role}")
    with (
        maintenance(settings.DATA / "maintenance" / _JOURNAL, _JOURNAL, lambda _: api) as journal,
        scratch(settings.DATA, "certify") as place,
    ):
        require_marks(api, journal, images)
        grader = ContainerGrader(api, journal, bundle, images)
        return certify(folder, bundle, grader, scratch=place, on_case=on_case)


class ContainerGrader:
    """A `Grader` in owned containers; `journal` records what it creates."""

    name = "container"

    def __init__(self, api: docker.APIClient, journal: Journal, bundle: LoadedBundle, images: ImageLock) -> None:
        self._api = api
        self._journal = journal
        self._ceilings = bundle.manifest.ceilings
        self._images = images
        self._worked = cache(self._carry_out)

    def work(self, task: Path, script: Path, root: Path) -> None:
        """Unpack below `root` what the script left in the agent's container."""
        unpack_work(self._worked(task, script), root)

    def grade(self, task: Path, root: Path) -> GradeResult:
        """Grade in a fresh verifier container."""
        sources = [(task / "tests", "tests"), (root / "app/output", "app/output")]
        sources.append((root / "logs/artifacts", "logs/artifacts"))
        report = self._run(Role.VERIFIER, self._ceilings.verifier, "grade", GRADE_S, sources)
        if report is None:
            return GradeResult(None)
        rewards = {name: base64.b64decode(data) for name, data in report["rewards"].items()}
        return GradeResult(report["exit_code"], rewards, base64.b64decode(report["output"]))

    def _carry_out(self, task: Path, script: Path) -> bytes:
        sources = [(task / "environment", "app"), (script, "tmp/script.sh")]
        report = self._run(Role.AGENT, self._ceilings.agent, "work", WORK_S, sources)
        if report is None or report["exit_code"] != 0:
            output = "" if report is None else base64.b64decode(report["output"]).decode("utf-8", "replace")
            sentence = "a reference script did not end with exit code 0"
            raise refuse("certification.script_failed", sentence, f"{task.name}/{script.name}", detail=output[:2000])
        return base64.b64decode(report["files"])

    def _run(
        self, role: Role, limits: RoleLimits, mode: str, seconds: int, sources: Iterable[tuple[Path, str]]
    ) -> dict[str, Any] | None:
        packed, sparse = _packed(sources)
        plan = {"mode": mode, "sparse": sparse, "seconds": seconds}
        self._journal.compact()  # one container after another: what is gone need not stay in it
        owned = create_owned(self._api, self._journal, {}, self._request(role, limits))
        try:
            start_owned(self._api, self._journal, owned)
            _send(self._api, owned.id, json.dumps(plan).encode() + b"\n" + packed)
            with engine_call("wait for the certification"):
                self._api.wait(owned.id, timeout=seconds + MARGIN_S)
                output = self._api.logs(owned.id, stdout=True, stderr=False)
        finally:
            remove_owned(self._api, self._journal, owned.intent.nonce)
        # The program's one line; None when it was ended before it could print it.
        try:
            report = json.loads(output)
        except ValueError:
            return None
        return report if isinstance(report, dict) and "exit_code" in report else None

    def _request(self, role: Role, limits: RoleLimits) -> ContainerRequest:
        image = self._images.agent if role is Role.AGENT else self._images.verifier
        return ContainerRequest(
            role=role,
            image_id=image.id,
            command=("python3", "-I", "-S", "-c", PROGRAM.read_text(encoding="utf-8")),
            cpus=limits.cpus,
            memory_bytes=limits.memory_bytes,
            pids=limits.pids,
            nofile=limits.nofile,
            tmpfs=limits.tmpfs,
            capabilities=CAPABILITIES[role],
            workdir="/",
            stdin_open=True,
        )


def unpack_work(packed: bytes, root: Path) -> None:
    """Unpack what a reference script left below `root`: plain files and folders, or DocumentError.

    The script is root in its container and may have written the archive itself. No link is ever taken, since a
    chain of links leads past `tarfile`'s own filter in some releases of Python (CVE-2025-4517).
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(root, filter=_plain)
    except (tarfile.TarError, OSError, ValueError) as error:
        sentence = "a reference script may leave plain files and folders, and nothing else"
        raise refuse("certification.not_a_file", sentence, detail=str(error)[:500]) from error


def _plain(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
    if not (member.isreg() or member.isdir()):
        raise tarfile.SpecialFileError(member)
    return tarfile.data_filter(member, path)


def _packed(sources: Iterable[tuple[Path, str]]) -> tuple[bytes, dict[str, int]]:
    """A tar of the sources (path, name in the archive; what is missing is left out), and what to make inside."""
    sparse: dict[str, int] = {}

    def send(member: tarfile.TarInfo, left_out: frozenset[str]) -> tarfile.TarInfo | None:
        if left_out.intersection(member.name.split("/")):
            return None
        if member.isreg() and member.size > SENT_BYTES:
            sparse[f"/{member.name}"], member.size = member.size, 0
        member.uid = member.gid = 0
        return member

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for source, name in sources:
            if source.exists() or source.is_symlink():
                archive.add(source, arcname=name, filter=partial(send, left_out=left_out_of(source)))
    return packed.getvalue(), sparse


def _send(api: docker.APIClient, container_id: str, data: bytes) -> None:
    """Write the container's standard input and close it. docker-py gives the write half only as `_sock`."""
    with engine_call("attach"):
        stream: Any = api.attach_socket(container_id, params={"stdin": 1, "stream": 1})
        try:
            stream._sock.sendall(data)
        finally:
            stream._sock.close()
            stream._response.close()
