"""The settings of a `manage.py mcp` process that works on a test's own database."""

import os

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

DATABASES["default"]["NAME"] = os.environ["TEST_DATABASE"]
