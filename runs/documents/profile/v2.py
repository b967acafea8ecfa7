"""The profile that runs here, `anvil-serving.benchmark-profile/v2`: one suite, `environment` (design 6)."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from benchsite.lib.canonical import Json, JsonObject, as_list, as_object
from benchsite.lib.closed import Closed, Identifier, One, Sha256, Share, Text, Zero, custom, form, validate
from benchsite.lib.problems import DocumentError, Problem, path_of
from runs.documents.names import TaskName
from runs.documents.profile import digest_problems, without_adapter_tag
from runs.documents.sampling import Sampling

SCHEMA = "anvil-serving.benchmark-profile/v2"
SUITE = "environment"
MAX_TASKS = 3
MAX_STEPS = 32
MAX_COMPLETION_TOKENS = 4_096
MIN_TRIAL_SECONDS = 10
MAX_TRIAL_SECONDS = 600
MAX_RUN_SECONDS = 1_800
# A run's evidence may take 512 MiB (design 7); twice that while it is copied, scrubbed and hashed.
EVIDENCE_DISK_BYTES = 1 << 30
_REVISION = r"^([0-9a-f]{40}|[0-9a-f]{64})$"
_IMAGE = r"^[^\s@]+@sha256:[0-9a-f]{64}$"
_MOVABLE = {
    "revision": (
        "mutable_adapter",
        "the revision is not a whole commit hash of 40 or 64 lower-case hexadecimal digits",
    ),
    "image": ("mutable_image", "the image is not pinned as name@sha256:<64 digits>"),
}


class Source(Closed):
    """A git repository or a data set, pinned by a whole commit hash."""

    kind: Literal["git", "dataset"]
    source: Annotated[str, form("^https://[^@?#]+$", "an https:// address without user or query", max_length=500)]
    revision: Annotated[str, form(_REVISION, "a whole commit hash of 40 or 64 lower-case hexadecimal digits")]


class Image(Closed):
    """A container image, pinned by digest."""

    kind: Literal["image"]
    image: Annotated[str, form(_IMAGE, "an image pinned as name@sha256: and 64 hexadecimal digits", max_length=500)]


class Scoring(Closed):
    """What a reward means, and from which share of passed trials the suite passes."""

    reward_key: Literal["reward"]
    pass_value: One
    fail_value: Zero
    pass_rate_floor: Share


def _required(found: bool) -> bool:
    if not found:
        raise custom("bad_profile.container_required", "every run is in containers; only true is possible")
    return found


class Requirements(Closed):
    """What the worker must offer beyond the bundle's ceilings: checked when a run is previewed and when it starts."""

    min_free_disk_bytes: Annotated[int, Field(ge=0, le=1 << 50)] = 0
    container_required: Annotated[bool, AfterValidator(_required)] = True

    @property
    def disk_bytes(self) -> int:
        """The free disk that a run needs: what is required here, and never less than its evidence takes."""
        return max(self.min_free_disk_bytes, EVIDENCE_DISK_BYTES)


class BundleReference(Closed):
    """The one revision of the one bundle, bound by its manifest's hash."""

    name: Identifier
    revision: Annotated[int, Field(ge=1, le=1_000_000)]
    manifest_sha256: Sha256


class AgentReference(Closed):
    """The one agent of version 1."""

    name: Literal["mini-swe-agent"]
    version: Annotated[str, form(r"^[0-9]+\.[0-9]+\.[0-9]+$", "three numbers, such as 2.4.6", max_length=40)]


class Environment(Closed):
    """The suite. Times are seconds."""

    cases: Annotated[list[TaskName], Field(min_length=1, max_length=MAX_TASKS)]
    repetitions: One
    timeout_s: Annotated[int, Field(ge=MIN_TRIAL_SECONDS, le=MAX_RUN_SECONDS)]
    scoring: Scoring
    requirements: Requirements
    adapters: list[Identifier]
    task_bundle: BundleReference
    agent: AgentReference
    max_steps: Annotated[int, Field(ge=1, le=MAX_STEPS)]
    max_completion_tokens: Annotated[int, Field(ge=1, le=MAX_COMPLETION_TOKENS)]
    max_concurrent_trials: One
    max_attempts: One
    max_trial_seconds: Annotated[int, Field(ge=MIN_TRIAL_SECONDS, le=MAX_TRIAL_SECONDS)]
    sampling: Sampling = Sampling()


