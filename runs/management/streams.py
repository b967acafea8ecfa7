"""What becomes of words that a stream does not take? They are lost; the exit code never depends on them (issue 7.1)."""

from contextlib import suppress
from typing import Any


class OutputLost(Exception):
    """What a command prints could not be written, as onto a full disk. Readers that go are BrokenPipeError still."""

    code = "command.output_lost"

    def __init__(self, error: OSError) -> None:
        reason = error.strerror or "unknown error"
        self.sentence = f"What this command prints cannot be written: {reason}. Whatever had been started goes on."
        super().__init__(self.sentence)


def write(stream: Any, line: str) -> None:
    """One line, at once even in a pipe. Raises OutputLost, or BrokenPipeError where nobody reads any more."""
    try:
        stream.write(line + "\n")
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(error) from error


def say_if_possible(stream: Any, line: str) -> None:
    """A line about something beside the result, such as a refusal: where it cannot be written, nothing changes."""
    with suppress(OSError):
        stream.write(line + "\n")
        stream.flush()
