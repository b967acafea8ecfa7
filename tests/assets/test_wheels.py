"""Only wheels whose hash is locked are installed."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.engine.assets.errors import AssetError
from runs.engine.assets.harness import REQUIREMENTS
from runs.engine.assets.rootfs import pins
from runs.engine.assets.wheels import Pin, check_wheels, normal_name, read_requirements
from runs.images.recipes import read_recipe

NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,5})?", fullmatch=True)
HASHES = st.frozensets(st.from_regex(r"[0-9a-f]{64}", fullmatch=True), min_size=1, max_size=3)


@given(st.lists(st.builds(Pin, NAMES, st.from_regex(r"[0-9]\.[0-9]{1,3}", fullmatch=True), HASHES), max_size=5))
def test_what_is_written_is_what_is_read(written: list[Pin]) -> None:
    text = "".join(
        f"{pin.name}=={pin.version} \\\n    "
        + " \\\n    ".join(f"--hash=sha256:{h}" for h in sorted(pin.hashes))
        + "\n"
        for pin in written
    )
    assert read_requirements(f"# made by hand\n{text}\n") == written


@pytest.mark.parametrize(
    "line",
    [
        "harbor==0.22.0",
        "harbor>=0.22 --hash=sha256:" + "0" * 64,
        "harbor==0.22.0 --hash=md5:" + "0" * 32,
        "--index-url place",
        "-e .",
    ],
)
def test_a_line_without_version_and_hash_is_refused(line: str) -> None:
    with pytest.raises(AssetError) as caught:
        read_requirements(line + "\n")
    assert caught.value.code == "assets.requirements"


def test_the_shipped_locks_pin_what_the_documents_name() -> None:
    harness = {pin.name: pin.version for pin in read_requirements(REQUIREMENTS.read_text())}
    agent = {pin.name: pin.version for pin in pins(read_recipe("agent"))}
    assert (harness["harbor"], harness["docker"]) == ("0.22.0", "7.2.0")
    assert agent["mini-swe-agent"] == "2.4.6"


def wheel(folder: Path, name: str, content: bytes) -> str:
    (folder / f"{name}-1.0-py3-none-any.whl").write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def test_wheels_with_locked_hashes_are_accepted_under_any_spelling(tmp_path: Path) -> None:
    digest = wheel(tmp_path, "Some_Name", b"wheel")
    (found,) = check_wheels([Pin(normal_name("some.name"), "1.0", frozenset({digest, "0" * 64}))], tmp_path)
    assert found.sha256 == digest


@pytest.mark.parametrize(
    ("prepare", "code"),
    [
        pytest.param(lambda folder: None, "assets.wheel_missing", id="missing"),
        pytest.param(lambda folder: wheel(folder, "one", b"forged"), "assets.wheel_changed", id="changed"),
        pytest.param(
            lambda folder: (wheel(folder, "one", b"good"), wheel(folder, "two", b"extra")),
            "assets.wheel_changed",
            id="one too many",
        ),
    ],
)
def test_a_folder_that_is_not_the_lock_is_refused(tmp_path: Path, prepare: object, code: str) -> None:
    assert callable(prepare)
    prepare(tmp_path)
    with pytest.raises(AssetError) as caught:
        check_wheels([Pin("one", "1.0", frozenset({hashlib.sha256(b"good").hexdigest()}))], tmp_path)
    assert caught.value.code == code
