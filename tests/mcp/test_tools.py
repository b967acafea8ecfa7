"""The tools without a client: the same bytes and codes as the command line, bounds, and what never leaves."""

import io
import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.files.storage import default_storage
from django.core.management import call_command
from django.db import OperationalError
from django.utils import timezone
from mcp_types import CallToolResult

from benchsite import __version__
from benchsite.lib.canonical import canonical_bytes, canonical_sha256
from benchsite.mcp import acts, tools
from benchsite.mcp.server import tools_document
from benchsite.mcp.tools import TOOLS, call_tool
from evidence.models import Artifact
from evidence.register import store, streaming
from runs.models import AuditEntry, Preview
from runs.services.runlog import Line, append_log
from tests.commands.schemas import validated
from tests.mcp.conftest import keep
from tests.runs.rows import person, run_row
from tests.runs.sites import Site, report

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Connections are not closed here: the test's transaction lives in one. Notes when they would have been."""
    noted: list[str] = []
    monkeypatch.setattr(tools, "close_old_connections", lambda: noted.append("looked"))
    return noted


def call(user: Any, tool: str, **given: Any) -> CallToolResult:
    result = call_tool(user.pk, tool, given)
    validated(dict(result.structured_content))
    return result


def ok(user: Any, tool: str, **given: Any) -> dict[str, Any]:
    result = call(user, tool, **given)
    assert not result.is_error, result.structured_content
    return dict(result.structured_content)


def code(user: Any, tool: str, **given: Any) -> str:
    result = call(user, tool, **given)
    assert result.is_error, result.structured_content
    return str(result.structured_content["code"])


def command(*arguments: str) -> tuple[int, dict[str, Any]]:
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("preview", "--json", "--user", "olga", *arguments, stdout=out, stderr=err)
    except SystemExit as left:
        return int(left.code or 0), json.loads(out.getvalue())
    return 0, json.loads(out.getvalue())


def as_options(given: dict[str, Any]) -> list[str]:
    options: list[str] = []
    for name, value in given.items():
        if name == "tasks":
            options += [part for task in value for part in ("--task", task)]
        else:
            options += [f"--{name.replace('_', '-')}={value}"]
    return options


# -- the same as the command line -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"tasks": ["file-tree", "ledger-totals"]},
        {"max_steps": 3, "max_trial_seconds": 300},
        {"profile": "environment-smoke", "worker": "local", "tasks": ["config-merge"], "max_steps": 1},
    ],
)
def test_the_same_input_gives_the_same_bytes_as_the_command(site: Site, given: dict[str, Any]) -> None:
    with time_machine.travel(timezone.now(), tick=False):  # the checks say how many seconds old a report is
        shown = ok(site.operator, "preview", endpoint="scripted", **given)
        _, told = command("--endpoint", "scripted", *as_options(given))
    assert canonical_bytes(shown["spec"]) == canonical_bytes(told["spec"])
    assert shown["spec_sha256"] == told["spec_sha256"] == canonical_sha256(shown["spec"])
    assert len({row.spec for row in Preview.objects.all()}) == 1
    unlike = ("preview", "expires_at", "schema")
    assert {k: v for k, v in shown.items() if k not in unlike} == {k: v for k, v in told.items() if k not in unlike}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "input.unknown_endpoint"),
        ({"endpoint": "elsewhere"}, "input.unknown_endpoint"),
        ({"endpoint": "scripted", "profile": "nowhere"}, "input.unknown_profile"),
        ({"endpoint": "scripted", "worker": "nobody"}, "input.unknown_worker"),
        ({"endpoint": "scripted", "tasks": ["ledger"]}, "spec.task_not_in_profile"),
        ({"endpoint": "scripted", "tasks": ["file-tree", "file-tree"]}, "spec.task_repeated"),
        ({"endpoint": "scripted", "max_steps": 33}, "spec.wider_than_profile"),
        ({"endpoint": "scripted", "max_steps": 0}, "spec.below_minimum"),
        ({"endpoint": "scripted", "max_steps": -(2**40)}, "spec.below_minimum"),
        ({"endpoint": "scripted", "max_trial_seconds": 601}, "spec.wider_than_profile"),
    ],
)
def test_the_same_bad_input_has_the_same_code_as_the_command(site: Site, given: dict[str, Any], expected: str) -> None:
    exit_code, told = command(*as_options(given))
    assert (code(site.operator, "preview", **given), told["code"], exit_code) == (expected, expected, 2)
    assert Preview.objects.count() == 0


