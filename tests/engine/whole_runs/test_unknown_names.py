"""A name that nobody knows, through `manage.py start`: one sentence with what is known and the remedy; exit 2.

Unknown profiles, endpoints, workers, tasks and users also with --json: tests/runs/test_commands.py.
"""

import pytest

from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE
from runs.models import Preview, Run
from runs.services import registry
from tests.runs.sites import ready_site
from tests.runs.test_commands import command

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--profile", "nonesuch"], ["nonesuch", "known here: environment-smoke", "manage.py profile import"]),
        (["--endpoint", "nonesuch"], ["nonesuch", "known here: scripted"]),
        (["--endpoint", "scripted", "--task", "nonesuch"], ["tasks[0]", "ledger-totals, config-merge, file-tree"]),
        (["--endpoint", "scripted", "--worker", "nonesuch"], ["nonesuch", "known here: local", "manage.py worker"]),
    ],
)
def test_a_name_that_nobody_knows_starts_nothing(arguments: list[str], words: list[str]) -> None:
    ready_site()
    done = command("start", *arguments)
    (sentence,) = done.err.splitlines()
    assert done.code == 2 and done.out == ""
    assert all(word in sentence for word in words), sentence
    assert Run.objects.count() == Preview.objects.count() == 0


def test_every_field_that_is_wrong_is_named_not_only_the_first() -> None:
    ready_site()
    done = command("preview", "--endpoint", "scripted", "--max-steps", "0", "--task", "nonesuch")
    assert done.code == 2 and done.err.startswith("max_steps: ") and "\nalso: tasks[0]: " in done.err


def test_a_profile_whose_bundle_is_not_here_starts_nothing() -> None:
    registry.store_profile((ENVIRONMENT_SMOKE / "profile.json").read_bytes(), user=None)
    done = command("start", "--endpoint", "scripted")
    (sentence,) = done.err.splitlines()
    assert done.code == 2 and done.out == ""
    assert "no bundle named" in sentence and "manage.py bundle import" in sentence
    assert Run.objects.count() == 0
