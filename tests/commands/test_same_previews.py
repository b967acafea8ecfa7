"""The same input gives the same bytes and the same refusals, whichever face it comes through.

A further face is one function and one line in ``FACES``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client

from benchsite.lib.canonical import canonical_bytes
from benchsite.mcp import tools
from benchsite.mcp.tools import call_tool
from runs.models import Endpoint, Preview, Profile, Run, Worker
from runs.services import registry
from tests.commands.calling import command
from tests.documents.samples import PROFILES_V1
from tests.runs.sites import Site, ready_site, report

pytestmark = pytest.mark.django_db


# What stands in a JSON document; the browser and the command line get its text.
type Number = int | float | str | None


@dataclass(frozen=True)
class Wish:
    """What somebody asks for, by names."""

    profile: str = "environment-smoke"
    endpoint: str = "scripted"
    worker: str = "local"
    tasks: tuple[str, ...] = ()
    max_steps: Number = None
    max_trial_seconds: Number = None


# The spec's canonical bytes, or the code of the refusal.
type Outcome = bytes | str
type Face = Callable[[Site, Wish], Outcome]


def by_browser(site: Site, wish: Wish) -> Outcome:
    client = Client()
    client.force_login(site.operator)
    data: dict[str, Any] = {
        "profile": _pk(Profile.objects, wish.profile),
        "endpoint": _pk(Endpoint.objects.filter(active=True), wish.endpoint),
        "worker": _pk(Worker.objects, wish.worker),
        "tasks": list(wish.tasks),
    }
    data |= {name: value for name in ("max_steps", "max_trial_seconds") if (value := getattr(wish, name)) is not None}
    response = client.post("/runs/new/", data)
    if response.status_code == 302:
        return Preview.objects.latest("created_at").spec.encode()
    [error] = [error for found in response.context["form"].errors.as_data().values() for error in found]
    return str(error.code)


def _pk(rows: Any, name: str) -> int | str:
    """The choice that a browser sends for a name: its key, one that nothing has, or nothing."""
    if not name:
        return ""
    found = rows.filter(name=name).order_by("-pk").first() if name.isprintable() else None
    return 999_999 if found is None else int(found.pk)


def by_command(site: Site, wish: Wish) -> Outcome:
    arguments = [f"--profile={wish.profile}", f"--endpoint={wish.endpoint}", f"--worker={wish.worker}"]
    arguments += [f"--task={task}" for task in wish.tasks]
    if wish.max_steps is not None:
        arguments += [f"--max-steps={wish.max_steps}"]
    if wish.max_trial_seconds is not None:
        arguments += [f"--max-trial-seconds={wish.max_trial_seconds}"]
    result = command("preview", *arguments, "--user", site.operator.username, "--json")
    return str(result.json["code"]) if result.code == 2 else canonical_bytes(result.json["spec"])


def by_tool(site: Site, wish: Wish) -> Outcome:
    given: dict[str, Any] = {"profile": wish.profile, "endpoint": wish.endpoint, "worker": wish.worker}
    given |= {"tasks": list(wish.tasks)} if wish.tasks else {}
    given |= {name: value for name in ("max_steps", "max_trial_seconds") if (value := getattr(wish, name)) is not None}
    result = call_tool(site.operator.pk, "preview", given)
    document: Any = result.structured_content
    return str(document["code"]) if result.is_error else canonical_bytes(document["spec"])


FACES: dict[str, Face] = {"browser": by_browser, "command": by_command, "tool": by_tool}
GOOD = {
    "everything as the profile says": Wish(),
    "one task": Wish(tasks=("file-tree",)),
    "tasks in another order": Wish(tasks=("file-tree", "ledger-totals")),
    "fewer steps": Wish(max_steps=1),
    "less time": Wish(max_trial_seconds=60),
    "the profile's own limits": Wish(max_steps=32, max_trial_seconds=540),
    "everything narrower": Wish(tasks=("config-merge",), max_steps=5, max_trial_seconds=120),
    "another worker": Wish(worker="second"),
}
BAD = {
    "an unknown task": (Wish(tasks=("nonesuch",)), "spec.task_not_in_profile"),
    "a task twice": (Wish(tasks=("file-tree", "file-tree")), "spec.task_repeated"),
    "more steps than the profile": (Wish(max_steps=33), "spec.wider_than_profile"),
    "no step": (Wish(max_steps=0), "spec.below_minimum"),
    "fewer than no steps": (Wish(max_steps=-1), "spec.below_minimum"),
    "more time than the profile": (Wish(max_trial_seconds=541), "spec.wider_than_profile"),
    "no time": (Wish(max_trial_seconds=0), "spec.below_minimum"),
    "a number in words": (Wish(max_steps="ten"), "input.not_whole"),
    "a number with a fraction": (Wish(max_steps=1.5), "input.not_whole"),
    "a number with an empty fraction": (Wish(max_steps=5.0), "input.not_whole"),
    "a number in powers": (Wish(max_trial_seconds="1e2"), "input.not_whole"),
    "a number with a separator": (Wish(max_trial_seconds="1_0"), "input.not_whole"),
    "a number in other digits": (Wish(max_steps="\u0661\u0662"), "input.not_whole"),
    "a number without end": (Wish(max_steps=10**40), "input.not_whole"),
    "a number below all": (Wish(max_trial_seconds=-(10**40)), "input.not_whole"),
    "no number at all": (Wish(max_steps="nan"), "input.not_whole"),
    "a large number": (Wish(max_steps=10**14), "spec.wider_than_profile"),
    "a task without a name": (Wish(tasks=("",)), "spec.task_not_in_profile"),
    "a task in capitals": (Wish(tasks=("File-Tree",)), "spec.task_not_in_profile"),
    "a task with a step up": (Wish(tasks=("../file-tree",)), "spec.task_not_in_profile"),
    "a known and an unknown task": (Wish(tasks=("file-tree", "x" * 300)), "spec.task_not_in_profile"),
    "more tasks than anybody has": (Wish(tasks=("file-tree",) * 65), "spec.too_many_tasks"),
    "no endpoint": (Wish(endpoint=""), "input.unknown_endpoint"),
    "no worker": (Wish(worker=""), "input.unknown_worker"),
    "no profile": (Wish(profile=""), "input.unknown_profile"),
    "an endpoint of two lines": (Wish(endpoint="scrip\nted"), "input.unknown_endpoint"),
    "an endpoint that writes to a terminal": (Wish(endpoint="\x1b[31m"), "input.unknown_endpoint"),
    "an endpoint with half a character": (Wish(endpoint="\udc80"), "input.unknown_endpoint"),
    "a profile by a hash that nothing has": (Wish(profile="f" * 64), "input.unknown_profile"),
    "a worker with a name longer than any": (Wish(worker="w" * 5000), "input.unknown_worker"),
    "an endpoint in capitals": (Wish(endpoint="SCRIPTED"), "input.unknown_endpoint"),
    "an unknown endpoint": (Wish(endpoint="nonesuch"), "input.unknown_endpoint"),
    "an unknown worker": (Wish(worker="nonesuch"), "input.unknown_worker"),
    "an unknown profile": (Wish(profile="nonesuch"), "input.unknown_profile"),
    "a profile whose suites do not run here": (Wish(profile="scout"), "suite_not_installed"),
}


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(tools, "close_old_connections", lambda: None)  # the test's transaction lives in one
    ready_site("second")
    registry.store_profile((PROFILES_V1 / "scout.json").read_bytes(), user=None)
    return ready_site()


@pytest.mark.parametrize("wish", GOOD.values(), ids=GOOD)
def test_every_face_gives_the_same_bytes(site: Site, wish: Wish) -> None:
    found = {name: face(site, wish) for name, face in FACES.items()}
    assert isinstance(found["command"], bytes) and len(found["command"]) > 500
    assert set(found.values()) == {found["command"]}
    assert Preview.objects.count() == len(FACES) and not Run.objects.exists()


@pytest.mark.parametrize(("wish", "code"), BAD.values(), ids=BAD)
def test_every_face_refuses_with_the_same_code(site: Site, wish: Wish, code: str) -> None:
    assert {name: face(site, wish) for name, face in FACES.items()} == dict.fromkeys(FACES, code)
    assert not Preview.objects.exists()


def test_different_wishes_give_different_bytes(site: Site) -> None:
    wishes = [wish for name, wish in GOOD.items() if name != "the profile's own limits"]
    assert len({by_command(site, wish) for wish in wishes}) == len(wishes)


def test_what_blocks_is_the_same_check_everywhere(site: Site) -> None:
    report(limits=[])
    for face in FACES.values():
        face(site, Wish())
    first, *others = [preview.checks for preview in Preview.objects.all()]
    assert any(check["level"] == "block" and not check["passed"] for check in first)
    assert [[(check["name"], check["passed"], check["code"]) for check in checks] for checks in others] == [
        [(check["name"], check["passed"], check["code"]) for check in first]
    ] * len(others)
