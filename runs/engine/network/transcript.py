"""What the gateway keeps of each trial's conversation, taken out of its container into `trials/<n>/transcript.jsonl`.

A second process in the gateway's container hands it on (`relay.py` there); its stream is attached before it starts, and
the gateway keeps each record until we said that we hold it. So a follower that was lost, and a worker that was killed,
are replaced by one that goes on behind the last record that stands in the files. The format is described in
docs/evidence.md.
"""

import base64
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from runs.attendant.attach import STDOUT, Attachment
from runs.containers import Deadline, EngineError, connect, engine_address, engine_call
from runs.wire.failures import EngineFailed

VERSION = 1
NAME = "transcript.jsonl"
COMMAND = ("/usr/bin/python3", "-I", "/opt/gateway", "--transcript")
# A trial's file stays below the 64 MiB of one evidence file: whole texts first, then heads and tails, then only sizes.
WHOLE_BYTES = 48 * 1024 * 1024
CUT_BYTES = 60 * 1024 * 1024
MAX_BYTES = 64 * 1024 * 1024
CUT_TEXT_BYTES = 8 * 1024
_MAX_LINE_BYTES = 256 * 1024
_MAX_TEXT_BYTES = 64 * 1024 * 1024
_TICK_S = 0.2
_AGAIN_S = 0.5
_SALVAGE_S = 10.0


class TranscriptFiles:
    """The transcripts of a run's trials, below `trials`. Raises OSError.

    What stands in them from before is gone on with; a line that was torn is taken away.
    """

    def __init__(self, trials: Path) -> None:
        self._trials = trials
        self._sizes: dict[int, int] = {}
        self.next = 0
        for path in trials.glob(f"*/{NAME}"):
            if path.parent.name.isdecimal():
                self._sizes[int(path.parent.name)] = self._resume(path)

    def _resume(self, path: Path) -> int:
        with path.open("r+b") as file:
            end = _line_end(file, file.seek(0, os.SEEK_END))
            file.truncate(end)
            if (line := _last_line(file, end)) is not None:
                self.next = max(self.next, line["number"] + 1)
            return end

    def take(self, record: dict[str, Any], texts: list[bytes]) -> None:
        """Write one record, unless it stands there already or belongs to no trial of the run (the question of whether
        the endpoint is ready does not)."""
        number, trial = record["number"], record["ledger"]["trial"]
        if number < self.next:
            return
        folder = self._trials / str(trial)
        if folder.is_dir():
            self._append(folder / NAME, trial, record, texts)
        self.next = number + 1

    def _append(self, path: Path, trial: int, record: dict[str, Any], texts: list[bytes]) -> None:
        size = self._sizes.get(trial, 0)
        lines = b"" if size else _encoded({"kind": "opened", "version": VERSION, "trial": trial})
        for most, limit in ((_MAX_TEXT_BYTES, WHOLE_BYTES), (CUT_TEXT_BYTES, CUT_BYTES), (0, MAX_BYTES)):
            line = lines + _encoded(_exchange(record, texts, most))
            if size + len(line) <= limit:
                break
        else:
            return  # the ledger says that there was more
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(line)
        self._sizes[trial] = size + len(line)


def _exchange(record: dict[str, Any], texts: list[bytes], most: int) -> dict[str, Any]:
    new, answer = texts[: len(record["new"])], texts[len(record["new"]) :]
    # Many small units together may be large: then each is cut to its share.
    share = most if sum(map(len, new)) <= most else most // max(1, len(new))
    return {
        "kind": "exchange",
        "number": record["number"],
        "ledger": record["ledger"],
        "lost": record["lost"],
        "withheld": record["withheld"],
        "request": {
            "head": record["head"],
            "new": [_text(unit, share) for unit in new],
            "tail": record["tail"],
        },
        "answer": None if record["answer"] is None else _text(answer[0], most),
    }


def _text(data: bytes, most: int) -> str | dict[str, Any]:
    """Text as it is, bytes in base64, and of what is longer than `most` bytes head and tail."""
    if len(data) > most:
        half = most // 2
        return {"bytes": len(data), "head": _whole(data[:half]), "tail": _whole(data[len(data) - half :])}
    return _whole(data)


def _whole(data: bytes) -> str | dict[str, str]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}
    if len(json.dumps(text, ensure_ascii=False).encode("utf-8")) > 2 * len(data) + 2:
        return {"base64": base64.b64encode(data).decode("ascii")}  # control characters, which JSON writes six times
    return text


