"""The rewards of a trial: those that its result holds, and what the verifier's own files say beside them."""

import json
import math
from typing import Any

from benchsite.lib.folder import FileState, Folder
from benchsite.lib.strict_json import JsonProblem, load
from evidence.imports.documents import MASK

MAX_REWARD_BYTES = 1024 * 1024
LONGEST_NAME = 1024
_TRIAL_FILES = ("verifier/reward.json", "verifier/reward.txt")


def numbers(rewards: Any) -> tuple[dict[str, float], set[str]]:
    """The rewards that are finite numbers under a name, and the badges of those that are not."""
    found: dict[str, float] = {}
    badges: set[str] = set()
    if not isinstance(rewards, dict):
        return found, ({"reward_not_a_number"} if rewards is not None else badges)
    for name, value in rewards.items():
        number = _number(value)
        if not 0 < len(name) <= LONGEST_NAME or "\0" in name:
            badges.add("reward_unnamed")
        elif number is None:
            badges.add("reward_not_a_number")
        else:
            found[name] = number
    return found, badges


class RawRewards:
    """What lies in `verifier/`: `values` of the one file that Harbor reads, exactly as it stands there.

    `damaged` is a sentence's end when the file cannot be read, or when Harbor masked a secret in it.
    """

    def __init__(self, folder: Folder, base: str) -> None:
        self.present = False
        self.damaged = ""
        self.values: dict[str, Any] | None = None
        for name in _TRIAL_FILES:
            read = folder.read(f"{base}/{name}", limit=MAX_REWARD_BYTES)
            if read.state is FileState.MISSING:
                continue
            self.present = True
            if read.state not in (FileState.OK, FileState.EMPTY):
                self.damaged = f"{name} cannot be read ({read.state.value.replace('_', ' ')})"
            elif MASK in read.data:
                self.damaged = f"Harbor masked a short secret in {name}"
            else:
                self.values = _of_json(read.data) if name.endswith(".json") else _of_text(read.data)
            return  # with both files, Harbor reads the JSON

    def differs(self, rewards: Any) -> bool:
        """Whether the file says otherwise than the result; what Harbor turned into a number differs as well."""
        if not self.present or self.damaged or rewards is None:
            return False
        if self.values is None or not isinstance(rewards, dict) or set(self.values) != set(rewards):
            return True
        pairs = [(self.values[name], rewards[name]) for name in rewards]
        return any(type(raw) is bool or _number(raw) is None or _number(raw) != _number(told) for raw, told in pairs)


def _of_json(data: bytes) -> dict[str, Any] | None:
    """The object, NaN as itself; None for what is none, and for one that says something twice."""
    try:
        found = load(data, size=MAX_REWARD_BYTES, depth=8, items=100_000)
    except JsonProblem as problem:
        if not problem.places or any(code != "nonfinite" for _, code in problem.places):
            return None
        found = json.loads(data)
    return found if isinstance(found, dict) else None


def _of_text(data: bytes) -> dict[str, Any] | None:
    try:
        return {"reward": float(data.decode("ascii", "strict"))}
    except ValueError:
        return None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
