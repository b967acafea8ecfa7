"""The arguments of tools as closed models: an unknown or misspelt argument is refused, nothing is coerced.

Names and ids are taken as any text: whether there is such a thing is decided where pages and commands decide it, so
that the same bad input has the same code everywhere.
"""

import json
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from benchsite.lib.closed import Closed, custom, validate
from benchsite.lib.problems import DocumentError, Problem
from runs.documents.bundle.packaged import ENVIRONMENT_SMOKE
from runs.services.refusals import MAX_DIGITS, WHOLE_WANTED, NotWhole

_PROFILE = ENVIRONMENT_SMOKE.name
MAX_RUNS = 50
MAX_LINES = 200
MAX_FILES = 200
MAX_PART = 64 * 1024
MIN_PART = 4  # the longest character in UTF-8, so that every call gets further
_MAX_NUMBER = 2**53 - 1  # what every JSON reader can hold


def _whole_number(given: Any) -> Any:
    if given is not None and (type(given) is not int or abs(given) >= 10**MAX_DIGITS):
        raise custom(NotWhole.code, WHOLE_WANTED)
    return given


_RUN = Field(description="Id of a run, or its first 8 characters or more", examples=["0f3a9c21"])
RunId = Annotated[str, _RUN]
Number = Annotated[int | None, BeforeValidator(_whole_number)]


class PreviewArguments(Closed):
    profile: Annotated[str, Field(description="Name or content hash of a profile", examples=[_PROFILE])] = _PROFILE
    endpoint: Annotated[
        str | None,
        Field(
            description="Name of a registered endpoint; without one the refusal names those that exist",
            examples=["local-model"],
        ),
    ] = None
    worker: Annotated[
        str | None, Field(description="Worker host that executes; by default the site's own", examples=["worker-1"])
    ] = None
    tasks: Annotated[
        list[str] | None, Field(description="Only these tasks of the profile; by default all", examples=[["file-tree"]])
    ] = None
    max_trial_seconds: Annotated[Number, Field(description="A shorter limit than the profile's", examples=[300])] = None
    max_steps: Annotated[Number, Field(description="Fewer agent steps than the profile's", examples=[10])] = None


class StartArguments(Closed):
    preview: Annotated[str, Field(description="Id of a preview that you made, 32 characters", examples=["3f" * 16])]
    spec_sha256: Annotated[str, Field(description="The hash that this preview showed", examples=["3f" * 32])]
    accept: Annotated[
        list[str],
        Field(
            max_length=32,
            description="Names of the checks under `accept` that are accepted",
            examples=[["limit harness_uid"]],
        ),
    ] = []


class StatusArguments(Closed):
    run: Annotated[str | None, _RUN, Field(description="As for the other tools; by default the newest runs")] = None
    limit: Annotated[int, Field(ge=1, le=MAX_RUNS, description="How many runs to list", examples=[10])] = 10


class RunArguments(Closed):
    run: RunId


class LogsArguments(Closed):
    run: RunId
    cursor: Annotated[
        int, Field(ge=0, le=_MAX_NUMBER, description="Number of the first line; go on with next_cursor", examples=[0])
    ] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_LINES, description="How many lines at most", examples=[100])] = 100


class EvidenceListArguments(Closed):
    run: RunId
    cursor: Annotated[int, Field(ge=0, le=_MAX_NUMBER, description="Go on with next_cursor", examples=[0])] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_FILES, description="How many files at most", examples=[100])] = 100


class EvidenceReadArguments(Closed):
    file: Annotated[str, Field(description="Id of a file, as evidence_list gives it", examples=["3f" * 16])]
    offset: Annotated[int, Field(ge=0, le=_MAX_NUMBER, description="First byte; go on with next_offset")] = 0
    length: Annotated[int, Field(ge=MIN_PART, le=MAX_PART, description="How many bytes at most")] = MAX_PART


def read[M: Closed](model: type[M], given: dict[str, Any]) -> M:
    """The arguments in their types. Raises DocumentError with every problem (codes `arguments.*`, and those that
    every face shares), each saying what is wanted."""
    found, problems = validate(model, given, prefix="arguments")
    if found is None:
        raise DocumentError(_helpful(model, problem) for problem in problems)
    return found


def _helpful(model: type[Closed], problem: Problem) -> Problem:
    """The problem with what the tool takes, or with an example of what the argument takes."""
    if problem.code == "arguments.unknown_field":
        return replace(problem, sentence=f"there is no such argument; this tool takes {', '.join(model.model_fields)}")
    field = model.model_fields.get(problem.path.partition("[")[0])
    if field is None or not field.examples or problem.code == NotWhole.code:
        return problem
    return replace(problem, sentence=f"{problem.sentence}; give for example {json.dumps(field.examples[0])}")
