"""manage.py prepare: one sentence and the documented exit code."""

import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from runs.engine import assets
from runs.engine.assets import AssetError

pytestmark = pytest.mark.django_db


def fail_with(monkeypatch: pytest.MonkeyPatch, error: AssetError) -> None:
    def prepare(*args: Any, **kwargs: Any) -> None:
        raise error

    monkeypatch.setattr(assets, "prepare", prepare)


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        pytest.param("assets.missing_offline", 3, id="something is missing"),
        pytest.param("image.engine_unreachable", 3, id="stopped engine"),
        pytest.param("assets.disk_full", 3, id="full disk"),
        pytest.param("harness.python_too_old", 3, id="Python 3.11"),
        pytest.param("harness.bytecode_tampered", 4, id="tampered cache"),
        pytest.param("image.build_failed", 4, id="failed build"),
    ],
)
def test_every_refusal_is_one_sentence_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: str, exit_code: int
) -> None:
    fail_with(monkeypatch, AssetError(code, "What is wrong, and the remedy.", "private detail"))
    with pytest.raises(SystemExit) as caught:
        call_command("prepare", "--offline", "--json")
    captured = capsys.readouterr()
    assert caught.value.code == exit_code
    assert captured.err == "What is wrong, and the remedy.\n"
    assert json.loads(captured.out)["code"] == code
    assert "private" not in captured.out


def test_an_unknown_option_is_bad_usage() -> None:
    with pytest.raises(CommandError, match="unrecognized arguments"):
        call_command("prepare", "--fast")
