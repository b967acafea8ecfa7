"""The paths of the assets folder, which the worker's account owns."""

from pathlib import Path


class AssetFolder:
    """`root` is settings.ASSETS. Everything under `cache` may be deleted; it is then downloaded again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.harness = root / "harness"
        self.harness_lock = root / "harness.json"  # of the current environment: its key names the folder
        self.image_lock = root / "images.json"
        self.unfinished_import = root / "import.json"  # what the engine was asked for and is not locked yet
        self.packages = root / "cache" / "packages"
        self.wheels = root / "cache" / "wheels"
        self.built_parts = root / "cache" / "built"
        self.pip = root / "cache" / "pip"
        self.work = root / "work"  # half-built things; only the holder of the lock uses it, and empties it first
        self.lock = root / "prepare.lock"

    def create(self) -> None:
        for folder in (self.root, self.harness, self.packages, self.wheels, self.built_parts, self.work):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
