"""Fetches the one imported bundle of the site that the environment names, once for each line of its input.

After each time it prints the hash of what the folder holds, or the code of what went wrong.
"""

import os
import sys


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchsite.settings"
    import django

    django.setup()
    from django.conf import settings

    from runs.documents.bundle.tree import read_tree
    from runs.models import TaskBundle
    from runs.services.bundle_files import BundleFilesUnusable, BundleStorageFails, bundle_folder

    bundle = TaskBundle.objects.get(packaged="")
    print("ready", flush=True)
    for _ in sys.stdin:
        try:
            with bundle_folder(bundle, settings.DATA) as folder:
                tasks = [read_tree(task) for task in sorted((folder / "tasks").iterdir())]
            print(hash_of([task.records for task in tasks]), flush=True)
        except (BundleFilesUnusable, BundleStorageFails) as error:
            print(error.code, flush=True)


def hash_of(found: object) -> str:
    import hashlib

    return hashlib.sha256(repr(found).encode()).hexdigest()


if __name__ == "__main__":
    main()
