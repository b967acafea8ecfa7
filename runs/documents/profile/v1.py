"""The old profile, `anvil-serving.benchmark-profile/v1`: its exact three-suite rule. It never runs here.

The rules are those of the old document; the named codes (`mutable_adapter`, `mutable_image`, `unknown_suite`,
`missing_scoring_policy`, `profile_digest_mismatch`) are too, and everything else is `bad_profile.<kind>`.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from benchsite.lib.canonical import Json, JsonObject, as_list, as_object
from benchsite.lib.closed import Closed, Identifier, Share, form, validate
from benchsite.lib.problems import Problem, path_of
from runs.documents.profile import digest_problems, without_adapter_tag

SCHEMA = "anvil-serving.benchmark-profile/v1"
SUITES = ("context", "agentic", "swe")
_REVISION = r"^[0-9a-f]{40,64}$"
_IMAGE = r"^[^\s@]+@sha256:[0-9a-f]{64}$"

Count = Annotated[int, Field(ge=1)]
Steps = Annotated[int, Field(ge=1, le=1_000)]
Tokens = Annotated[int, Field(ge=1, le=65_536)]
Bucket = Annotated[int, Field(ge=128, le=1_048_576)]


class Source(Closed):
    """A git repository or a data set, pinned by revision."""

    kind: Literal["git", "dataset"]
    source: Annotated[str, form("^https://", "an address that begins with https://")]
    revision: Annotated[str, form(_REVISION, "a commit hash of 40 to 64 lower-case hexadecimal digits")]


class Image(Closed):
    """A container image, pinned by digest."""

    kind: Literal["image"]
    image: Annotated[str, form(_IMAGE, "an image pinned as name@sha256: and 64 hexadecimal digits")]


class Scoring(BaseModel):
    """Open but for the floor."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    pass_rate_floor: Share


class ContextScoring(Scoring):
    """The floor, and how far a bucket may fall below the baseline."""

    baseline_bucket: Bucket
    max_relative_drop: Share


class Suite(Closed):
    """What every suite of v1 states."""

    cases: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
    repetitions: Annotated[int, Field(ge=1, le=20)]
    timeout_s: Annotated[int, Field(ge=1, le=604_800)]
    scoring: Scoring
    requirements: dict[str, object]
    adapters: list[str]


class Context(Suite):
    """Questions about long inputs."""

    scoring: ContextScoring
    token_buckets: Annotated[list[Bucket], Field(min_length=1)]
    positions: Annotated[list[Share], Field(min_length=1)]
    output_headroom_tokens: Tokens


class Agentic(Suite):
    """Tool use."""

    max_steps: Steps
    max_completion_tokens: Tokens


class Swe(Agentic):
    """Repository work."""

    instance_limit: Annotated[int, Field(ge=1, le=500)]


class Suites(Closed):
    """Exactly these three."""

    context: Context
    agentic: Agentic
    swe: Swe


class ProfileV1(Closed):
    """The whole document."""

    schema_: Annotated[Literal["anvil-serving.benchmark-profile/v1"], Field(alias="schema")]
    name: Literal["smoke", "scout", "deep"]
    description: Annotated[str, Field(min_length=1)]
    content_sha256: str
    adapters: Annotated[dict[Identifier, Annotated[Source | Image, Field(discriminator="kind")]], Field(min_length=1)]
    suites: Suites


def problems_of(document: JsonObject) -> list[Problem]:
    """Everything that is wrong with a v1 profile; an empty list means that it is valid."""
    _, found = validate(ProfileV1, document, prefix="bad_profile", relocate=without_adapter_tag)
    return [*map(_named, found), *digest_problems(document), *_cross_problems(document)]


def _named(problem: Problem) -> Problem:
    """The old document's own code where it has one."""
    path, kind = problem.path, problem.code.removeprefix("bad_profile.")
    is_adapter = path.startswith("adapters")
    if is_adapter and path.endswith(".revision") and kind == "bad_format":
        return Problem(path, "mutable_adapter", "the revision is not 40 to 64 lower-case hexadecimal digits")
    if is_adapter and path.endswith(".image") and kind == "bad_format":
        return Problem(path, "mutable_image", "the image is not pinned as name@sha256:<64 digits>")
    if path.startswith("suites") and path.count(".") == 1 and kind == "unknown_field":
        return Problem(path, "unknown_suite", f"there is no such suite; a v1 profile has {', '.join(SUITES)}")
    if path.startswith("suites[") and kind == "unknown_field":
        return Problem(path, "unknown_suite", f"there is no such suite; a v1 profile has {', '.join(SUITES)}")
    if path.endswith((".scoring", ".scoring.pass_rate_floor")) and kind == "missing_field":
        return Problem(path, "missing_scoring_policy", "the suite does not say from which pass rate it passes")
    return problem


def _cross_problems(document: JsonObject) -> Iterator[Problem]:
    """Rules between fields; fields of a wrong type are the model's business."""
    defined = as_object(document.get("adapters"))
    suites = as_object(document.get("suites"))
    for name in SUITES:
        yield from _undefined_adapters(name, as_object(suites.get(name)).get("adapters"), defined)
    context = as_object(suites.get("context"))
    buckets = context.get("token_buckets")
    if isinstance(buckets, list) and all(type(bucket) is int for bucket in buckets):
        yield from _bucket_problems([bucket for bucket in buckets if isinstance(bucket, int)], context)


def _undefined_adapters(suite: str, used: Json, defined: JsonObject) -> Iterator[Problem]:
    for index, name in enumerate(as_list(used)):
        if isinstance(name, str) and name not in defined:
            path = path_of(("suites", suite, "adapters", index))
            yield Problem(path, "bad_profile.undefined_adapter", "the profile defines no adapter of this name")


def _bucket_problems(buckets: list[int], context: JsonObject) -> Iterator[Problem]:
    if buckets != sorted(set(buckets)):
        yield Problem("suites.context.token_buckets", "bad_profile.not_ascending", "the buckets do not ascend")
    baseline = as_object(context.get("scoring")).get("baseline_bucket")
    if type(baseline) is int and baseline not in buckets:
        path = "suites.context.scoring.baseline_bucket"
        yield Problem(path, "bad_profile.unknown_bucket", f"{baseline} is none of the token buckets")
