"""The exceptions that leave the attendant, on either side of the socket pair (design 3.7).

None of them is a TimeoutError: Harbor would call that an agent timeout, whatever really happened.
"""

from collections.abc import Iterator
from contextlib import contextmanager

DETAIL_CHARS = 500


class AttendantError(Exception):
    """`code` is stable, `sentence` is for people, `detail` is private and never reaches Harbor's files."""

    def __init__(self, code: str, sentence: str, detail: str = "") -> None:
        super().__init__(f"{sentence} [{code}]")
        self.code = code
        self.sentence = sentence
        self.detail = detail[:DETAIL_CHARS]


class StartRefused(AttendantError):
    """The environment may not or cannot be started."""


class EngineFailed(AttendantError):
    """The container engine refused, broke or did not answer in time."""


class ExecTimedOut(AttendantError):
    """A command reached its own limit; everything else in its container was killed."""


class SourceAbsent(AttendantError):
    """What should have been downloaded is not there."""


class TransferRefused(AttendantError):
    """The container offered something that is never taken: a link, a device, too much, a forbidden name."""


class TransferFailed(AttendantError):
    """A transfer did not come about for a reason on our side."""


class Unsupported(AttendantError):
    """Harbor asked for something that version 1 does not do."""


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn every foreign exception of the block into an own one; `what` is the code's last part.

    An error that already carries a code and a sentence (the journal's, the containers') keeps both.
    """
    try:
        yield
    except AttendantError:
        raise
    except Exception as error:
        raise own_error(what, error) from error


def own_error(what: str, error: Exception) -> AttendantError:
    code = getattr(error, "code", None)
    sentence = getattr(error, "sentence", None)
    if isinstance(code, str) and isinstance(sentence, str):
        return EngineFailed(code, sentence, str(getattr(error, "detail", "")))
    return EngineFailed(
        f"engine.{what}",
        "The container engine did not do what was asked. Look at the engine's log on this worker.",
        f"{type(error).__name__}: {error}",
    )
