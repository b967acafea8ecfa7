"""What may a tool be told? Closed models: an unknown or misspelt argument is refused, nothing is coerced."""

from typing import Annotated, Any

from pydantic import Field

from runs.documents.closed import Closed, validate
from runs.documents.problems import DocumentError
from runs.management.choosing import PROFILE

MAX_RUNS = 50
MAX_LINES = 200
MAX_FILES = 200
MAX_PART = 64 * 1024
MIN_PART = 4  # the longest character in UTF-8, so that every call gets further
_MAX_NUMBER = 2**53 - 1  # what every JSON reader can hold

# One line without control characters: no database and no terminal stumbles over it.
Word = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]
RunId = Annotated[str, Field(pattern=r"^[0-9a-f]{8,32}$", description="Id of a run, or its first 8 characters or more")]
Number = Annotated[int, Field(ge=-_MAX_NUMBER, le=_MAX_NUMBER)]


class PreviewArguments(Closed):
    profile: Annotated[Word, Field(description="Name or content hash of a profile")] = PROFILE
    endpoint: Annotated[
        Word | None, Field(description="Name of a registered endpoint; without one the refusal names those that exist")
    ] = None
    worker: Annotated[Word | None, Field(description="Worker host that executes; by default the site's own")] = None
    tasks: Annotated[
        list[Word] | None, Field(max_length=64, description="Only these tasks of the profile; by default all")
    ] = None
    max_trial_seconds: Annotated[Number | None, Field(description="A shorter limit than the profile's")] = None
    max_steps: Annotated[Number | None, Field(description="Fewer agent steps than the profile's")] = None


class StartArguments(Closed):
    preview: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$", description="Id of a preview that you made")]
    spec_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="The hash that this preview showed")]
    accept: Annotated[
        list[Word], Field(max_length=32, description="Names of the checks under `accept` that are accepted")
    ] = []


class StatusArguments(Closed):
    run: Annotated[RunId | None, Field(description="By default the newest runs are listed")] = None
    limit: Annotated[int, Field(ge=1, le=MAX_RUNS, description="How many runs to list")] = 10


class RunArguments(Closed):
    run: RunId


class LogsArguments(Closed):
    run: RunId
    cursor: Annotated[
        int, Field(ge=0, le=_MAX_NUMBER, description="Number of the first line; go on with next_cursor")
    ] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_LINES, description="How many lines at most")] = 100


class EvidenceListArguments(Closed):
    run: RunId
    cursor: Annotated[int, Field(ge=0, le=_MAX_NUMBER, description="Go on with next_cursor")] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_FILES, description="How many files at most")] = 100


class EvidenceReadArguments(Closed):
    file: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$", description="Id of a file, as evidence_list gives it")]
    offset: Annotated[int, Field(ge=0, le=_MAX_NUMBER, description="First byte; go on with next_offset")] = 0
    length: Annotated[int, Field(ge=MIN_PART, le=MAX_PART, description="How many bytes at most")] = MAX_PART


def read[M: Closed](model: type[M], given: dict[str, Any]) -> M:
    """The arguments in their types. Raises DocumentError with every problem (codes `arguments.*`)."""
    found, problems = validate(model, given, prefix="arguments")
    if found is None:
        raise DocumentError(problems)
    return found