def _encoded(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8") + b"\n"


def _line_end(file: Any, before: int) -> int:
    """Where the last line ends that is whole before that place, looked for backwards; 0 when there is none."""
    while before > 0:
        start = max(0, before - 64 * 1024)
        file.seek(start)
        place = file.read(before - start).rfind(b"\n")
        if place >= 0:
            return int(start + place + 1)
        before = start
    return 0


def _last_line(file: Any, end: int) -> dict[str, Any] | None:
    """The exchange whose line ends at `end`, None when that is none."""
    start = _line_end(file, end - 1)
    file.seek(start)
    try:
        document = json.loads(file.read(end - start))
    except ValueError:
        return None
    return document if isinstance(document, dict) and type(document.get("number")) is int else None


class _Stream:
    """The frames of one relay: (line, texts) each; raises ValueError for what no gateway of ours sends."""

    def __init__(self, attachment: Attachment) -> None:
        self._attachment = attachment
        self._buffer = bytearray()

    def frames(self, deadline: float) -> Iterator[tuple[dict[str, Any], list[bytes]] | None]:
        """None each time that nothing came for a while."""
        wanted: tuple[dict[str, Any], list[int]] | None = None
        for frame in self._attachment.frames(None, deadline, _TICK_S):
            if frame is None:
                yield None
                continue
            if frame[0] != STDOUT:
                continue
            self._buffer += frame[1]
            while True:
                if wanted is None and (line := self._line()) is not None:
                    wanted = line, _sizes(line)
                if wanted is None or len(self._buffer) < sum(wanted[1]):
                    break
                yield wanted[0], self._texts(wanted[1])
                wanted = None

    def _line(self) -> dict[str, Any] | None:
        line, newline, _ = bytes(self._buffer[:_MAX_LINE_BYTES]).partition(b"\n")
        if not newline:
            if len(line) >= _MAX_LINE_BYTES:
                raise ValueError("a line without an end")
            return None
        del self._buffer[: len(line) + 1]
        document = json.loads(line)
        if not isinstance(document, dict) or type(document.get("number")) is not int:
            raise ValueError("no record")
        return document

    def _texts(self, sizes: list[int]) -> list[bytes]:
        texts, start = [], 0
        for size in sizes:
            texts.append(bytes(self._buffer[start : start + size]))
            start += size
        del self._buffer[:start]
        return texts


def _sizes(line: dict[str, Any]) -> list[int]:
    if line.get("caught_up") is True:
        return []
    sizes = [*line["new"], *([] if line["answer"] is None else [line["answer"]])]
    if not all(type(size) is int and size >= 0 for size in sizes) or sum(sizes) > _MAX_TEXT_BYTES:
        raise ValueError("texts that are too large")
    return sizes


class TranscriptFollower:
    """A thread that takes a gateway's transcript as it grows, with a client of its own.

    When its stream breaks while the gateway lives it opens another one. It raises nothing: what is missing is named by
    the ledger.
    """

    def __init__(self, container_id: str, trials: Path) -> None:
        self._container_id = container_id
        self._trials = trials
        self._stopping = threading.Event()
        self._caught_up = threading.Event()
        self._attachment: Attachment | None = None
        self._thread = threading.Thread(target=self._follow, name="gateway-transcript", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def settle(self, seconds: float) -> None:
        """Wait until it has read as far as the gateway had written at some time, so long at most."""
        self._caught_up.wait(seconds)

    def stop(self, seconds: float) -> None:
        """Wait so long for the end of the gateway's output, then let go of it."""
        self._thread.join(seconds)
        self._stopping.set()
        if self._thread.is_alive():
            self.drop()
            self._thread.join(1.0)

    def drop(self) -> None:
        """Let the present stream break; while the gateway lives another one follows."""
        attachment = self._attachment
        if attachment is not None:
            attachment.abort()

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                files = TranscriptFiles(self._trials)
                with closing(connect()) as api, closing(_attach(api, self._container_id, files.next)) as attachment:
                    self._attachment = attachment
                    _take(attachment, files, float("inf"), self._caught_up)
            except (EngineError, EngineFailed, OSError, ValueError, KeyError, TypeError):
                pass
            self._attachment = None
            if _has_ended(self._container_id):
                return
            self._stopping.wait(_AGAIN_S)


def keep_transcript(api: Any, container_id: str, trials: Path, deadline: Deadline | None = None) -> bool:
    """Take what a gateway still holds that nobody follows any more. Whether it could be asked; it may have ended."""
    seconds = _SALVAGE_S if deadline is None else min(_SALVAGE_S, deadline.left)
    done = threading.Event()
    try:
        files = TranscriptFiles(trials)
        with closing(_attach(api, container_id, files.next)) as attachment:
            _take(attachment, files, time.monotonic() + seconds, done, once=True)
    except (EngineError, EngineFailed, OSError, ValueError, KeyError, TypeError):
        return False
    return done.is_set()


def _attach(api: Any, container_id: str, first: int) -> Attachment:
    with engine_call("create exec"):
        made = api.exec_create(container_id, [*COMMAND, str(first)], stdin=True, stdout=True, stderr=False)
    with engine_call("start exec"):
        path = engine_address().url.removeprefix("unix://")
        return Attachment.open(path, str(made["Id"]), api.api_version)


def _take(
    attachment: Attachment, files: TranscriptFiles, until: float, caught_up: threading.Event, *, once: bool = False
) -> None:
    for frame in _Stream(attachment).frames(until):
        if frame is None:
            continue
        record, texts = frame
        if record.get("caught_up") is True:
            caught_up.set()
            if once:
                return
            continue
        files.take(record, texts)
        attachment.say(f"{files.next}\n".encode("ascii"))


def _has_ended(container_id: str) -> bool:
    """False when the engine does not say."""
    try:
        with closing(connect()) as api, engine_call("inspect gateway"):
            return not api.inspect_container(container_id)["State"]["Running"]
    except EngineError as error:
        return error.status == 404
