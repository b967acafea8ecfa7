"""Runs inside a certification's container: unpack standard input, carry out or grade, report on standard output.

The first line of the input is a plan: `{"mode": "work"|"grade", "sparse": {path: size}, "seconds"}`; a tar
stream follows.
Written for the images' own Python (3.11) without any package.
"""

import base64
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

MAX_BYTES = 256 * 1024


def main() -> None:
    """Print one JSON line."""
    plan = json.loads(sys.stdin.buffer.readline())
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as archive:
        archive.extractall("/", numeric_owner=True)
    for path, size in plan["sparse"].items():
        os.truncate(path, size)
    report = _work(plan["seconds"]) if plan["mode"] == "work" else _grade(plan["seconds"])
    print(json.dumps(report))


def _work(seconds: float) -> dict[str, object]:
    """What the reference script left below /app/output, as a tar in base64."""
    exit_code, output = _run(["sh", "/tmp/script.sh"], "/app", seconds)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        if Path("/app/output").is_dir():
            archive.add("/app/output", arcname="app/output")
    return {"exit_code": exit_code, "output": _text(output), "files": _text(packed.getvalue())}


def _grade(seconds: float) -> dict[str, object]:
    """The verifier's exit code, output and all that it left where rewards are read from, by name."""
    folder = Path("/logs/verifier")
    folder.mkdir(parents=True, exist_ok=True)
    exit_code, output = _run(["/tests/test.sh"], "/tests", seconds)
    rewards = {path.name: _text(_content(path)) for path in sorted(folder.iterdir())}
    return {"exit_code": exit_code, "output": _text(output[:MAX_BYTES]), "rewards": rewards}


def _content(path: Path) -> bytes:
    """Nothing of what is no plain file, such as a folder or a link: it is there, and no reward."""
    if path.is_symlink() or not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(MAX_BYTES)


def _run(command: list[str], folder: str, seconds: float) -> "tuple[int | None, bytes]":
    try:
        ended = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, b""
    return ended.returncode, ended.stdout


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


main()
