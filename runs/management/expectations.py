"""What must this host be like, by a spec or by the rows that the next spec will be made of?"""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from benchsite.lib.canonical import as_object, load_object
from benchsite.lib.problems import DocumentError
from runs.management.choosing import PROFILE
from runs.models import Worker
from runs.services import locks, registry
from runs.services.refusals import BadInput

if TYPE_CHECKING:
    from runs.engine.preflight.host_preflight import Expected


def expected_of(worker: Worker | None, spec: dict[str, Any] | None) -> "Expected":
    """Of a spec, what it is bound to; without one, what the worker's rows and the packaged bundle say."""
    from runs.engine.preflight.host_preflight import Expected  # only workers import the engine

    if spec is not None:
        return Expected(
            spec["worker"]["capability_sha256"], spec["harness"]["lock_sha256"], spec["images"], spec["limits"]
        )
    if worker is None:
        return Expected(limits=_ceilings())
    images = {role: image.image_id for role, image in locks.images_of(worker).items()}
    return Expected(worker.capability_sha256, locks.harness_of(worker).lock_sha256, images, _ceilings())


def _ceilings() -> Any:
    """The ceilings of the packaged profile's bundle; None before it was installed."""
    with suppress(BadInput, DocumentError, KeyError):
        manifest = registry.bundle_of(registry.find_profile(PROFILE)).manifest
        return as_object(load_object(manifest.encode())["ceilings"])
    return None
