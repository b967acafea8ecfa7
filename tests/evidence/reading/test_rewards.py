"""The reward's syntax by itself: every table row of the classification again, without a folder and in no time."""

import pytest

from benchsite.lib.folder import FileRead, FileState
from evidence.reading.rewards import MAX_REWARD_BYTES, Reward, RewardState, read_reward
from tests.evidence.folders import passing_run
from tests.evidence.variants import GRADED, REWARDS, Variant


def file(data: bytes | None) -> FileRead:
    if data is None:
        return FileRead("reward", FileState.MISSING)
    if not data:
        return FileRead("reward", FileState.EMPTY)
    if len(data) > MAX_REWARD_BYTES:
        return FileRead("reward", FileState.TOO_LARGE, len(data))
    return FileRead("reward", FileState.OK, len(data), data=data)


def read(json: bytes | None = None, txt: bytes | None = None, key: str = "reward") -> Reward:
    return read_reward(file(json), file(txt), key=key)


def rows() -> list[Variant]:
    """Those of the classification's table that change nothing but the reward files."""
    return [*REWARDS, *(variant for variant in GRADED if variant.name.startswith("reward."))]


def written(variant: Variant) -> dict[str, bytes | None]:
    run = passing_run(1)
    variant.change(run)
    return {kind: run.trial.kept.get(f"verifier/reward.{kind}") for kind in ("json", "txt")}


@pytest.mark.parametrize("variant", rows(), ids=lambda variant: variant.name)
def test_a_reward_is_what_its_bytes_say(variant: Variant) -> None:
    suffix = variant.code.rpartition(".")[2]
    assert read(**written(variant)).state == {"reward_1": "one", "reward_0": "zero"}.get(suffix, suffix)


@pytest.mark.parametrize("state", [state for state in FileState if state is not FileState.MISSING])
def test_a_second_file_of_any_state_is_one_too_many(state: FileState) -> None:
    other = FileRead("reward.txt", state)
    for files in ((file(b'{"reward":1}'), other), (other, file(b'{"reward":1}'))):
        assert read_reward(*files).state == "reward_both_files" and len(read_reward(*files).files) == 2


@pytest.mark.parametrize("state", [FileState.TOO_LARGE, FileState.UNREADABLE, FileState.UNSAFE_TYPE])
def test_a_file_that_is_no_plain_small_one_is_not_read(state: FileState) -> None:
    found = read_reward(FileRead("reward.json", state, data=b'{"reward":1}'), file(None))
    assert (found.state, found.detail) == ("reward_unreadable", state.value)


def test_what_is_found_is_named_with_its_size_and_hash() -> None:
    assert read(txt=b"1").files == (("reward", 1, file(b"1").sha256),)
    assert read().files == () and read(json=b"{").detail != "" and read(txt=b"2").detail != ""


def test_the_declared_key_counts_and_no_other() -> None:
    assert read(json=b'{"score":1}', key="score").state == "one"
    assert read(json=b'{"reward":1}', key="score").state == "reward_key_missing"
    assert read(json=b'{"reward":1,"score":1}', key="score").detail == "2 keys"


@pytest.mark.parametrize(("state", "value"), [("one", 1), ("zero", 0), ("reward_missing", None)])
def test_only_a_grade_has_a_value(state: str, value: int | None) -> None:
    assert RewardState(state).value_or_none == value


def test_two_statements_are_a_contradiction_and_nothing_else_is() -> None:
    assert [state for state in RewardState if state.is_contradiction] == ["reward_both_files", "reward_duplicate_key"]


@pytest.mark.parametrize(
    ("levels", "state"), [(3, "reward_type"), (4, "reward_malformed")], ids=["as deep as is read", "deeper"]
)
def test_a_document_is_read_four_levels_deep(levels: int, state: str) -> None:
    assert read(json=b'{"reward":' + b"[" * levels + b"]" * levels + b"}").state == state


@pytest.mark.parametrize(("items", "state"), [(61, "reward_type"), (62, "reward_malformed")])
def test_a_document_is_read_up_to_a_bound_of_items(items: int, state: str) -> None:
    assert read(json=b'{"reward":[' + b",".join([b"1"] * items) + b"]}").state == state


def test_the_bound_of_bytes_is_the_documented_one() -> None:
    assert MAX_REWARD_BYTES == 4096
