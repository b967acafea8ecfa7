"""Problems of a document: each has a stable code, a path and a person's sentence."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

type Location = Sequence[str | int]

_LONGEST_KEY = 80


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong. `path` is empty for the document as a whole.

    Neither field ever holds a text value of the document: a value in the wrong place may be a secret.
    """

    path: str
    code: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}: {self.sentence}" if self.path else self.sentence

    def as_json(self) -> dict[str, str]:
        """For `--json` output and audit rows."""
        return {"code": self.code, "path": self.path, "sentence": self.sentence}

    def below(self, prefix: str) -> "Problem":
        """The same problem, seen from a document that holds this one at `prefix`."""
        separator = "" if not self.path or self.path.startswith("[") or prefix.endswith("/") else "."
        return Problem(f"{prefix}{separator}{self.path}", self.code, self.sentence)


class CodedError(Exception):
    """A failure with a stable `code`, a person's `sentence` that holds the remedy, and a private `detail`."""

    def __init__(self, code: str, sentence: str, detail: str = "") -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.detail = detail


class DocumentError(Exception):
    """A document that was refused, with every problem that was found, ordered by path.

    `code` and `sentence` are those of the first problem; `detail` is private and may name files of the host.
    """

    def __init__(self, problems: Iterable[Problem], *, detail: str = "") -> None:
        self.problems = tuple(sorted(set(problems)))
        if not self.problems:
            raise ValueError("a document is refused with at least one problem")
        self.code = self.problems[0].code
        more = len(self.problems) - 1
        self.sentence = f"{self.problems[0]}" + (f" (and {more} more)" if more else "")
        self.detail = detail
        super().__init__(self.sentence)


def refuse(code: str, sentence: str, path: str = "", *, detail: str = "") -> DocumentError:
    """An error with one problem, to be raised."""
    return DocumentError([Problem(path, code, sentence)], detail=detail)


def raise_if(problems: Iterable[Problem]) -> None:
    """Raise one DocumentError with all of them, if there are any."""
    found = list(problems)
    if found:
        raise DocumentError(found)


def path_of(location: Location) -> str:
    """`("suites", "environment", "cases", 0)` as `suites.environment.cases[0]`; odd keys are quoted, in ASCII."""
    path = ""
    for part in location:
        match part:
            case int():
                path += f"[{part}]"
            case str() if _is_plain(part):
                path += f".{part}" if path else part
            case str():
                path += f"[{_quoted(part)}]"
    return path


def _is_plain(key: str) -> bool:
    return 0 < len(key) <= _LONGEST_KEY and key.isascii() and key.replace("-", "_").replace("_", "a").isalnum()


def _quoted(key: str) -> str:
    cut = key if len(key) <= _LONGEST_KEY else key[: _LONGEST_KEY - 1] + "…"
    return '"' + ascii(cut)[1:-1].replace('"', '\\"') + '"'
