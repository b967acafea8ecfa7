"""`python -m runs.engine.assets.relock ROLE…` writes what a recipe's packages resolve to today, for review."""

import sys
import tempfile
from pathlib import Path

from runs.engine.assets.debian import architecture, download_packages, list_packages
from runs.images.recipes import ROLES, read_recipe


def main(names: list[str]) -> None:
    for role in (role for role in ROLES if role in names):
        recipe = read_recipe(role)
        with tempfile.TemporaryDirectory() as scratch:
            archive = Path(scratch) / "packages.tgz"
            download_packages(recipe, archive, Path(scratch) / "root")
            rows = [" ".join(package) for package in list_packages(archive)]
        recipe.package_lock(architecture()).write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
