"""The limits that a container hit and the space that it used, read inside it by its own Python."""

from typing import Any

from benchsite.lib.strict_json import load_object

COUNTERS_BYTES = 16 * 1024
# Reads cgroup version 2 files, else version 1; prints one JSON object.
COUNTERS_SCRIPT = """
import json, os, sys
def words(path):
    try:
        with open("/sys/fs/cgroup/" + path) as file:
            return dict(line.split(None, 1) if " " in line else ("", line) for line in file)
    except OSError:
        return {}
def number(found, name):
    return int(found[name]) if found.get(name, "").strip().isdigit() else None
def first(name, *paths):
    return next((n for n in (number(words(p), name) for p in paths) if n is not None), None)
space = {}
for path in sys.argv[1:]:
    s = os.statvfs(path)
    space[path] = {"used": (s.f_blocks - s.f_bfree) * s.f_frsize, "size": s.f_blocks * s.f_frsize}
print(json.dumps({
    "oom_kill": first("oom_kill", "memory.events", "memory/memory.oom_control"),
    "pids_max": first("max", "pids.events", "pids/pids.events"),
    "memory_peak_bytes": first("", "memory.peak", "memory/memory.max_usage_in_bytes"),
    "tmpfs": space,
}))
"""

NOTHING_KNOWN: dict[str, Any] = {"oom_kill": None, "pids_max": None, "memory_peak_bytes": None, "tmpfs": {}}


def parse(text: str, tmpfs: dict[str, int]) -> dict[str, Any] | None:
    """The script's output as fields of the `counters` event, or None when it is not exactly that."""
    try:
        found = load_object(text.encode("utf-8", "replace"))
        space = {path: {name: _count(found["tmpfs"][path][name]) for name in ("used", "size")} for path in tmpfs}
        counts = {name: _count(found[name]) for name in ("oom_kill", "pids_max", "memory_peak_bytes")}
    except (ValueError, KeyError, TypeError):
        return None
    return {**counts, "tmpfs": space}


def tmpfs_size(options: str) -> int | None:
    """Bytes in a tmpfs mount's options, as the engine shows them."""
    sizes = [part.removeprefix("size=") for part in options.split(",") if part.startswith("size=")]
    return int(sizes[0]) if sizes and sizes[0].isdigit() else None


def argv(tmpfs: dict[str, int]) -> tuple[str, ...]:
    """The command that prints the counters and the space of these paths."""
    return ("python3", "-I", "-S", "-c", COUNTERS_SCRIPT, *sorted(tmpfs))


def _count(value: object) -> int | None:
    if value is not None and type(value) is not int:
        raise ValueError("not a count")
    return value
