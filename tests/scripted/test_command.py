"""`manage.py scripted_endpoint` as a person starts it."""

import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.calling import command

MANAGE = Path(__file__).parents[2] / "manage.py"


def test_it_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("from-a-file\n")
    env = {**os.environ, "BENCHSITE_SCRIPTED_KEY_FILE": str(key)}
    arguments = [sys.executable, str(MANAGE), "scripted_endpoint", "--port", "0", "--json"]
    with subprocess.Popen(arguments, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        told = json.loads(process.stdout.readline())
        port = int(told["base_url"].rpartition(":")[2].removesuffix("/v1"))
        link = http.client.HTTPConnection("127.0.0.1", port)
        link.request("GET", "/v1/models", headers={"Authorization": "Bearer from-a-file"})
        assert link.getresponse().status == 200
        link.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert told["scripted"] is True and "scripted-positive" in told["models"]


def test_without_a_key_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BENCHSITE_SCRIPTED_KEY", raising=False)
    refused = command("scripted_endpoint", "--json")
    assert (refused.code, refused.json["code"]) == (2, "scripted.no_key")
    assert "BENCHSITE_SCRIPTED_KEY is not set" in refused.err


def test_with_an_address_that_is_not_its_own_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHSITE_SCRIPTED_KEY", "k")
    refused = command("scripted_endpoint", "--bind", "192.0.2.99", "--json")
    assert (refused.code, refused.json["code"]) == (2, "scripted.cannot_listen")
    assert "cannot listen on 192.0.2.99" in refused.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--bind", "localhost"], "scripted.cannot_listen"),
        (["--bind", ""], "scripted.cannot_listen"),
        (["--slow-seconds", "nan"], "input.bad"),
        (["--slow-seconds=-5"], "input.bad"),
    ],
)
def test_what_would_fail_only_later_is_refused(words: list[str], code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHSITE_SCRIPTED_KEY", "k")
    refused = command("scripted_endpoint", *words, "--json")
    assert (refused.code, refused.json["code"]) == (2, code)
