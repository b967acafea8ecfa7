"""Grades `ledger-totals`: totals per account, computed again from the verifier's own copy of the ledger."""

import os
import re
import sys

# Isolated Python (-I) does not look beside the script by itself.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from grading import Wrong, read_input, read_json, run, same  # noqa: E402

_AMOUNT = re.compile(r"-?[0-9]+\.[0-9]{2}")


def expect(inputs: str) -> tuple[dict[str, str], list[int]]:
    """Totals as decimal strings by account, and the numbers of the malformed lines (the heading is 1)."""
    ledger = read_input(os.path.join(inputs, "ledger.csv")).decode("ascii")
    cents: dict[str, int] = {}
    malformed: list[int] = []
    for number, line in enumerate(ledger.splitlines()[1:], start=2):
        fields = line.split(",")
        if len(fields) == 4 and _AMOUNT.fullmatch(fields[3]):
            cents[fields[1]] = cents.get(fields[1], 0) + int(fields[3].replace(".", ""))
        else:
            malformed.append(number)
    return {account: _decimal(total) for account, total in cents.items()}, malformed


def check(artifacts: str, answer: tuple[dict[str, str], list[int]]) -> None:
    """Raise Wrong unless `totals.json` holds exactly the totals and the malformed lines."""
    totals, malformed = answer
    found = read_json(artifacts, "totals.json")
    if not isinstance(found, dict) or found.keys() != {"totals", "malformed_lines"}:
        raise Wrong("totals.json is not an object with exactly the keys totals and malformed_lines")
    if not same(found["malformed_lines"], malformed):
        raise Wrong(f"malformed_lines is not {malformed}")
    if not same(found["totals"], totals):
        raise Wrong(f"totals is not {totals}")


def _decimal(cents: int) -> str:
    return f"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02d}"


if __name__ == "__main__":
    sys.exit(run(expect, check))
