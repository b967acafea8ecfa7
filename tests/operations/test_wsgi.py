"""A worker of the site is ready when it listens: nobody waits for what it has yet to load."""

import subprocess
import sys

from tests.production.sites import ROOT

LOADED = "import sys; import benchsite.wsgi; print('runs.web.views.run_page' in sys.modules)"


def test_every_page_is_loaded_before_the_first_request() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]
