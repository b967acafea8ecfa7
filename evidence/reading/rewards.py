"""The reward that the verifier wrote, read byte for byte.

Design 5, "Reward syntax": exactly one file; reward.json is one object with exactly the declared key and the
integer 0 or 1; reward.txt is 0 or 1, optionally one newline; UTF-8 without BOM. Nothing else.
"""

from dataclasses import dataclass
from enum import StrEnum

from benchsite.lib.folder import FileRead, FileState
from benchsite.lib.strict_json import Json, JsonProblem, load

MAX_REWARD_BYTES = 4096
_TEXTS = {b"0": 0, b"0\n": 0, b"1": 1, b"1\n": 1}


class RewardState(StrEnum):
    """`one` and `zero` are grades; every other state is the suffix of a code (`grading.…` or `integrity.…`)."""

    ONE = "one"
    ZERO = "zero"
    MISSING = "reward_missing"
    UNREADABLE = "reward_unreadable"
    MALFORMED = "reward_malformed"
    KEY_MISSING = "reward_key_missing"
    EXTRA_KEY = "reward_extra_key"
    NULL = "reward_null"
    BOOLEAN = "reward_boolean"
    TYPE = "reward_type"
    NONFINITE = "reward_nonfinite"
    DOMAIN = "reward_domain"
    BOTH_FILES = "reward_both_files"
    DUPLICATE_KEY = "reward_duplicate_key"

    @property
    def value_or_none(self) -> int | None:
        return {RewardState.ONE: 1, RewardState.ZERO: 0}.get(self)

    @property
    def is_contradiction(self) -> bool:
        """Two statements where one is allowed: the files were tampered with, or nobody can say which one holds."""
        return self in (RewardState.BOTH_FILES, RewardState.DUPLICATE_KEY)


@dataclass(frozen=True, slots=True)
class Reward:
    """What the reward files amount to, with the size and hash of each file that is there."""

    state: RewardState = RewardState.MISSING
    detail: str = ""
    files: tuple[tuple[str, int, str | None], ...] = ()


def read_reward(json_file: FileRead, text_file: FileRead, *, key: str = "reward") -> Reward:
    """The one reward of the two possible files; `key` is the spec's declared key."""
    files = tuple((file.path, file.size, file.sha256) for file in (json_file, text_file) if _is_there(file))
    if len(files) == 2:
        return Reward(RewardState.BOTH_FILES, files=files)
    if not files:
        return Reward(RewardState.MISSING)
    present, parse = (json_file, _from_json) if _is_there(json_file) else (text_file, _from_text)
    if present.state not in (FileState.OK, FileState.EMPTY):
        return Reward(RewardState.UNREADABLE, present.state.value, files)
    state, detail = parse(present.data, key)
    return Reward(state, detail, files)


def _is_there(file: FileRead) -> bool:
    return file.state is not FileState.MISSING


def _from_text(data: bytes, _key: str) -> tuple[RewardState, str]:
    value = _TEXTS.get(data)
    if value is None:
        return RewardState.MALFORMED, "not 0 or 1 with at most one newline"
    return _grade(value), ""


def _from_json(data: bytes, key: str) -> tuple[RewardState, str]:
    try:
        document = load(data, depth=4, items=64)
    except JsonProblem as problem:
        return _PROBLEMS.get(problem.code, RewardState.MALFORMED), problem.code
    if not isinstance(document, dict):
        return RewardState.MALFORMED, "not an object"
    if key not in document:
        return RewardState.KEY_MISSING, ""
    if len(document) != 1:
        return RewardState.EXTRA_KEY, f"{len(document)} keys"
    return _value_state(document[key]), ""


_PROBLEMS = {"duplicate_key": RewardState.DUPLICATE_KEY, "nonfinite": RewardState.NONFINITE}


def _value_state(value: Json) -> RewardState:
    match value:
        case None:
            return RewardState.NULL
        case bool():
            return RewardState.BOOLEAN
        case int() if value in (0, 1):
            return _grade(value)
        case float() if value not in (0.0, 1.0):
            return RewardState.DOMAIN
        case int():
            return RewardState.DOMAIN
        case _:
            return RewardState.TYPE


def _grade(value: int) -> RewardState:
    return RewardState.ONE if value == 1 else RewardState.ZERO