def test_what_blocks_is_shown_and_refuses_the_start(site: Site) -> None:
    report(engine=None, engine_problem={"code": "engine.unreachable", "sentence": "gone"})
    shown = ok(site.operator, "preview", endpoint="scripted")
    assert shown["blocked"] is True
    refused = call(site.operator, "start", preview=shown["preview"], spec_sha256=shown["spec_sha256"] or "ab" * 32)
    assert refused.is_error and refused.structured_content["code"] in ("preview.blocked", "preview.bad_token")


# -- schemas ----------------------------------------------------------------------------------------------


def test_schemas_are_sorted_closed_and_described() -> None:
    document = tools_document()
    names = [tool["name"] for tool in document["tools"]]
    assert document["schema"] == "benchsite.mcp-tools/v1" and names == sorted(tool.name for tool in TOOLS)
    for tool in document["tools"]:
        assert tool["inputSchema"]["type"] == "object" and tool["inputSchema"]["additionalProperties"] is False
        assert tool["description"] and not tool["annotations"]["openWorldHint"]
    reading = {tool["name"] for tool in document["tools"] if tool["annotations"]["readOnlyHint"]}
    assert reading == {"status", "logs", "evidence_list", "evidence_read"}


def test_start_cannot_be_asked_for_without_a_preview() -> None:
    [start] = [tool for tool in tools_document()["tools"] if tool["name"] == "start"]
    assert sorted(start["inputSchema"]["required"]) == ["preview", "spec_sha256"]


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["version"] == __version__


ODD = ("a\0b", "a\nb", "\x1b[31m", "\udc80", "", "x" * 100_000)


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize(
    ("tool", "given", "field", "expected"),
    [
        ("preview", {}, "endpoint", "input.unknown_endpoint"),
        ("preview", {"endpoint": "scripted"}, "profile", "input.unknown_profile"),
        ("preview", {"endpoint": "scripted"}, "worker", "input.unknown_worker"),
        ("start", {"spec_sha256": "3f" * 32}, "preview", "preview.unknown"),
        ("status", {}, "run", "input.bad_run_id"),
        ("logs", {}, "run", "input.bad_run_id"),
        ("cancel", {}, "run", "input.bad_run_id"),
        ("cleanup", {}, "run", "input.bad_run_id"),
        ("evidence_list", {}, "run", "input.bad_run_id"),
        ("evidence_read", {}, "file", "evidence.unknown"),
    ],
)
def test_text_that_names_nothing_is_refused_by_name_wherever_it_stands(
    site: Site, tool: str, given: dict[str, Any], field: str, expected: str, text: str
) -> None:
    result = call(site.operator, tool, **given, **{field: text})
    assert result.structured_content["code"] == expected
    sentence = result.structured_content["sentence"]
    assert len(sentence) < 500 and sentence.isprintable()


@pytest.mark.parametrize(
    ("tool", "given", "words"),
    [
        ("preview", {"endpoints": "x"}, ("endpoints", "no such argument", "endpoint", "max_steps")),
        ("preview", {"max_steps": "5"}, ("max_steps", "whole number", "such as 10")),
        ("preview", {"max_steps": 5.0}, ("max_steps", "whole number", "such as 10")),
        ("preview", {"max_trial_seconds": True}, ("max_trial_seconds", "whole number", "such as 10")),
        ("preview", {"endpoint": 5}, ("endpoint", "an integer, not a text", "local-model")),
        ("preview", {"tasks": "file-tree"}, ("tasks", "a text, not a list", '["file-tree"]')),
        ("preview", {"tasks": ["file-tree", 5]}, ("tasks[1]", "an integer, not a text", '["file-tree"]')),
        ("start", {"preview": "3f" * 16}, ("spec_sha256", "missing", "3f3f")),
        ("start", {"preview": "nope", "spec_sha256": "3f" * 32}, ("preview", "'nope'", "32 characters")),
        ("status", {"run": "../x"}, ("'../x'", "no run id", "0f3a9c21")),
        ("status", {"limit": 51}, ("limit", "51 is above 50", "10")),
        ("logs", {}, ("run", "missing", "0f3a9c21")),
        ("evidence_read", {"file": "3f" * 16, "length": 3}, ("length", "3 is below 4")),
    ],
)
def test_a_refusal_names_the_argument_what_is_wanted_and_an_example(
    site: Site, tool: str, given: dict[str, Any], words: tuple[str, ...]
) -> None:
    document = call(site.operator, tool, **given).structured_content
    assert [word for word in words if word not in document["sentence"]] == [], document["sentence"]
    assert not set("^$\\") & set(document["sentence"]), "a pattern is no sentence"


