"""What was asked and what came of it: hash-chained JSON lines, bounded in number, from an opening to a closing one.

The first line says whose ledger it is, so that no other run's can stand in its place. No line's time lies before that
of the line before, whatever the host's clock does. The closing line, which no other follows, holds its own hash.
Requests that reached the endpoint are bounded by the trials' steps and each has its line. Everything else is
written up to `LINES_PER_KIND` times per trial and code and then only counted: a flood costs no proof.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from .config import Run

VERSION = 4
LINES_PER_KIND = 8
_NO_LINE = "0" * 64


@dataclass
class Entry:
    """One request. Sizes in bytes, `status` as the endpoint gave it (the gateway's own for a refusal).

    `api` is the one that was asked, None in environment runs, which have only one. `said_status` is the status that an
    error inside a 2xx stands for; `flags` are those of a completion. Tokens are what the endpoint reported; `cached`
    ones are some of the prompt's, `estimated` ones stand where it reported none of a request that it may charge for.
    `reported_cost` is the endpoint's own word, in millionths of a millionth of a US dollar. `waited_ms` passed before
    the request's turn came.
    """

    trial: int | None = None
    api: str | None = None
    kind: str = "refused"
    code: str | None = None
    status: int | None = None
    said_status: int | None = None
    retry_after_s: int | None = None
    flags: tuple[str, ...] = ()
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    estimated_prompt_tokens: int | None = None
    estimated_completion_tokens: int | None = None
    reported_cost: int | None = None
    waited_ms: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    duration_ms: int = 0
    request_sha256: str | None = None
    response_sha256: str | None = None
    message_sha256: str | None = None
    session_matches: bool | None = None


class Ledger:
    """Writes lines through `write`, one call per line; `open` comes first, `close` is idempotent and nothing follows
    it."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._count = 0
        self._previous = _NO_LINE
        self._at = ""
        self._beyond: Counter[tuple[int, str]] = Counter()
        self._written: Counter[tuple[int, str]] = Counter()
        self._closed = False

    def open(self, run: Run) -> None:
        """The first line: whose ledger this is."""
        self._append({"kind": "opened", "version": VERSION, **asdict(run)})

    def record(self, entry: Entry, *, reached_endpoint: bool) -> dict[str, Any] | None:
        """Write the entry's line and return what it says, or only count it when its kind had its lines already."""
        if self._closed:
            return None
        if not reached_endpoint:
            key = (entry.trial or 0, entry.code or "")
            if self._written[key] >= LINES_PER_KIND:
                self._beyond[key] += 1
                return None
            self._written[key] += 1
        return self._append(asdict(entry))

    def close(self) -> None:
        """One summary line per trial and code that was only counted, then the closing line."""
        if self._closed:
            return
        for (trial, code), count in sorted(self._beyond.items()):
            self._append({"kind": "summary", "trial": trial or None, "code": code, "count": count})
        closing = self._record({"kind": "closed", "count": self._count})
        self._write_line({**closing, "sha256": hashlib.sha256(_canonical(closing)).hexdigest()})
        self._closed = True

    def _append(self, fields: dict[str, Any]) -> dict[str, Any]:
        record = self._record(fields)
        self._write_line(record)
        return record

    def _record(self, fields: dict[str, Any]) -> dict[str, Any]:
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self._at = max(self._at, now)  # as text, which sorts as the times do
        return {"seq": self._count, "prev": self._previous, "at": self._at, **fields}

    def _write_line(self, record: dict[str, Any]) -> None:
        line = _canonical(record)
        self._previous = hashlib.sha256(line).hexdigest()
        self._count += 1
        self._write(line + b"\n")


def _canonical(record: dict[str, Any]) -> bytes:
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
