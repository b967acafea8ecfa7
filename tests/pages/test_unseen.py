"""Characters that nothing is seen of are visible marks wherever text from elsewhere is shown."""

import io
import json
import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from benchsite.lib.visible_text import is_seen, visible
from evidence.models import LegalHold
from evidence.trajectory.text import safe
from runs.management.escaping import escape_for_terminal
from runs.models import LogLine, OwnedResource, Run, TaskBundle
from tests.commands.calling import command
from tests.pages.conftest import Browser
from tests.pages.evidence_files import keep, native_trajectory
from tests.pages.factories import Site, make_run

# Default-ignorable of Unicode 16 (DerivedCoreProperties), whatever the category: first and last of each range.
_IGNORABLE = (
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
IGNORABLE = {chr(point) for first, last in _IGNORABLE for point in range(first, last + 1)}
OF_KIND = {
    chr(point) for point in range(sys.maxunicode + 1) if unicodedata.category(chr(point)) in ("Cc", "Cf", "Zl", "Zp")
}
UNSEEN = (IGNORABLE | OF_KIND) - {"\n", "\t"}
# One text of a page that holds every sort: all but the many of the last range.
SOME = "".join(sorted(char for char in UNSEEN if not 0xE0080 <= ord(char) < 0xE0100 and ord(char) < 0xE0104))
TAGGED = "ok" + "".join(chr(0xE0000 + ord(char)) for char in "rm -rf /")


def unseen_in(html: str) -> set[str]:
    return set(html.replace("\r\n", "\n")) & UNSEEN


def with_unseen(value: Any) -> Any:
    """A document with unseen characters in every text of it, but for those that say what it is."""
    match value:
        case dict():
            structure = ("role", "type", "trajectory_format", "schema_version", "source", "id", "tool_call_id")
            return {key: part if key in structure else with_unseen(part) for key, part in value.items()}
        case list():
            return [with_unseen(part) for part in value]
        case str():
            return f"{value} {TAGGED} {SOME}"
    return value


ATIF = {
    "schema_version": "ATIF-v1.7",
    "agent": {"name": "mini-swe-agent", "version": "2.4.6"},
    "steps": [
        {"step_id": 1, "source": "user", "message": "Do it."},
        {
            "step_id": 2, "source": "agent", "message": "Thought.", "reasoning_content": "Because.", "model_name": "m",
            "timestamp": "2026-11-28T14:05:00Z",
            "tool_calls": [{"tool_call_id": "a", "function_name": "bash", "arguments": {"command": "ls", "x": "y"}}],
            "observation": {"results": [{"source_call_id": "a", "content": "there"}]},
        },
    ],
}  # fmt: skip


@pytest.mark.parametrize("show", [visible, safe, escape_for_terminal], ids=["pages", "trajectories", "terminals"])
def test_every_unseen_character_becomes_a_mark(show: Any) -> None:
    for char in UNSEEN:
        shown = show(f"a{char}b")
        assert not set(shown) & UNSEEN and len(shown) > 2, f"U+{ord(char):04X}"
        assert shown.startswith("a") and shown.endswith("b")


@given(st.text(alphabet=st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(sorted(UNSEEN)))))
def test_nothing_that_was_seen_is_lost(text: str) -> None:
    assert not set(visible(text)) & UNSEEN - {"\ufe0e", "\ufe0f"}
    before = [" ", *text]
    kept = [char for char, left in zip(text, before, strict=False) if is_seen(char, left) or char in "\n\t"]
    rest = iter(visible(text))
    assert all(char in rest for char in kept)


def test_words_in_tags_can_be_read() -> None:
    marks = "".join(f"⟨U+{0xE0000 + ord(char):X}⟩" for char in "rm -rf /")
    assert visible(TAGGED) == safe(TAGGED) == f"ok{marks}"


