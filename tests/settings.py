"""The site's settings for tests, in a data folder of their own.

pytest-django reads the settings before any conftest runs, so the folder has to be chosen here.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

# The prepared assets are shared with the site that runs from this checkout; its data never is.
_DATA = os.environ.get("BENCHSITE_DATA", str(Path(__file__).parent.parent / ".benchsite"))
os.environ.setdefault("BENCHSITE_ASSETS", str(Path(_DATA) / "assets"))

if "BENCHSITE_DATA" not in os.environ:
    os.environ["BENCHSITE_DATA"] = _folder = tempfile.mkdtemp(prefix="benchsite-test-")
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)

from benchsite.settings import *  # noqa: E402, F403
from benchsite.settings import STATIC_ROOT  # noqa: E402

# Nothing is remembered between two requests of a test; what is meant to be has tests of its own.
CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # a real one takes a second per sign-in
Path(STATIC_ROOT).mkdir(parents=True, exist_ok=True)  # as collectstatic leaves it; whitenoise warns otherwise
