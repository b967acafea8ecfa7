"""The transcripts of a run's trials on the worker: bounded, gone on with, and of the run's trials alone."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from runs.engine.network import transcript
from runs.engine.network.transcript import NAME, TranscriptFiles


def record(number: int, answer: bytes | None = b"said", new: tuple[bytes, ...] = (b"{}",), trial: int = 1) -> Any:
    line = {
        "number": number, "ledger": {"trial": trial}, "lost": False, "withheld": False, "head": 0, "tail": 0,
        "new": [len(unit) for unit in new], "answer": None if answer is None else len(answer),
    }  # fmt: skip
    return line, [*new, *([] if answer is None else [answer])]


def exchanges(folder: Path, trial: int = 1) -> list[Any]:
    return [json.loads(line) for line in (folder / str(trial) / NAME).read_bytes().splitlines()[1:]]


@pytest.fixture
def trials(tmp_path: Path) -> Path:
    (tmp_path / "1").mkdir()
    return tmp_path


def test_text_stays_text_and_bytes_are_in_base64(trials: Path) -> None:
    files = TranscriptFiles(trials)
    control = b"\x01" * 100
    for number, said in enumerate((b"na\xc3\xafve", b"\xff\x00", control, None)):
        files.take(*record(number, said))
    answers = [exchange["answer"] for exchange in exchanges(trials)]
    assert answers[0] == "naïve" and answers[3] is None
    assert [base64.b64decode(answer["base64"]) for answer in answers[1:3]] == [b"\xff\x00", control]


def test_beyond_its_bound_a_trial_keeps_heads_and_tails_and_then_sizes(
    trials: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "WHOLE_BYTES", 3_000)
    monkeypatch.setattr(transcript, "CUT_BYTES", 4_500)
    monkeypatch.setattr(transcript, "MAX_BYTES", 5_200)
    monkeypatch.setattr(transcript, "CUT_TEXT_BYTES", 100)
    files = TranscriptFiles(trials)
    said = b"begin" + b"x" * 2_000 + b"end"
    for number in range(30):
        files.take(*record(number, said))
    kept = [exchange["answer"] for exchange in exchanges(trials)]
    assert kept[0] == said.decode() and (trials / "1" / NAME).stat().st_size <= 5_200
    assert kept[1] == {"bytes": len(said), "head": said[:50].decode(), "tail": said[-50:].decode()}
    assert kept[-1] == {"bytes": len(said), "head": "", "tail": ""} and files.next == 30


def test_a_new_one_goes_on_behind_the_last_whole_line(trials: Path) -> None:
    files = TranscriptFiles(trials)
    for number in range(3):
        files.take(*record(number))
    path = trials / "1" / NAME
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kind":"exchange","number":3')
    again = TranscriptFiles(trials)
    assert again.next == 3 and path.read_bytes() == whole
    again.take(*record(2))  # sent once more, because nobody had said that it is held
    again.take(*record(3))
    assert [exchange["number"] for exchange in exchanges(trials)] == [0, 1, 2, 3]


def test_a_first_line_that_was_torn_leaves_an_empty_file_to_begin_anew(trials: Path) -> None:
    path = trials / "1" / NAME
    path.write_bytes(b'{"kind":"open')
    files = TranscriptFiles(trials)
    files.take(*record(0))
    assert len(exchanges(trials)) == 1 and path.read_bytes().startswith(b'{"kind":"opened"')


def test_what_is_of_no_trial_of_the_run_is_left_out(trials: Path) -> None:
    files = TranscriptFiles(trials)
    files.take(*record(0, trial=2))
    assert files.next == 1 and not (trials / "2").exists() and not (trials / "1" / NAME).exists()


def test_a_file_that_a_link_stands_for_is_not_followed(trials: Path, tmp_path: Path) -> None:
    (trials / "1" / NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        TranscriptFiles(trials).take(*record(0))
    assert not (tmp_path / "elsewhere").exists()
