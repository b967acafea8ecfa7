"""The gate of the real parts: skipped with a reason by a plain pytest, never silently by script/test."""

import functools
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

GATE = "--run-harbor-compatibility"
MARK = "harbor_compatibility"

# Tests never touch the data of a site that runs from this checkout, but share its prepared assets.
_DATA = Path(os.environ.get("BENCHSITE_DATA", Path(__file__).parent.parent / ".benchsite"))
os.environ.setdefault("BENCHSITE_ASSETS", str(_DATA / "assets"))
os.environ["BENCHSITE_DATA"] = _OWN_DATA = tempfile.mkdtemp(prefix="benchsite-test-")
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"  # playwright's loop runs in the test's thread

# A loaded machine is no reason to fail. A test's settings are those of the moment at which its module is imported.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_unconfigure() -> None:
    shutil.rmtree(_OWN_DATA, ignore_errors=True)  # here, since xdist's workers end without Python's exit handlers


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(GATE, action="store_true", help="run the tests that need the real engine, assets and Harbor")


class OneAfterAnother(LoadScopeScheduling):  # type: ignore[misc]
    """Real parts run in one process, one after another: there are two cores, and one site for the whole gate.

    xdist's own groups are without effect under pytest 9, so a file is known by the marks that it names.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = self.config.rootpath / nodeid.partition("::")[0]
        return "real parts" if _names_real_parts(path) else nodeid


@functools.cache
def _names_real_parts(path: Path) -> bool:
    text = path.read_text()
    return f"mark.{MARK}" in text or "mark.browser" in text


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    return OneAfterAnother(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption(GATE):
        return
    skip = pytest.mark.skip(reason=f"needs the real engine and Harbor: run with {GATE}")
    for item in items:
        if is_gate(item):
            item.add_marker(skip)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In the gate a missing asset or capability is a failure: a gate that skips itself proves nothing."""
    report = yield
    if report.skipped and is_gate(item) and item.config.getoption(GATE):
        report.outcome = "failed"
        report.longrepr = f"a test of the gate was skipped: {report.longrepr}"
    return report


def is_gate(item: pytest.Item) -> bool:
    return MARK in item.keywords or "browser" in item.keywords
