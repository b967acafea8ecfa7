"""Checks that fail for one cause are one row; every check is still counted, and commands still give each of them."""

from dataclasses import replace

from runs.models import Preview, Worker
from runs.services import previewing
from runs.web.presenting.check_rows import check_rows, check_word
from tests.pages.conftest import Browser
from tests.pages.factories import Site, make_run
from tests.pages.runs.test_previews import page
from tests.pages.runs.test_run_page import plain


def never_reported(site: Site) -> Preview:
    worker = Worker.objects.create(name="wroker-1")
    return previewing.make_preview(user=site.operator, choice=replace(site.choice, worker=worker))


def test_a_worker_without_a_report_blocks_once_and_names_its_remedy(site: Site, browse: Browser) -> None:
    text = plain(page(browse("operator"), never_reported(site)))
    assert text.count("Blocking.") == 1
    assert "Worker wroker-1 never reported. Without its report 8 other checks could not be made" in text
    assert "Run manage.py prepare on that host, then manage.py worker --report." in text
    assert "Nine checks block the start for one reason. It names its remedy." in text
    assert "Not known: this worker never reported what it can enforce." in text


def test_the_head_counts_every_check_and_adds_up(site: Site, browse: Browser) -> None:
    made = never_reported(site)
    text = plain(page(browse("operator"), made))
    assert "18 checks at" in text and "8 passed, 1 to note, 9 block for one reason." in text
    assert len(made.checks) == 18 == 8 + 1 + 9


def test_what_follows_stands_under_its_cause_by_name(site: Site) -> None:
    cause, *rest = check_rows(never_reported(site).checks)
    assert [name for name, _ in cause.because] == [
        "Harness adapter",
        "Agent's version",
        "Harness lock",
        "Harness tree",
        "Agent image",
        "Gateway image",
        "Verifier image",
        "Worker's capabilities",
    ]
    assert [row.name for row in rest if row.icon != "held"] == ["Worker alive"]


def test_the_stored_checks_keep_their_codes(site: Site) -> None:
    codes = [
        check["code"] for check in never_reported(site).checks if check["level"] == "block" and not check["passed"]
    ]
    assert codes.count("spec.no_harness") == 3 and codes.count("spec.no_image") == 3
    assert {"worker.no_report", "spec.no_capabilities", "spec.agent_mismatch"} < set(codes)


def test_a_prepared_worker_that_never_reported_is_only_asked_to_report(site: Site, browse: Browser) -> None:
    Worker.objects.filter(pk=site.worker.pk).update(report="", reported_at=None, capability_sha256="")
    site.worker.refresh_from_db()
    text = plain(page(browse("operator"), previewing.make_preview(user=site.operator, choice=site.choice)))
    assert "Without its report 1 other check could not be made" in text
    assert "Run manage.py worker --report there, or start the worker." in text


def test_a_worker_that_reported_and_prepared_nothing_is_one_row_too(site: Site) -> None:
    site.worker.harness_locks.update(current=False)
    site.worker.image_locks.update(current=False)
    cause, *rest = check_rows(previewing.make_preview(user=site.operator, choice=site.choice).checks)
    assert (cause.name, len(cause.because)) == ("Prepared assets", 7)
    assert "so 7 checks cannot hold" in cause.found
    assert not [row for row in rest if row.icon == "blocked"]


def test_an_agent_of_another_version_is_a_cause_of_its_own(site: Site) -> None:
    """Only where no harness is at all does it follow."""
    checks = [
        {"name": name, "passed": False, "code": code, "detail": "d", "remedy": "", "level": "block"}
        for name, code in (
            ("spec: harness.agent_version", "spec.agent_mismatch"),
            ("worker report", "worker.no_report"),
        )
    ]
    assert [row.icon for row in check_rows(checks)] == ["blocked", "blocked"]


def test_one_missing_image_keeps_its_own_row(site: Site) -> None:
    site.worker.image_locks.filter(role="verifier").update(current=False)
    first = check_rows(previewing.make_preview(user=site.operator, choice=site.choice).checks)[0]
    assert (first.name, first.because) == ("Verifier image", ())


def test_no_name_of_a_check_is_a_path(site: Site) -> None:
    assert check_word("spec: worker.capability_sha256") == "Worker's capabilities"
    assert check_word("worker cpus") == "Worker's CPUs"


def test_one_run_before_this_one_is_one(site: Site) -> None:
    make_run(site, "queued")
    checks = previewing.make_preview(user=site.operator, choice=site.choice).checks
    assert [check["detail"] for check in checks if check["name"] == "worker idle"] == ["1 run is before this one."]
