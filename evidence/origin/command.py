"""The words of `verify` on a command line, for benchsite and its client alike."""

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence.origin import envelope, public_keys
from evidence.origin.public_keys import KeyProblem, PublicKey, read_public_keys
from evidence.origin.sources import SourceProblem
from evidence.origin.verifying import ExpectedOrigin

_RUN_ID, _SHA256 = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Inputs:
    keys: list[PublicKey]
    expected: ExpectedOrigin
    envelope: bytes | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", type=Path, metavar="FOLDER|ZIP|SUITE", help="a run's folder, a ZIP of it, or suite.json"
    )
    parser.add_argument(
        "--key", action="append", required=True, type=Path, metavar="FILE", dest="keys",
        help="a public key that you trust: PEM, a key document, or the site's list of keys; may be given again",
    )  # fmt: skip
    parser.add_argument("--run-id", metavar="ID", help="the run that it has to be, when you know it from elsewhere")
    parser.add_argument("--spec-sha256", metavar="HASH", help="the hash of the confirmed spec, when you know it")
    parser.add_argument(
        "--envelope", type=Path, metavar="FILE", help="the site's envelope of a suite.json, when it is not beside it"
    )


def inputs(options: Mapping[str, Any]) -> Inputs:
    """The files that are named, read. Raises KeyProblem and SourceProblem."""
    for name, form in (("run_id", _RUN_ID), ("spec_sha256", _SHA256)):
        if options[name] is not None and not form.fullmatch(options[name]):
            length = form.pattern.partition("{")[2].rstrip("}")
            raise SourceProblem(f"--{name.replace('_', '-')}: write it as {length} digits of 0 to 9 and a to f.")
    keys = [key for path in options["keys"] for key in _keys(path)]
    given = options["envelope"]
    return Inputs(keys, ExpectedOrigin(options["run_id"], options["spec_sha256"]), _envelope(given) if given else None)


def _keys(path: Path) -> list[PublicKey]:
    try:
        return read_public_keys(_read(path, public_keys.MAX_BYTES))
    except OSError as error:
        raise KeyProblem(f"The key {path} cannot be read ({error.strerror}).") from error
    except KeyProblem as problem:
        raise KeyProblem(f"{path}: {problem.sentence}") from problem


def _envelope(path: Path) -> bytes:
    try:
        return _read(path, envelope.MAX_BYTES)
    except OSError as error:
        raise SourceProblem(f"The envelope {path} cannot be read ({error.strerror}).") from error


def _read(path: Path, limit: int) -> bytes:
    if not path.is_file():
        raise FileNotFoundError(2, "no such file")
    with path.open("rb") as file:
        return file.read(limit + 1)
