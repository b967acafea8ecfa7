"""What must be known of a worker and an endpoint to resolve a spec: plain values, from any source."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from benchsite.lib.problems import Problem
from runs.documents.bundle.manifest import ROLES, LoadedBundle
from runs.documents.endpoints import EndpointRecord
from runs.documents.profile.v2 import ProfileV2, Source
from runs.documents.sampling import Sampling

# The commit of each release of Harbor whose source was read and held against what runs.
HARBOR_SOURCE = "https://github.com/laude-institute/harbor"
HARBOR_COMMITS = {"0.22.0": "5c364a538e0af19eb58a53fdb895d7c0f974cef5"}

_SHA256 = re.compile(r"[0-9a-f]{64}")
_IMAGE_ID = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class HarnessIdentity:
    """The worker's current harness lock."""

    lock_sha256: str
    tree_sha256: str
    harbor: str
    agent: str
    agent_version: str
    adapter_sha256: str
    python: str


@dataclass(frozen=True, slots=True)
class ImageIdentity:
    """What the worker's image lock says of one role: `sha256:<id>` and the recipe it was built from."""

    image_id: str
    recipe_sha256: str


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """The worker and the digest of its current capability report."""

    name: str
    capability_sha256: str


@dataclass(frozen=True, slots=True)
class EndpointVersion:
    """A registered endpoint: its record and the record's version."""

    record: EndpointRecord
    version: int


def bundle_problems(profile: ProfileV2, bundle: LoadedBundle) -> Iterator[Problem]:
    """Whether the bundle is the one that the profile binds, and knows its cases and its agent."""
    suite = profile.suites.environment
    wanted, manifest = suite.task_bundle, bundle.manifest
    if wanted.manifest_sha256 != bundle.manifest_sha256:
        sentence = "the profile binds another manifest than this bundle's"
        yield Problem("bundle.manifest_sha256", "spec.bundle_mismatch", sentence)
    if (wanted.name, wanted.revision) != (manifest.name, manifest.revision):
        yield Problem("bundle.name", "spec.bundle_mismatch", "the profile binds another bundle or revision")
    for index, case in enumerate(suite.cases):
        if case not in bundle.task_names:
            path = f"suites.environment.cases[{index}]"
            yield Problem(path, "spec.unknown_task", "the bundle has no task of this name")
    if suite.agent.version != manifest.agent.version:
        yield Problem("bundle.agent.version", "spec.agent_mismatch", "profile and bundle lock different agents")


def harness_problems(bundle: LoadedBundle, harness: HarnessIdentity) -> Iterator[Problem]:
    """Whether the harness is locked and runs the bundle's agent."""
    for field in ("lock_sha256", "tree_sha256", "adapter_sha256"):
        if not _SHA256.fullmatch(asdict(harness)[field]):
            yield Problem(
                f"harness.{field}", "spec.no_harness", "the worker has no harness lock; run manage.py prepare"
            )
    agent = bundle.manifest.agent
    if (harness.agent, harness.agent_version) != (agent.name, agent.version):
        yield Problem("harness.agent_version", "spec.agent_mismatch", "the harness has another agent than the bundle")


def adapter_problems(profile: ProfileV2, harness: HarnessIdentity) -> Iterator[Problem]:
    """Whether the profile's one adapter is the Harbor that the harness runs: same source, and the release's commit."""
    for name, adapter in profile.adapters.items():
        path = f"adapters.{name}"
        if name != "harbor" or not isinstance(adapter, Source) or adapter.kind != "git":
            yield Problem(path, "spec.unknown_adapter", "the only adapter is harbor, of kind git")
        elif adapter.source != HARBOR_SOURCE:
            yield Problem(f"{path}.source", "spec.adapter_mismatch", f"the harness runs Harbor of {HARBOR_SOURCE}")
        elif harness.harbor and adapter.revision != HARBOR_COMMITS.get(harness.harbor):
            known = HARBOR_COMMITS.get(harness.harbor, "not known here")
            sentence = f"the harness runs Harbor {harness.harbor}, whose commit is {known}"
            yield Problem(f"{path}.revision", "spec.adapter_mismatch", sentence)


def image_problems(bundle: LoadedBundle, images: Mapping[str, ImageIdentity]) -> Iterator[Problem]:
    """Whether each role has an image, pinned by id, that was built from the manifest's recipe."""
    recipes = {role: getattr(bundle.manifest.images, role).recipe_sha256 for role in ROLES}
    for role in ROLES:
        if role not in images:
            yield Problem(f"images.{role}", "spec.no_image", "the worker has no such image; run manage.py prepare")
        elif not _IMAGE_ID.fullmatch(images[role].image_id):
            yield Problem(f"images.{role}", "mutable_image", "the image is not given by its id sha256:<64 digits>")
        elif images[role].recipe_sha256 != recipes[role]:
            sentence = "the image was built from another recipe than the bundle's; run manage.py prepare"
            yield Problem(f"images.{role}", "spec.recipe_mismatch", sentence)


def worker_problems(worker: WorkerIdentity) -> Iterator[Problem]:
    """Whether the worker has said what it can enforce."""
    if not _SHA256.fullmatch(worker.capability_sha256):
        sentence = "the worker has not reported what it can enforce; start it, or run manage.py prepare"
        yield Problem("worker.capability_sha256", "spec.no_capabilities", sentence)


def endpoint_problems(endpoint: EndpointVersion, sampling: Sampling) -> Iterator[Problem]:
    """Whether the endpoint obeys every control that the run fixes; nothing is ever dropped silently."""
    for control in ("max_tokens", *sampling.fixed):
        if control not in endpoint.record.controls:
            who = "every run" if control == "max_tokens" else "the profile"
            sentence = f"the endpoint does not declare that it obeys {control}, which {who} sets"
            yield Problem("endpoint.controls", "spec.control_not_declared", sentence)
