"""Every message between an attendant and its sandbox: what it asks is a closed set with bounds, all else a violation.

The attendant says two things of itself (`main.py`): ``{"say": "go", "root", "config"}``, with what Harbor reads of the
run as a content, and ``{"say": "terminate"}``. Everything else that it sends answers a question. A question comes as
``{"do": its tag, …}`` from `runs/harness`, and the next one only after its answer (`service.py`):

| question | what follows it | the answer's fields | and its contents |
|---|---|---|---|
| ready | | none: the go is awaited | |
| start | | | |
| exec | | exit_code | standard output, standard error |
| directories | | done | |
| upload | the archive | | |
| skip_upload | | skipped | |
| flush | | | |
| look | | root: directory, file or null | |
| download | | outcome, code, purpose | the archive, when there is one |
| stop | | | |
| cancel | | that of the question it cancels: cancelled | |
| left | Harbor's job folder | none: the conversation is over | |

Every answer also has ``contents``, their number, and may have ``error``: kind (of `runs/wire/failures.py`), code and
sentence. How messages and contents are framed stands in `runs/wire/frames.py`.
"""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from runs.wire.frames import MESSAGE, Frame, Violation

type Word = Annotated[str, Meta(max_length=256)]
# In its normal form: no part is empty, `.` or `..`, so that it leads nowhere but down.
_PART = r"/(?!\.{1,2}(?:/|\Z))[^/\x00]+"
type PathText = Annotated[str, Meta(max_length=1024, pattern=rf"\A(?:{_PART})+\Z")]
type PathList = Annotated[list[PathText], Meta(max_length=64)]
type CommandText = Annotated[str, Meta(max_length=2 * 1024 * 1024)]
type Variables = Annotated[dict[Word, Annotated[str, Meta(max_length=128 * 1024)]], Meta(max_length=256)]


class Request(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do"):
    """Anything that the sandbox says."""


class OfSession(Request, frozen=True):
    """``session`` is Harbor's session id; its suffix names the role."""

    session: Word


class Policy(Struct, frozen=True, forbid_unknown_fields=True):
    """A network policy as Harbor has it: its mode, and the hosts of an allowlist."""

    mode: Word
    hosts: Annotated[list[Word], Meta(max_length=16)] = []


class Ready(Request, frozen=True, tag="ready"):
    """Harbor is loaded, and waits."""


class Start(OfSession, frozen=True, tag="start"):
    """Open the session's container. ``refusals`` are what Harbor's own checks said; ``directories`` must exist."""

    trial_uuid: UUID
    policies: Annotated[list[Policy], Meta(max_length=16)]
    refusals: Annotated[list[Annotated[str, Meta(max_length=2000)]], Meta(max_length=32)]
    directories: PathList


class Exec(OfSession, frozen=True, tag="exec"):
    """Run a shell line. ``timeout_s`` null means the longest that any command may take."""

    command: CommandText
    cwd: PathText | None
    env: Variables
    timeout_s: Annotated[float, Meta(gt=0, le=86_400)] | None
    user: Word


class Directories(OfSession, frozen=True, tag="directories"):
    """Let directories exist (and be empty) without a command, where nothing can stand in them yet."""

    paths: PathList
    world_writable: bool
    emptied: bool


class Upload(OfSession, frozen=True, tag="upload"):
    """Send what follows as a content (a tar stream below ``content``) to ``target``."""

    purpose: Annotated[str, Meta(pattern="^(environment|tests|artifacts_in|agent_logs)$")]
    target: PathText


class SkipUpload(OfSession, frozen=True, tag="skip_upload"):
    """May the agent's logs stay where they are? Answered by ``skipped``; if not, they are uploaded."""

    target: PathText


class Flush(OfSession, frozen=True, tag="flush"):
    """Send what waits now, so that a failure is one of the start."""


class Look(OfSession, frozen=True, tag="look"):
    """What stands at ``path``: answered by the download itself."""

    path: PathText


class Download(OfSession, frozen=True, tag="download"):
    path: PathText


class Stop(OfSession, frozen=True, tag="stop"):
    pass


class Cancel(Request, frozen=True, tag="cancel"):
    """Harbor cancelled what it waits for. The only message that may come before an answer."""


class Left(Request, frozen=True, tag="left"):
    """Harbor ended with this exit code; its job folder follows as a content. The last message."""

    exit_code: Annotated[int, Meta(ge=0, le=255)]


_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
    Ready | Start | Exec | Directories | Upload | SkipUpload | Flush | Look | Download | Stop | Cancel | Left
)


def request_of(frame: Frame) -> Request:
    """Raises Violation for a frame that is no message, or a message that is not one of these."""
    if frame.kind != MESSAGE:
        raise Violation("frame_order", "a content that nobody asked for")
    try:
        request: Request = _DECODER.decode(frame.payload)
        return request
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Violation("message", str(error)) from error
