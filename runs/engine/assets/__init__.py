"""What a run needs on this worker beside the code: the harness environment and the images."""

from dataclasses import dataclass
from pathlib import Path

from runs.engine.assets.errors import AssetError, Problem
from runs.engine.assets.folder import AssetFolder
from runs.engine.assets.harness import HarnessEnvironment, load_harness
from runs.engine.assets.harness_check import verify_harness
from runs.engine.assets.image_lock import ImageLock, LockedImage, read_image_lock, verify_images
from runs.engine.assets.preparing import prepare_assets
from runs.engine.assets.steps import Report

__all__ = [
    "AssetError", "Assets", "HarnessEnvironment", "ImageLock", "LockedImage", "Problem", "Report",
    "load_assets", "prepare", "verify_harness", "verify_images",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Assets:
    harness: HarnessEnvironment
    images: ImageLock

    def digests(self) -> dict[str, object]:
        """What a worker's report says of its assets: `{"harness": {lock, tree}, "images": {role: id}}`."""
        return {
            "harness": {"lock_sha256": self.harness.lock.lock_sha256, "tree_sha256": self.harness.lock.tree_sha256},
            "images": {image.role: image.id for image in self.images.images},
        }


def load_assets(root: Path) -> Assets:
    """What is locked in the assets folder (settings.ASSETS), read but not verified.

    `verify_harness` and `verify_images` verify, at every use. Raises AssetError `assets.not_prepared`,
    `harness.lock_changed`, `image.lock_changed`.
    """
    folder = AssetFolder(root)
    return Assets(load_harness(folder), read_image_lock(folder.image_lock))


def prepare(root: Path, *, offline: bool, report: Report) -> Assets:
    """Build what is missing, verify what is there, and return it. Idempotent; one at a time per assets folder.

    `report` gets one line per step. Raises AssetError; what was finished before stays and is used next time.
    """
    folder = AssetFolder(root)
    prepare_assets(folder, offline=offline, report=report)
    return load_assets(root)
