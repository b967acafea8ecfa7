"""The spec of a run, `benchsite.run-spec/v1`, as a closed model; it is loaded strictly, with its hash compared.

A field with a default came later than the version itself: its default is what a spec without it meant.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from benchsite.lib.canonical import JsonObject, canonical_bytes, load_object, sha256
from benchsite.lib.closed import IMAGE_ID, Closed, Identifier, One, Sha256, Zero, custom, form, validate
from benchsite.lib.problems import DocumentError, Location, refuse
from runs.documents.ceilings import RoleLimits
from runs.documents.endpoints import (
    MAX_SERVED_MODELS,
    AbsoluteFile,
    Alias,
    ControlV1,
    Credential,
    Headers,
    PrivateAddresses,
    without_credential_tag,
)
from runs.documents.names import TaskName
from runs.documents.profile.v2 import MAX_TASKS, Requirements, Scoring
from runs.documents.sampling import Sampling
from runs.documents.spending import Budgets, Prices, RateLimits

SCHEMA = "benchsite.run-spec/v1"
MAX_SPEC_BYTES = 256 * 1024
# What the evidence of a run proves. Since 2 its ledger names run, spec and gateway, and the run's record the ledger.
EVIDENCE_VERSION = 2


def _only(wanted: bool) -> AfterValidator:
    def check(found: bool) -> bool:
        if found is not wanted:
            raise custom("bad_spec.unexpected_value", f"the value is not {str(wanted).lower()}")
        return found

    return AfterValidator(check)


Seconds = Annotated[int, Field(ge=1, le=86_400)]
Word = Annotated[str, Field(min_length=1, max_length=500)]
ImageId = Annotated[str, form(IMAGE_ID, "an image's id, sha256: and 64 hexadecimal digits")]
Yes = Annotated[bool, _only(True)]
No = Annotated[bool, _only(False)]


class SpecProfile(Closed):
    """`cases` are all of the profile's, chosen or not; empty in a spec of before they were recorded."""

    name: Identifier
    content_sha256: Sha256
    file_sha256: Sha256
    cases: Annotated[list[TaskName], Field(max_length=MAX_TASKS)] = []


class SpecBundle(Closed):
    """The reviewed revision."""

    name: Identifier
    revision: Annotated[int, Field(ge=1)]
    manifest_sha256: Sha256


class SpecHarness(Closed):
    """The locked environment that runs Harbor, and the agent in it."""

    lock_sha256: Sha256
    tree_sha256: Sha256
    harbor: Word
    agent: Word
    agent_version: Word
    adapter_sha256: Sha256
    python: Word


class SpecImages(Closed):
    """Of each role by the engine's own id."""

    agent: ImageId
    verifier: ImageId
    gateway: ImageId

    def of(self, role: str) -> str:
        """The image of `agent`, `verifier` or `gateway`."""
        return {"agent": self.agent, "verifier": self.verifier, "gateway": self.gateway}[role]


class SpecWorker(Closed):
    """The worker and the digest of what it can enforce."""

    name: Word
    capability_sha256: Sha256


class SpecEndpoint(Closed):
    """One version of an endpoint's record. `controls` are those that it declares to obey. `served_model` is that of a
    spec of before there could be several."""

    name: Identifier
    version: Annotated[int, Field(ge=1)]
    base_url: Word
    host: Word
    model: Alias
    served_model: Alias | None = None
    served_models: Annotated[list[Alias], Field(max_length=MAX_SERVED_MODELS)] = []
    private_addresses: PrivateAddresses = "allowed"
    ca_file: AbsoluteFile | None = None
    headers: Headers = {}
    prices: Prices | None = None
    limits: RateLimits | None = None
    budgets: Budgets | None = None
    route: Literal["direct", "host-gateway"]
    credential: Credential
    scripted: bool
    controls: Annotated[list[ControlV1], Field(max_length=8)] = []

    @property
    def other_names(self) -> tuple[str, ...]:
        """The names besides the alias with which it may answer."""
        return (*([] if self.served_model is None else [self.served_model]), *self.served_models)


class SpecTask(Closed):
    """One trial's task; `ordinal` counts from 1."""

    ordinal: Annotated[int, Field(ge=1, le=MAX_TASKS)]
    name: TaskName
    checksum: Sha256
    files_sha256: Sha256