@pytest.mark.parametrize(
    "hidden", ["\x1b]0;rm -rf /\x07", "\x1b]8;;http://evil\x1b\\here", "\x1bPq rm \x1b\\", "\x9b31m"]
)
def test_what_a_terminal_would_swallow_with_its_words_is_shown(hidden: str) -> None:
    """A title or a link of a terminal holds words that the model read; only colours and moves are left out."""
    shown = safe(f"a{hidden}b")
    assert all(char in shown for char in hidden if char.isprintable())
    assert safe("a\x1b[1;31mred\x1b[0m\x1b[2Kb") == "aredb"


@pytest.mark.parametrize("document", [native_trajectory(), ATIF], ids=["native", "ATIF"])
def test_no_page_of_a_trajectory_hides_anything(site: Site, browse: Browser, document: Any) -> None:
    run = make_run(site, "passed")
    data = json.dumps(with_unseen(document)).encode()
    keep(run, {"trials/1/kept/agent/mini-swe-agent.trajectory.json": data})
    for path in (f"/runs/{run.key}/trials/1/trajectory/", f"/runs/{run.key}/trials/1/"):
        html = browse("operator").get(path).content.decode()
        assert not unseen_in(html) and "⟨U+E0072⟩⟨U+E006D⟩" in html, path


def test_neither_verifier_nor_reward_nor_file_hides_anything(site: Site, browse: Browser) -> None:
    run = make_run(site, "error")
    files = [
        f"trials/1/kept/{name}" for name in ("verifier/test-stdout.txt", "verifier/reward.json", "artifacts/a.txt")
    ]
    keep(run, dict.fromkeys(files, f"5 passed {SOME}{TAGGED}".encode()))
    for path in [
        f"/runs/{run.key}/trials/1/",
        *(f"/evidence/{run.artifacts.get(path=name).key}/text/" for name in files),
    ]:
        html = browse("operator").get(path).content.decode()
        assert not unseen_in(html) and "⟨U+E0072⟩⟨U+E006D⟩" in html, path


def test_no_log_hides_anything(site: Site, browse: Browser) -> None:
    run = make_run(site, "error")
    LogLine.objects.filter(run=run).update(text=f"a line {SOME}{TAGGED}"[:4000])
    html = browse("operator").get(f"/runs/{run.key}/").content.decode()
    assert not unseen_in(html) and "⟨U+E0072⟩" in html
    for terminal in (False, True):
        printed = command("logs", run.key, terminal=terminal).out
        assert not unseen_in(printed.replace("\x1b[", "")) and "\\U000e0072" in printed


def test_nothing_that_people_or_files_say_hides_anything(site: Site, browse: Browser) -> None:
    run = make_run(site, "error")
    hidden = f"said {TAGGED}\u200b\u061c\ufeff"
    type(site.profile).objects.update(description=hidden)
    manifest = json.dumps({"description": hidden, "tasks": [{"name": hidden, "title": hidden}]})
    TaskBundle.objects.create(
        name="odd", revision=1, manifest=manifest, manifest_sha256="0" * 64, created_by_name=hidden
    )
    Run.objects.filter(pk=run.pk).update(failure_detail=hidden)
    OwnedResource.objects.filter(run=run).update(detail=hidden)
    run.trials.update(task_name=hidden)
    LegalHold.objects.create(run=run, reason=hidden, placed_by_name="ada")
    site.admin.is_staff = site.admin.is_superuser = True
    site.admin.save()
    client = browse("admin")
    for path in (
        "/profiles/",
        f"/profiles/{site.profile.pk}/",
        "/bundles/odd/1/",
        f"/runs/{run.key}/",
        f"/runs/{run.key}/evidence/",
        f"/runs/compare/?baseline={run.key}&candidate={run.key}&show=all",
        f"/admin/runs/run/{run.pk}/change/",
        "/admin/runs/trial/",
        f"/admin/runs/ownedresource/{run.resources.first().pk}/change/",  # type: ignore[union-attr]
    ):
        html = client.get(path).content.decode()
        assert not unseen_in(html) and "⟨U+E0072⟩" in html, path


def test_a_terminal_that_is_written_to_directly_shows_them_too() -> None:
    out = io.StringIO()
    Console(file=out, width=200).print(escape_for_terminal(TAGGED), markup=False)
    assert not unseen_in(out.getvalue())
