"""The options that choose a run, as ``preview``, ``start`` and ``preflight`` take them, resolved to rows."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE
from runs.models import Endpoint, Preview
from runs.services import access, registry
from runs.services.previewing import Choice, make_preview
from runs.services.refusals import BadInput, whole_number

DEFAULT_PROFILE = ENVIRONMENT_SMOKE.name


def add_choice(parser: CommandParser, *, required: bool = True) -> None:
    """Arguments that say what to run; all but the endpoint have a default."""
    parser.add_argument(
        "--profile", default=DEFAULT_PROFILE, metavar="NAME", help="profile, by name or content hash (%(default)s)"
    )
    evaluated = "the registered endpoint whose model is evaluated"
    parser.add_argument("--endpoint", metavar="NAME", help=f"{evaluated}; required" if required else evaluated)
    parser.add_argument(
        "--worker", default=settings.WORKER_NAME, metavar="NAME", help="the worker that executes it (%(default)s)"
    )
    parser.add_argument(
        "--task", action="append", metavar="NAME", help="only this task of the profile; may be repeated"
    )
    # Read as text and parsed later, so that the refusal is the same as in the browser and over MCP.
    parser.add_argument(
        "--max-trial-seconds", metavar="S", help="time limit of each trial in seconds, at most the profile's"
    )
    parser.add_argument("--max-steps", metavar="N", help="limit of agent steps in each trial, at most the profile's")


def is_chosen(options: dict[str, Any]) -> bool:
    """Whether the arguments describe a run, not only a worker."""
    narrowing = ("endpoint", "task", "max_trial_seconds", "max_steps")
    return any(options[name] is not None for name in narrowing) or options["profile"] != DEFAULT_PROFILE


def choice_of(options: dict[str, Any]) -> Choice:
    """The rows that the arguments name. Raises ``BadInput`` with the remedy."""
    profile = registry.find_profile(options["profile"])
    return Choice(
        profile=profile,
        bundle=registry.bundle_of(profile),
        endpoint=_endpoint(options["endpoint"]),
        worker=registry.find_worker(options["worker"]),
        tasks=options["task"],
        max_trial_seconds=_number(options, "max_trial_seconds"),
        max_steps=_number(options, "max_steps"),
    )


def _number(options: dict[str, Any], name: str) -> int | None:
    return None if options[name] is None else whole_number(name, str(options[name]))


def _endpoint(name: str | None) -> Endpoint:
    if name:
        return registry.find_endpoint(name)
    known = ", ".join(Endpoint.objects.filter(active=True).order_by("name").values_list("name", flat=True))
    remedy = (
        f"known here: {known}."
        if known
        else "none is known here yet; register one with manage.py endpoint register FILE."
    )
    raise BadInput(f"Give --endpoint NAME; {remedy}", code="input.unknown_endpoint")


def preview_of(user: User, options: dict[str, Any]) -> Preview:
    """Make the preview that the arguments describe. Raises ``BadInput`` with the remedy."""
    access.require(user, access.START)  # whoever may not start is not told which names exist, as by the other faces
    return make_preview(user=user, choice=choice_of(options))
