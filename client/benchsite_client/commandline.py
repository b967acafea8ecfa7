"""`benchsite-client verify`: the product's own check of origin, without the product."""

import argparse
import json
import sys
from typing import Any

from benchsite_client.archive import ArchiveProblem
from benchsite_client.command import add_arguments, inputs
from benchsite_client.public_keys import KeyProblem
from benchsite_client.sources import SourceProblem, opened
from benchsite_client.verifying import as_document, as_lines, verify

HOLDS, DOES_NOT_HOLD, BAD_INPUT, ERROR = 0, 1, 2, 4


def main(arguments: list[str] | None = None) -> int:
    """Exit codes are those of the product's command: 0 holds, 1 does not, 2 bad input, 4 it cannot be told."""
    parser = argparse.ArgumentParser(prog="benchsite-client", allow_abbrev=False, description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    verifying = commands.add_parser("verify", allow_abbrev=False, help="verify a run's folder, a ZIP or a suite.json")
    add_arguments(verifying)
    verifying.add_argument("--json", action="store_true", help="print one JSON document on one line")
    options = vars(parser.parse_args(arguments))
    try:
        asked = inputs(options)
        with opened(options["what"]) as (files, only_suite):
            found = verify(files, asked.keys, expected=asked.expected, only_suite=only_suite, envelope=asked.envelope)
    except (ArchiveProblem, KeyProblem, SourceProblem) as problem:
        return _refused(options, problem.code, problem.sentence, BAD_INPUT)
    except OSError as error:
        return _refused(options, "input.unreadable", f"It cannot be read ({error.strerror}).", ERROR)
    if options["json"]:
        print(json.dumps(as_document(found)))
    else:
        for line in as_lines(found):
            print(_shown(line))
    return HOLDS if found.holds else DOES_NOT_HOLD


def _refused(options: dict[str, Any], code: str, sentence: str, exit_code: int) -> int:
    print(_shown(sentence), file=sys.stderr)
    if options["json"]:
        print(json.dumps({"schema": "benchsite.error/v1", "code": code, "sentence": sentence, "exit_code": exit_code}))
    return exit_code


def _shown(text: str) -> str:
    """Text for a terminal, on which no name of a file acts."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


if __name__ == "__main__":
    sys.exit(main())
