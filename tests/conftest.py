"""The gate of the real parts: skipped with a reason by a plain pytest, never silently by script/test."""

import os
import tempfile
from pathlib import Path

import pytest

GATE = "--run-harbor-compatibility"
MARK = "harbor_compatibility"

# Tests never touch the data of a site that runs from this checkout, but share its prepared assets.
_DATA = Path(os.environ.get("BENCHSITE_DATA", Path(__file__).parent.parent / ".benchsite"))
os.environ.setdefault("BENCHSITE_ASSETS", str(_DATA / "assets"))
os.environ["BENCHSITE_DATA"] = tempfile.mkdtemp(prefix="benchsite-test-")
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"  # playwright's loop runs in the test's thread


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(GATE, action="store_true", help="run the tests that need the real engine, assets and Harbor")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if MARK in item.keywords or "browser" in item.keywords:
            item.add_marker(pytest.mark.xdist_group("real-parts"))  # two cores: real parts run one after another
    if config.getoption(GATE):
        return
    skip = pytest.mark.skip(reason=f"needs the real engine and Harbor: run with {GATE}")
    for item in items:
        if MARK in item.keywords:
            item.add_marker(skip)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A gate whose tests were all skipped proves nothing, so it fails."""
    if not session.config.getoption(GATE) or hasattr(session.config, "workerinput"):
        return
    gate = [item for item in session.items if MARK in item.keywords]
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = {report.nodeid for report in reporter.stats.get("skipped", [])} if reporter else set()
    if gate and all(item.nodeid in skipped for item in gate):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