class Suites(Closed):
    """Exactly one."""

    environment: Environment


class ProfileV2(Closed):
    """The whole document."""

    schema_: Annotated[Literal["anvil-serving.benchmark-profile/v2"], Field(alias="schema")]
    name: Literal["environment-smoke"]
    description: Text
    content_sha256: Sha256
    adapters: Annotated[dict[Identifier, Annotated[Source | Image, Field(discriminator="kind")]], Field(min_length=1)]
    suites: Suites


def problems_of(document: JsonObject) -> list[Problem]:
    """Everything that is wrong with a v2 profile; an empty list means that it is valid."""
    _, found = validate(ProfileV2, document, prefix="bad_profile", relocate=without_adapter_tag)
    return [*map(_named, found), *digest_problems(document), *_cross_problems(document)]


def parse(document: JsonObject) -> ProfileV2:
    """The typed profile; raises DocumentError with every problem."""
    problems = problems_of(document)
    if problems:
        raise DocumentError(problems)
    return ProfileV2.model_validate(document)


def _named(problem: Problem) -> Problem:
    """A code of its own for what a person must be able to tell apart at once."""
    path, kind = problem.path, problem.code.removeprefix("bad_profile.")
    last = path.rpartition(".")[2]
    if path.startswith("adapters") and kind == "bad_format" and last in _MOVABLE:
        return Problem(path, *_MOVABLE[last])
    if path.startswith("suites") and kind == "unknown_field" and (path.count(".") == 1 or path.startswith("suites[")):
        return Problem(path, "unknown_suite", f"there is no such suite; a v2 profile has exactly {SUITE}")
    if path == f"suites.{SUITE}.agent.name" and kind == "unexpected_value":
        return Problem(path, "unknown_agent", "the only agent is mini-swe-agent")
    if path.startswith(f"suites.{SUITE}.scoring") and kind == "missing_field":
        return Problem(path, "missing_scoring_policy", "the suite does not say how a reward is read")
    return problem


def _cross_problems(document: JsonObject) -> Iterator[Problem]:
    """Rules between fields; fields of a wrong type are the model's business."""
    suite = as_object(as_object(document.get("suites")).get(SUITE))
    yield from _repeated(suite, "cases")
    yield from _repeated(suite, "adapters")
    defined = as_object(document.get("adapters"))
    if defined and suite.get("adapters") == []:
        path = f"suites.{SUITE}.adapters"
        yield Problem(path, "bad_profile.empty", "the suite names none of the profile's adapters, which run it")
    for index, name in enumerate(as_list(suite.get("adapters"))):
        if isinstance(name, str) and name not in defined:
            path = path_of(("suites", SUITE, "adapters", index))
            yield Problem(path, "bad_profile.undefined_adapter", "the profile defines no adapter of this name")
    yield from _time_problems(suite)


def _repeated(suite: JsonObject, field: str) -> Iterator[Problem]:
    seen: list[Json] = []
    for index, value in enumerate(as_list(suite.get(field))):
        if value in seen:
            yield Problem(path_of(("suites", SUITE, field, index)), "bad_profile.repeated", "it stands here twice")
        seen.append(value)


def _time_problems(suite: JsonObject) -> Iterator[Problem]:
    trial, run = suite.get("max_trial_seconds"), suite.get("timeout_s")
    if type(trial) is int and type(run) is int and trial > run:
        path = f"suites.{SUITE}.max_trial_seconds"
        yield Problem(path, "bad_profile.longer_than_run", f"{trial} is above the suite's timeout_s of {run}")