# -- bounds -----------------------------------------------------------------------------------------------


def test_a_file_is_read_in_bounded_parts_that_add_up(site: Site) -> None:
    whole = ("é€𝄞x" * 20_000).encode()
    file = keep(run_row(), "trials/1/kept/agent/log.txt", whole)
    text, offset, parts = "", 0, 0
    while offset is not None:
        part = ok(site.operator, "evidence_read", file=file.key, offset=offset)
        assert len(part["untrusted_text"].encode()) <= 64 * 1024
        text, offset, parts = text + part["untrusted_text"], part["next_offset"], parts + 1
    assert text.encode() == whole and parts == 4
    assert code(site.operator, "evidence_read", file=file.key, length=64 * 1024 + 1) == "arguments.above_maximum"
    assert code(site.operator, "evidence_read", file=file.key, offset=len(whole) + 1) == "evidence.beyond_end"


@pytest.mark.parametrize("content", [b"\xff" * 9, b"\xf0\x9f", b"ab\xf0", b""])
def test_whatever_a_file_holds_reading_comes_to_an_end(site: Site, content: bytes) -> None:
    file = keep(run_row(), "trials/1/kept/agent/log.txt", content)
    offset, seen = 0, []
    while offset is not None:
        seen.append(offset)
        offset = ok(site.operator, "evidence_read", file=file.key, offset=offset, length=4)["next_offset"]
    assert seen == sorted(set(seen))


def test_a_read_is_audited_like_a_download(site: Site) -> None:
    file = keep(run_row(), "trials/1/kept/agent/log.txt", b"0123456789")
    ok(site.operator, "evidence_read", file=file.key, offset=2, length=5)
    entry = AuditEntry.objects.get(kind="download")
    assert (entry.actor_name, entry.run_id, entry.subject) == ("olga", file.run_id, file.path)
    assert (entry.detail["sha256"], entry.detail["bytes"]) == (file.sha256, 5)


def test_a_file_that_is_another_one_is_not_given_out(site: Site) -> None:
    file = keep(run_row(), "trials/1/kept/agent/log.txt", b"0123456789")
    Artifact.objects.filter(pk=file.pk).update(sha256="0" * 64)
    result = call(site.operator, "evidence_read", file=file.key, length=4)
    assert result.structured_content["code"] == "evidence.hash_differs" and "0123" not in str(result.content)


