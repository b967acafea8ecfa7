"""How a verifier reads what an agent left and writes its reward.

Everything an agent made is hostile: reads follow no link, open no device or pipe, stop at a bound, and
turn whatever is wrong into `Wrong`, which is reward 0. The same file stands in every task of the bundle.
"""

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeVar

MAX_FILE_BYTES = 1_048_576
MAX_ENTRIES = 2_000
MAX_DEPTH = 16
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a named pipe that nobody writes to must not wait.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Answer = TypeVar("Answer")


class Wrong(Exception):
    """The artifact does not meet the instruction; the text says where."""


def read_file(root: str, path: str) -> bytes:
    """The bytes of one regular file below `root`; raises Wrong for anything else."""
    *folders, name = path.split("/")
    descriptor = _open_folder(root, folders)
    try:
        return _read_at(descriptor, name, path)
    finally:
        os.close(descriptor)


def read_input(path: str) -> bytes:
    """The bytes of the verifier's own copy of an input file."""
    with open(path, "rb") as file:
        return file.read()


def read_json(root: str, path: str) -> object:
    """One JSON document below `root`; raises Wrong when it is not UTF-8 or not strict JSON."""
    content = read_file(root, path)
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Wrong(f"{path} is not valid JSON in UTF-8") from error


def list_files(root: str, folder: str) -> list[str]:
    """Paths of all regular files below `root/folder`, relative to it and sorted; Wrong for any other kind."""
    descriptor = _open_folder(root, folder.split("/"))
    try:
        found: list[str] = []
        _walk(descriptor, "", count(), found)
    finally:
        os.close(descriptor)
    return sorted(found)


def same(found: object, expected: object) -> bool:
    """Equal in value and in type at every level: `1`, `1.0` and `true` are three different things."""
    if type(found) is not type(expected):
        return False
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[key], expected[key]) for key in expected)
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return found == expected


def run(expect: Callable[[str], Answer], check: Callable[[str, Answer], None]) -> int:
    """Grade with `check(artifacts' folder, expect(own inputs' folder))`, write the reward last; the exit code.

    An error of `expect` is the bundle's fault and no verdict: it ends the verifier without a reward.
    `--root FOLDER` grades below another root than `/`, for tests without a container.
    """
    arguments = sys.argv[1:]
    root = arguments[1] if arguments[:1] == ["--root"] and len(arguments) == 2 else "/"
    inputs = os.path.join(os.path.dirname(os.path.abspath(__file__)), "input")
    reward = _grade(check, os.path.join(root, "app/output"), expect(inputs))
    _write_reward(os.path.join(root, "logs/verifier"), reward)
    return 0


def _grade(check: Callable[[str, Answer], None], artifacts: str, answer: Answer) -> int:
    try:
        check(artifacts, answer)
    except Wrong as wrong:
        print("wrong:", ascii(str(wrong))[1:-1][:500])
        return 0
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        print("wrong: the artifacts cannot be read:", type(error).__name__)
        return 0
    print("right: everything that the instruction asks for is there")
    return 1


def _write_reward(folder: str, reward: int) -> None:
    """Write `reward.json` in one step, so that no reader ever sees half of it."""
    partial = os.path.join(folder, ".reward.partial")
    with open(partial, "x", encoding="ascii") as file:
        file.write('{"reward": %d}\n' % reward)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, os.path.join(folder, "reward.json"))


def _open_folder(root: str, folders: list[str]) -> int:
    try:
        descriptor = os.open(root, _DIRECTORY)
        for folder in folders:
            parent, descriptor = descriptor, -1
            try:
                descriptor = os.open(folder, _DIRECTORY, dir_fd=parent)
            finally:
                os.close(parent)
    except OSError as error:
        raise Wrong(f"{'/'.join(['output', *folders])} is not a folder") from error
    return descriptor


def _read_at(descriptor: int, name: str, path: str) -> bytes:
    try:
        opened = os.open(name, _FILE, dir_fd=descriptor)
    except OSError as error:
        raise Wrong(f"{path} is missing or not a regular file") from error
    with os.fdopen(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise Wrong(f"{path} is not a regular file")
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise Wrong(f"{path} is larger than {MAX_FILE_BYTES} bytes")
    return content


def _walk(descriptor: int, prefix: str, budget: Iterator[int], found: list[str]) -> None:
    if prefix.count("/") > MAX_DEPTH:
        raise Wrong(f"folders are nested deeper than {MAX_DEPTH} levels")
    with os.scandir(descriptor) as entries:
        for entry in entries:
            if next(budget) >= MAX_ENTRIES:
                raise Wrong(f"there are more than {MAX_ENTRIES} files and folders")
            _visit(descriptor, entry, prefix + entry.name, budget, found)


def _visit(
    descriptor: int, entry: "os.DirEntry[str]", path: str, budget: Iterator[int], found: list[str]
) -> None:
    if entry.is_file(follow_symlinks=False):
        found.append(path)
        return
    if not entry.is_dir(follow_symlinks=False):
        raise Wrong(f"{path} is neither a regular file nor a folder")
    child = os.open(entry.name, _DIRECTORY, dir_fd=descriptor)
    try:
        _walk(child, path + "/", budget, found)
    finally:
        os.close(child)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return result


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
