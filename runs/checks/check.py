"""One check: a condition, whether it holds, a stable code, what was seen, and who can do what. Pure."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

type Level = Literal["block", "accept", "note"]


@dataclass(frozen=True, slots=True)
class Check:
    """One condition of a preview, a preflight or a connection test.

    ``level`` says what it means when it does not hold: ``block`` refuses the start, ``accept`` must be accepted by
    name, ``note`` only says so. ``integrity`` says that what does not hold was tampered with or exchanged, so that a
    claimed run ends as integrity and not as the worker's trouble; no document has it.
    """

    name: str
    passed: bool
    code: str
    detail: str = ""
    remedy: str = ""
    level: Level = "block"
    integrity: bool = False

    @property
    def required(self) -> bool:
        return self.level == "block"

    @property
    def refuses(self) -> bool:
        """Whether nothing may start because of it."""
        return self.required and not self.passed

    @property
    def sentence(self) -> str:
        """What was seen and what to do, for people."""
        return f"{self.detail} {self.remedy}".strip()

    def as_json(self) -> dict[str, Any]:
        document = asdict(self)
        del document["integrity"]
        return document