def test_a_file_that_is_read_in_parts_is_hashed_once_and_each_part_is_still_proved(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = bytes(range(256)) * 4096  # 1 MiB in 16 parts
    file = keep(run_row(), "trials/1/kept/agent/log.txt", whole)
    read = count_reads(monkeypatch)
    for offset in range(0, len(whole), 64 * 1024):
        ok(site.operator, "evidence_read", file=file.key, offset=offset)
    assert sum(read) == 2 * len(whole)  # once for the whole, once for all parts

    stored = Path(default_storage.path(file.stored))
    before = stored.stat()
    stored.write_bytes(whole[:-1] + b"!")
    os.utime(stored, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert ok(site.operator, "evidence_read", file=file.key)["offset"] == 0  # its bytes are those that were registered
    changed = {"file": file.key, "offset": len(whole) - 10}
    assert code(site.operator, "evidence_read", **changed) == "evidence.hash_differs"
    assert code(site.operator, "evidence_read", file=file.key) == "evidence.hash_differs"
    stored.write_bytes(whole[:-1])
    assert code(site.operator, "evidence_read", file=file.key) == "evidence.hash_differs"
    stored.write_bytes(whole)
    assert ok(site.operator, "evidence_read", **changed)["next_offset"] is None


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of everything that is read from the storage from now on."""
    read: list[int] = []

    class Counted:
        def __init__(self, file: Any) -> None:
            self.file, self.seek = file, file.seek

        def __enter__(self) -> "Counted":
            return self

        def __exit__(self, *_: Any) -> None:
            self.file.close()

        def read(self, size: int) -> bytes:
            data: bytes = self.file.read(size)
            read.append(len(data))
            return data

    monkeypatch.setattr(streaming, "open_stored", lambda artifact: Counted(store.open_stored(artifact)))
    return read


def test_a_part_of_a_longer_file_is_not_given_out(site: Site) -> None:
    """A file that grew after it was proved: what was added belongs to no part."""
    file = keep(run_row(), "trials/1/kept/agent/log.txt", b"0123456789")
    assert ok(site.operator, "evidence_read", file=file.key, length=4)["untrusted_text"] == "0123"
    with Path(default_storage.path(file.stored)).open("ab") as stored:
        stored.write(b"more")
    assert code(site.operator, "evidence_read", file=file.key, offset=8) == "evidence.hash_differs"


def test_files_that_are_not_there_or_not_readable_say_so(site: Site) -> None:
    run = run_row()
    lost = keep(run, "lost.txt", b"0123456789")
    stored = lost.stored
    store.delete(lost)
    assert stored and code(site.operator, "evidence_read", file=lost.key) == "evidence.missing"
    refused = Artifact.objects.create(run=run, kind="other", path="big", state="too_large", source_size=9)
    assert code(site.operator, "evidence_read", file=refused.key) == "evidence.nothing_kept"


def test_a_storage_that_does_not_answer_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    file = keep(run_row(), "trials/1/kept/agent/log.txt", b"0123456789")
    monkeypatch.setattr(default_storage, "open", lambda *_: (_ for _ in ()).throw(ConnectionError("no route")))
    assert code(site.operator, "evidence_read", file=file.key) == "evidence.storage_fails"


def test_files_and_lines_come_in_pages(site: Site) -> None:
    run = run_row()
    keys = [keep(run, f"trials/1/kept/agent/{number}.txt", b"x").key for number in range(5)]
    found, cursor = [], 0
    while cursor is not None:
        page = ok(site.operator, "evidence_list", run=run.key, cursor=cursor, limit=2)
        found, cursor = found + [row["file"] for row in page["files"]], page["next_cursor"]
    assert found == keys
    append_log(run.key, [Line(source="harness", text=f"{number} " + "y" * 4000) for number in range(40)])
    numbers, cursor = [], 0
    while cursor < 40:
        page = ok(site.operator, "logs", run=run.key, cursor=cursor, limit=200)
        assert 0 < len(json.dumps(page["lines"])) < 80_000
        numbers, cursor = numbers + [line["seq"] for line in page["lines"]], page["next_cursor"]
    assert numbers == list(range(40))


# -- what never leaves ------------------------------------------------------------------------------------


def test_an_unexpected_failure_keeps_its_words(site: Site, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(acts, "find_run", fail)
    result = call(site.operator, "status", run="ab" * 16)
    assert result.is_error and result.structured_content["code"] == "mcp.failed"
    assert "hunter2" not in str(result) and "RuntimeError" not in str(result)
    assert "hunter2" in caplog.text


def test_a_database_that_is_away_is_a_code_and_may_come_back(
    site: Site, monkeypatch: pytest.MonkeyPatch, looked: list[str]
) -> None:
    with monkeypatch.context() as away:

        def fail(*_: Any) -> Any:
            raise OperationalError("server closed the connection; password=hunter2")

        away.setattr(acts, "find_run", fail)
        result = call(site.operator, "evidence_list", run="ab" * 16)
        assert result.structured_content["code"] == "database.unusable" and "hunter2" not in str(result)
    assert ok(site.operator, "evidence_list", run=run_row().key)["files"] == []
    assert looked == ["looked"] * 4  # before and after each call


def test_an_account_that_was_deleted_can_do_nothing(site: Site) -> None:
    gone = person("gone", "operator")
    pk = gone.pk
    gone.delete()
    assert call_tool(pk, "status", {}).structured_content["code"] == "mcp.user_gone"
