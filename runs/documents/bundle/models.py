"""Closed models of `bundle.json`, which people write, and of `manifest.json`, which is built from it."""

from typing import Annotated, Literal

from pydantic import Field

from benchsite.lib.closed import Closed, Identifier, Sha256, Text, form
from runs.documents.ceilings import Ceilings
from runs.documents.names import TaskName

MANIFEST_SCHEMA = "benchsite.task-bundle/v1"
MAX_TASKS = 16

Revision = Annotated[int, Field(ge=1, le=1_000_000)]
Version = Annotated[str, form(r"^[0-9]+(\.[0-9]+){1,3}$", "two to four numbers, such as 2.4.6", max_length=40)]


class AgentLock(Closed):
    """The one agent, by exact version; what it is made of is bound by the agent image's recipe."""

    name: Literal["mini-swe-agent"]
    version: Version


class VerifierPolicy(Closed):
    """How every task of the bundle is graded."""

    environment_mode: Literal["separate"]
    network: Literal["no-network"]
    workdir: Literal["/tests"]
    reward_file: Literal["reward.json"]
    reward_key: Literal["reward"]


class BundleSource(Closed):
    """`bundle.json`. `tasks` is the order in which they are listed; a profile says in which they run."""

    schema_: Annotated[Literal["benchsite.bundle-source/v1"], Field(alias="schema")]
    name: Identifier
    revision: Revision
    description: Text
    tasks: Annotated[list[TaskName], Field(min_length=1, max_length=MAX_TASKS)]
    agent: AgentLock
    verifier: VerifierPolicy
    ceilings: Ceilings


class ManifestFile(Closed):
    """One file of a task."""

    path: Annotated[str, Field(min_length=1, max_length=240)]
    size: Annotated[int, Field(ge=0, le=1024 * 1024)]
    sha256: Sha256


class ManifestTask(Closed):
    """One task: `checksum` as in Harbor's result, `files_sha256` as in Harbor's lock (there `sha256:…`)."""

    name: TaskName
    title: Text
    checksum: Sha256
    files_sha256: Sha256
    artifacts: Annotated[list[str], Field(min_length=1, max_length=4)]
    files: Annotated[list[ManifestFile], Field(min_length=1, max_length=200)]


class ImageRole(Closed):
    """A role's symbolic image name and what it is built from: the hash of the whole recipe, and that of the locks
    in it. No image id: that differs between machines and stands in the worker's image lock.
    """

    name: Annotated[str, form(r"^benchsite-[a-z]+$", "a symbolic image name, such as benchsite-agent", max_length=64)]
    recipe_sha256: Sha256
    content_sha256: Sha256


class Images(Closed):
    """The three roles."""

    agent: ImageRole
    verifier: ImageRole
    gateway: ImageRole


class Manifest(Closed):
    """`manifest.json`: the same bytes on every machine."""

    schema_: Annotated[Literal["benchsite.task-bundle/v1"], Field(alias="schema")]
    name: Identifier
    revision: Revision
    description: Text
    tasks: Annotated[list[ManifestTask], Field(min_length=1, max_length=MAX_TASKS)]
    images: Images
    agent: AgentLock
    verifier: VerifierPolicy
    ceilings: Ceilings
