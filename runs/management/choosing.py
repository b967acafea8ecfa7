"""Which run does a command line ask for? The arguments of ``preview`` and ``start``, resolved to rows."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from runs import registry
from runs.models import Preview
from runs.preview import make_preview

PROFILE = "environment-smoke"


def add_choice(parser: CommandParser) -> None:
    """Arguments that say what to run; all but the endpoint have a default."""
    parser.add_argument("--profile", default=PROFILE, help="profile name or content hash")
    parser.add_argument("--endpoint", help="name of a registered endpoint")
    parser.add_argument("--worker", default=settings.WORKER_NAME, help="worker host that executes it")
    parser.add_argument("--task", action="append", help="only this task of the profile; may be repeated")
    parser.add_argument("--max-trial-seconds", type=int, help="a shorter limit than the profile's")
    parser.add_argument("--max-steps", type=int, help="fewer agent steps than the profile's")


def preview_of(user: User, options: dict[str, Any]) -> Preview:
    """Make the preview that the arguments describe. Raises ``BadInput`` with the remedy."""
    profile = registry.find_profile(options["profile"])
    return make_preview(
        user=user,
        profile=profile,
        bundle=registry.bundle_of(profile),
        endpoint=registry.find_endpoint(options["endpoint"] or ""),
        worker=registry.find_worker(options["worker"]),
        tasks=options["task"],
        max_trial_seconds=options["max_trial_seconds"],
        max_steps=options["max_steps"],
    )
