"""The attendant's record, `observed.jsonl`: one canonical JSON object a line, bounded, flushed.

Common fields: `seq` from 0, `at` (UTC with Z), `mono` (seconds of the host's monotonic clock), `event`,
`role`.
"""

import json
import os
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchsite.lib.redaction import Scrubber

MAX_LINES = 2_000
MAX_BYTES = 8 * 1024 * 1024
# The last lines are kept for how things ended, so that a flood cannot push out the end of a container.
RESERVED_LINES = 100
RESERVED_BYTES = 1024 * 1024
ENDINGS = frozenset({"counters", "state", "removed", "failure", "closed", "killed_others"})


class ObservedFile:
    """One trial's file. Threads may write at once; both containers of the trial share it."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        self._file = os.fdopen(os.open(path, flags, 0o600), "ab")
        self._lock = threading.Lock()
        self._lines = 0
        self._bytes = 0
        self._scrubber = Scrubber(())
        self.dropped = 0

    def hide(self, token: str) -> None:
        """No line holds this token, whatever a name or an error brings: nothing is ever taken out of a record later,
        which is compared byte for byte."""
        self._scrubber = Scrubber([token])

    def tells(self, text: str) -> bool:
        """Whether a text holds what is hidden, in whatever way it is written."""
        return self._scrubber.found_in(text.encode("utf-8", "surrogatepass"))

    def write(self, event: str, role: str | None, **fields: Any) -> None:
        """Append one line, or count it in `dropped` beyond the bounds. Raises OSError on a full disk."""
        with self._lock:
            line = self._line(event, role, fields)
            if not self._fits(event, len(line)):
                self.dropped += 1
                return
            self._file.write(line)
            self._file.flush()
            self._lines += 1
            self._bytes += len(line)

    def close(self) -> None:
        self._file.close()

    def _line(self, event: str, role: str | None, fields: dict[str, Any]) -> bytes:
        record = {
            **fields,
            "seq": self._lines,
            "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "mono": time.monotonic(),
            "event": event,
            "role": role,
        }
        line = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
        return self._scrubber.scrub(line).data + b"\n"

    def _fits(self, event: str, size: int) -> bool:
        lines, room = (MAX_LINES, MAX_BYTES)
        if event not in ENDINGS:
            lines, room = lines - RESERVED_LINES, room - RESERVED_BYTES
        return self._lines < lines and self._bytes + size <= room
