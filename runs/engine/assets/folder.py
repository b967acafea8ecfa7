"""The paths of the assets folder, which the worker's account owns."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class AssetFolder:
    """`root` is settings.ASSETS. Everything under `cache` may be deleted; it is then downloaded again."""

    root: Path

    @property
    def harness(self) -> Path:
        return self.root / "harness"

    @property
    def harness_lock(self) -> Path:
        """The lock of the current environment, which is the folder in `harness` named by its key."""
        return self.root / "harness.json"

    @property
    def image_lock(self) -> Path:
        return self.root / "images.json"

    @property
    def unfinished_import(self) -> Path:
        """What the engine was asked for and is not locked yet; absent when all is."""
        return self.root / "import.json"

    @property
    def packages(self) -> Path:
        return self.root / "cache" / "packages"

    @property
    def wheels(self) -> Path:
        return self.root / "cache" / "wheels"

    @property
    def built_parts(self) -> Path:
        return self.root / "cache" / "built"

    @property
    def pip(self) -> Path:
        return self.root / "cache" / "pip"

    @property
    def work(self) -> Path:
        """Half-built things. Only the holder of the lock uses it, and empties it first."""
        return self.root / "work"

    @property
    def lock(self) -> Path:
        return self.root / "prepare.lock"

    def create(self) -> None:
        for folder in (self.root, self.harness, self.packages, self.wheels, self.built_parts, self.work):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
