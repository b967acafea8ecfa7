"""Refusals of a person's request: a stable code, a sentence with the remedy, a private detail."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from benchsite.lib.problems import DocumentError, Problem
from runs.documents.specs import SpecDifference

MAX_DIGITS = 15  # every such number is exact in JSON, for every reader
WHOLE_WANTED = f"give a whole number of at most {MAX_DIGITS} digits, such as 10"
_LONGEST_QUOTED = 80


class Refusal(Exception):
    """``code`` is stable, ``sentence`` is for people, ``detail`` is private."""

    code = "refused"
    sentence = "The request was refused."

    def __init__(self, sentence: str = "", *, code: str = "", detail: str = "") -> None:
        self.sentence = sentence or self.sentence
        self.code = code or self.code
        self.detail = detail
        super().__init__(self.sentence)


class BadInput(Refusal):
    """What was asked for does not exist or is not allowed; nothing was started (exit code 2)."""

    code = "input.bad"
    sentence = "The request cannot be understood."
    problems: tuple[Problem, ...] = ()
    remedy = ""

    @classmethod
    def from_document(cls, error: DocumentError, *, remedy: str = "") -> "BadInput":
        """The same problems, each with the path of what was asked for, and a remedy after them."""
        sentence = f"{error.sentence}. {remedy}".strip()
        refusal = cls(sentence, code=error.code, detail=error.detail)
        refusal.problems = error.problems
        refusal.remedy = remedy
        return refusal


class NotWhole(BadInput):
    """A number was wanted and something else given, whichever face it came through."""

    code = "input.not_whole"

    def __init__(self, field: str) -> None:
        super().__init__(f"{field}: {WHOLE_WANTED}")


def whole_number(field: str, text: str) -> int:
    """The number that a person wrote: nothing but digits, and a sign. Raises NotWhole."""
    if not re.fullmatch(rf"[+-]?[0-9]{{1,{MAX_DIGITS}}}", text.strip()):
        raise NotWhole(field)
    return int(text)


class UnknownName(BadInput):
    """A name that is not registered; the sentence lists those that are, and how to add one."""

    def __init__(self, word: str, name: str, known: Iterable[str], remedy: str) -> None:
        names = ", ".join(sorted(set(known))) or "none"
        super().__init__(
            f"There is no {word} named {quoted(name)}; known here: {names}. {remedy}", code=f"input.unknown_{word}"
        )


def quoted(text: str) -> str:
    """What somebody gave, for a sentence: in quotes, without control characters, cut when it is long."""
    return repr(text if len(text) <= _LONGEST_QUOTED else text[:_LONGEST_QUOTED] + "…")


class Blocked(Refusal):
    """Checks that must hold do not; nothing was started (exit code 3). ``checks`` are the blocking ones."""

    code = "preview.blocked"

    def __init__(self, checks: Sequence[dict[str, Any]]) -> None:
        self.checks = list(checks)
        lines = "; ".join(f"{check['detail']} {check['remedy']}".strip() for check in checks)
        super().__init__(f"The start is blocked: {lines}")


class NotAccepted(Refusal):
    """What the worker cannot enforce, though nothing requires it, was not accepted by name (exit code 3)."""

    code = "preview.not_accepted"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        super().__init__(f"Accept by name what this worker cannot enforce: {', '.join(names)}.")


class Changed(Refusal):
    """Something changed since the preview; ``differences`` shows old and new (exit code 3)."""

    code = "preview.changed"

    def __init__(self, differences: Sequence[SpecDifference]) -> None:
        self.differences = list(differences)
        lines = "; ".join(f"{d.path} was {d.old or 'absent'}, is {d.new or 'absent'}" for d in differences)
        super().__init__(f"Something changed since the preview, so nothing was started: {lines}. Preview again.")


class NoSuchPreview(BadInput):
    code = "preview.unknown"
    sentence = "There is no such preview of yours; make a new one."


class PreviewExpired(Refusal):
    code = "preview.expired"
    sentence = "The preview has expired; make a new one."


class BadToken(BadInput):
    code = "preview.bad_token"
    sentence = "The confirmation does not belong to this preview; confirm from the preview itself."
