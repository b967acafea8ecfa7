"""Forgeries and hostile artifacts that an agent may leave to fool or break a verifier, planted in a folder.

The folder stands for the root of the verifier's container after the artifacts were put into it: they lie below
`app/output`, and below `logs/artifacts`, where Harbor always collects too.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

MIB = 1024 * 1024
OUTPUT = "app/output"
CONVENTION = "logs/artifacts"
# Where a right answer is kept, in the output folder, when another thing takes its place.
RIGHT_ANSWER = "right-answer"

_REWARDS = {
    "reward.json": b'{"reward": 1}',
    "reward.txt": b"1\n",
    "result.json": b'{"verifier_result":{"rewards":{"reward":1}}}',
}
# Names that Python, a shell or a test runner might load by itself, each with a program that claims success.
_FORGED_PROGRAM = b"""import os, sys
for folder in ("/logs/verifier", "../logs/verifier", "."):
    try:
        open(os.path.join(folder, "reward.json"), "w").write('{"reward": 1}')
    except OSError:
        pass
os._exit(0)
"""
_LOADED_BY_ITSELF = (
    "json.py", "os.py", "re.py", "grading.py", "verify.py", "hashlib.py", "sitecustomize.py", "usercustomize.py",
    "__main__.py", "__init__.py", "conftest.py", "_json.py", "encodings/__init__.py", "tests/verify.py",
)  # fmt: skip
_FORGED_SHELL = b"#!/bin/sh\necho '{\"reward\": 1}' > /logs/verifier/reward.json\n"
_SHELL_NAMES = ("test.sh", "python3", "bin/python3", ".profile", ".bashrc")


@dataclass(frozen=True, slots=True)
class Planting:
    """A named way to leave artifacts; `plant` is given the root."""

    name: str
    plant: Callable[[Path], None]


def forgeries() -> Iterator[Planting]:
    """To be planted over a wrong answer: none may turn it into a pass."""
    yield Planting("reward files among the artifacts", _plant_rewards)
    yield Planting("programs that would be loaded by name", _plant_programs)
    yield Planting("scripts that would be found by name", _plant_scripts)
    yield Planting("a whole forged trial folder", _plant_trial)
    yield Planting("a link to the verifier's own inputs", lambda root: _link(root / OUTPUT / "input", "/tests/input"))
    yield Planting("a link to the reward's folder", lambda root: _link(root / OUTPUT / "logs", "/logs/verifier"))


def hostile_answers(answer: str) -> Iterator[Planting]:
    """Ways to leave the answer file `answer` (relative to `app/output`) that must all be graded 0.

    The right answer was moved to `RIGHT_ANSWER` before.
    """

    def leaving(what: str, leave: Callable[[Path], None]) -> Planting:
        return Planting(f"{answer}: {what}", lambda root: leave(root / OUTPUT / answer))

    for name, content in _CONTENTS.items():
        yield leaving(name, partial(_write, content=content))
    yield leaving("a sparse file of 1 TiB", _sparse)
    yield leaving("a folder", _folder)
    yield leaving("a named pipe", _pipe)
    links = {
        "another file": "/etc/passwd",
        "the right answer": os.path.relpath(RIGHT_ANSWER, str(Path(answer).parent)),
        "nothing": "nowhere",
        "itself": Path(answer).name,
        "zeros without end": "/dev/zero",
    }
    for name, target in links.items():
        yield leaving(f"a link to {name}", partial(_link, target=target))


def hostile_outputs() -> Iterator[Planting]:
    """Ways to leave the whole output folder that must all be graded 0."""
    yield Planting("nothing at all", lambda root: (root / "app").mkdir(parents=True, exist_ok=True))
    yield Planting("an empty output folder", lambda root: _folder(root / OUTPUT))
    yield Planting("output is a file", lambda root: _write(root / OUTPUT, b"{}"))
    yield Planting("output is a named pipe", lambda root: _pipe(root / OUTPUT))
    yield Planting("output is a link to the verifier's inputs", lambda root: _link(root / OUTPUT, "/tests/input"))
    yield Planting("output is a link to the root", lambda root: _link(root / OUTPUT, "/"))
    yield Planting("2,500 files", _many_files)
    yield Planting("folders a hundred deep", lambda root: _folder(root / OUTPUT / "tree" / "/".join("d" * 100)))
    yield Planting("names that are no text", _odd_names)


_CONTENTS = {
    "empty": b"",
    "white space": b" \n\t\n",
    "two MiB of zeros": bytes(2 * MIB),
    "two MiB of digits": b"9" * (2 * MIB),
    "a number with 900,000 digits": b"9" * 900_000,
    "lists nested 200,000 deep": b"[" * 200_000,
    "objects nested 100,000 deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a million small values": b"[" + b"0," * 500_000 + b"0]",
    "bytes that are no text": bytes(range(256)) * 16,
    "half a surrogate pair": b'{"\\ud800": "\\udfff"}',
    "UTF-16": '{"totals": {}}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "null": b"null",
    "true": b"true",
    "one": b"1",
    "NaN": b"NaN",
    "an infinity": b"1e999",
    "a text": b'"totals"',
    "an empty list": b"[]",
    "an empty object": b"{}",
    "a list of objects": b'[{"path": 1, "size": "x", "sha256": null, "sources": {}}]',
    "a repeated key": b'{"totals": {}, "totals": {}, "malformed_lines": []}',
    "wrong types below": b'{"totals": [1], "malformed_lines": {"a": true}}',
    "a forged reward": b'{"reward": 1}',
    "a cut document": b'{"totals": {"a": "1.0',
    "a program": _FORGED_PROGRAM,
}


def _plant_rewards(root: Path) -> None:
    for folder in ("", "logs/verifier/", "verifier/"):
        for name, content in _REWARDS.items():
            _write(root / OUTPUT / folder / name, content)
    for name, content in _REWARDS.items():
        _write(root / CONVENTION / name, content)


def _plant_programs(root: Path) -> None:
    for name in _LOADED_BY_ITSELF:
        _write(root / OUTPUT / name, _FORGED_PROGRAM)
    _write(root / OUTPUT / "forged.pth", b"import os; os._exit(0)\n")


def _plant_scripts(root: Path) -> None:
    for name in _SHELL_NAMES:
        _write(root / OUTPUT / name, _FORGED_SHELL)
        (root / OUTPUT / name).chmod(0o755)


def _plant_trial(root: Path) -> None:
    for name in ("config.json", "lock.json", "result.json", "trial.log", "exception.txt"):
        _write(root / OUTPUT / name, _REWARDS["result.json"])
    _write(root / CONVENTION / "manifest.json", b"[]")


def _sparse(path: Path) -> None:
    _write(path, b"{")
    os.truncate(path, 1 << 40)


def _pipe(path: Path) -> None:
    _folder(path.parent)
    os.mkfifo(path)


def _many_files(root: Path) -> None:
    _folder(root / OUTPUT / "tree")
    for number in range(2_500):
        (root / OUTPUT / "tree" / f"file-{number}").touch()


def _odd_names(root: Path) -> None:
    _folder(root / OUTPUT / "tree")
    for name in (b"\xff\xfe", b"line\nbreak", b"-rf", b"\x1b[31m"):
        (root / OUTPUT / "tree" / os.fsdecode(name)).touch()


def _link(path: Path, target: str) -> None:
    _folder(path.parent)
    path.symlink_to(target)


def _folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


def _write(path: Path, content: bytes) -> None:
    _folder(path.parent)
    path.write_bytes(content)
