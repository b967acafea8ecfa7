"""Finds runs by a whole id or by its beginning, for pages, commands and tools."""

from django.db.models import QuerySet

from runs.models import Run
from runs.services.refusals import BadInput, quoted

SHORTEST = 8


def begins_with(runs: "QuerySet[Run]", key: str) -> "QuerySet[Run]":
    """Those of ``runs`` whose id is ``key`` or begins with it: 8 to 32 hex characters, hyphens and case ignored.

    Raises BadInput ``input.bad_run_id`` for what cannot be the beginning of an id.
    """
    short = key.replace("-", "").lower()
    if not SHORTEST <= len(short) <= 32 or set(short) - set("0123456789abcdef"):
        sentence = f"{quoted(key)} is no run id; give at least its first {SHORTEST} characters, such as 0f3a9c21."
        raise BadInput(sentence, code="input.bad_run_id")
    return runs.filter(pk__gte=short.ljust(32, "0"), pk__lte=short.ljust(32, "f"))


def find_run(key: str) -> Run:
    """The run whose id is ``key`` or begins with it. Raises BadInput, ``input.unknown_run`` for none or several."""
    runs = Run.objects.select_related("profile", "bundle", "endpoint", "worker")
    found = list(begins_with(runs, key)[:2])
    if len(found) != 1:
        what = "There is no such run" if not found else "Several runs begin like this; give more characters"
        raise BadInput(f"{what}: {key}. The newest ones: manage.py status", code="input.unknown_run")
    return found[0]
