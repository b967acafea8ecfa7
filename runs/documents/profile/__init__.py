"""Benchmark profiles, one module for each schema version, and what the versions share."""

from collections.abc import Iterator

from benchsite.lib.canonical import JsonObject, content_sha256
from benchsite.lib.problems import Location, Problem


def without_adapter_tag(location: Location) -> Location:
    """Without the union's tag, which stands behind an adapter's name."""
    if location[:1] == ("adapters",) and len(location) > 2:
        return (*location[:2], *location[3:])
    return location


def digest_problems(document: JsonObject) -> Iterator[Problem]:
    """Whether the profile's hash of itself is that of its content."""
    stated = document.get("content_sha256")
    if isinstance(stated, str) and stated != (actual := content_sha256(document)):
        sentence = f"the stated hash is not that of the content, which is {actual}"
        yield Problem("content_sha256", "profile_digest_mismatch", sentence)