class Controls(Closed):
    """Every control of Harbor and the agent. What `max_completion_tokens` and `sampling` fix holds for each request."""

    max_steps: Annotated[int, Field(ge=1, le=1_000)]
    max_completion_tokens: Annotated[int, Field(ge=1, le=1_000_000)]
    max_concurrent_trials: One
    max_attempts: One
    retries: Zero
    model_attempts: One
    request_timeout_s: Annotated[int, Field(ge=1, le=600)]
    drop_params: No
    verification: Yes
    install_only: No
    sampling: Sampling = Sampling()


class SpecLimits(Closed):
    """Seconds of the run, a trial and its phases, and what each container may use."""

    run_s: Seconds
    trial_s: Seconds
    environment_start_s: Seconds
    agent_setup_s: Seconds
    agent_s: Seconds
    verifier_s: Seconds
    agent: RoleLimits
    verifier: RoleLimits
    gateway: RoleLimits

    def of(self, role: str) -> RoleLimits:
        """The limits of `agent`, `verifier` or `gateway`."""
        return {"agent": self.agent, "verifier": self.verifier, "gateway": self.gateway}[role]


class RunSpec(Closed):
    """Everything that a run executes."""

    schema_: Annotated[Literal["benchsite.run-spec/v1"], Field(alias="schema")]
    suite: Literal["environment"]
    profile: SpecProfile
    bundle: SpecBundle
    harness: SpecHarness
    images: SpecImages
    worker: SpecWorker
    endpoint: SpecEndpoint
    tasks: Annotated[list[SpecTask], Field(min_length=1, max_length=MAX_TASKS)]
    controls: Controls
    limits: SpecLimits
    scoring: Scoring
    requirements: Requirements = Requirements()
    evidence_version: Annotated[int, Field(ge=1, le=EVIDENCE_VERSION)] = 1

    @model_validator(mode="after")
    def _tasks_are_distinct(self) -> Self:
        names = [task.name for task in self.tasks]
        if [task.ordinal for task in self.tasks] != list(range(1, len(names) + 1)):
            raise custom("bad_spec.tasks", "the tasks are not numbered 1, 2, 3 in their order")
        if len(set(names)) != len(names):
            raise custom("bad_spec.tasks", "a task stands here twice")
        if self.profile.cases and not set(names) <= set(self.profile.cases):
            raise custom("bad_spec.tasks", "a task is none of the profile's cases")
        return self

    @property
    def case_count(self) -> int:
        """How many cases the profile has; of a spec that does not say, as many as were chosen."""
        return len(self.profile.cases) or len(self.tasks)

    @property
    def coverage(self) -> str:
        """How much of the profile the run covers, in words."""
        return covered(len(self.tasks), self.case_count)

    @property
    def narrowed(self) -> bool:
        """Whether not every case of the profile was chosen."""
        return len(self.tasks) < self.case_count


@dataclass(frozen=True, slots=True)
class Spec:
    """A spec with its identity: the typed `content`, its document, the canonical JSON of that, and the hash of it."""

    content: RunSpec
    document: JsonObject
    canonical: bytes
    spec_sha256: str

    @property
    def text(self) -> str:
        """The canonical JSON as text (ASCII)."""
        return self.canonical.decode("ascii")


def covered(chosen: int, cases: int) -> str:
    """How much of a profile of `cases` a run of `chosen` tasks covers, in words."""
    return f"{chosen} of {cases} {'case' if cases == 1 else 'cases'} of the profile"


def parse_spec(document: JsonObject) -> Spec:
    """The spec in a document; raises DocumentError with every problem."""
    if document.get("schema") != SCHEMA:
        raise refuse("unknown_schema", f"this is no spec; its schema is not {SCHEMA}", "schema")
    data = canonical_bytes(document)
    if len(data) > MAX_SPEC_BYTES:
        raise refuse("spec.too_large", f"the spec has {len(data):,} bytes; at most {MAX_SPEC_BYTES:,} are taken")
    content, problems = validate(RunSpec, document, prefix="bad_spec", relocate=_without_tags)
    if content is None:
        raise DocumentError(problems)
    return Spec(content, document, data, sha256(data))


def load_spec(data: bytes, *, expected_sha256: str | None = None) -> Spec:
    """A stored spec; raises DocumentError when its bytes are no spec, not canonical or not the expected ones."""
    spec = parse_spec(load_object(data, max_bytes=MAX_SPEC_BYTES))
    if spec.canonical != data:
        raise refuse("spec.not_canonical", "the stored spec is not in canonical form")
    if expected_sha256 is not None and spec.spec_sha256 != expected_sha256:
        raise refuse("spec.changed", "the stored spec is not the one that was confirmed")
    return spec


def _without_tags(location: Location) -> Location:
    return ("endpoint", *without_credential_tag(location[1:])) if location[:1] == ("endpoint",) else location
