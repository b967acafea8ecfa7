"""What CI systems are told: JUnit and Markdown whose numbers add up, and in which nothing from elsewhere acts."""

import os
import re
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from runs.management.escaping import CUT, escape_for_report, escape_for_terminal
from runs.management.junit import junit_xml
from runs.management.reports import ReportNotWritten, check_reports, markdown_summary, write_reports
from runs.services.refusals import BadInput

HOSTILE = [
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "</testcase><testcase name='forged'/>",
    "]]> &amp; <!-- <![CDATA[",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "@everyone please look at #1 and GH-2 and octo/repo#3",
    "[click](javascript:alert(1)) ![x](http://192.0.2.1/x.png) <http://192.0.2.1> www.example.com",
    "a|b|c\n| forged | row |\n\n# heading",
    "` code `` span ``` ~~~ **bold** __bold__ *x* _y_ ~~z~~ $math$ :tada:",
    "\u202egnp.exe\u2066\u200f\u200b\ufeff\u061c\u2028\u2029\x85",
    "\x00\x01\x0b\x7f\ud800\ufffe\uffff\U000e0041",
    "\\x40 \\` \\| mailto:a@example.com",
    "\u3164\u115f   ",
    "",
    "x" * 5000,
]
BUCKETS: list[tuple[str | None, int | None, str | None]] = [
    ("passed", 1, None), ("failed", 0, None), ("error", None, "grading.reward_missing"),
    ("error", 1, "incomplete.agent_deadline"), ("cancelled", None, "cancelled.requested"), (None, None, None),
]  # fmt: skip
foreign = st.text(max_size=400) | st.sampled_from(HOSTILE)


def trial(
    bucket: str | None = "passed", reward: int | None = 1, code: str | None = None, task: str = "task"
) -> dict[str, Any]:
    kind = code.partition(".")[0] if code else None
    return {
        "ordinal": 1, "task": task, "bucket": bucket, "class": kind, "code": code, "reward": reward, "steps": 3,
        "started_at": "2026-01-02T03:04:05.000000Z", "ended_at": "2026-01-02T03:04:06.500000Z",
    }  # fmt: skip


def run_of(*trials: dict[str, Any], verdict: str | None = "passed", **changes: Any) -> dict[str, Any]:
    found = Counter(each["bucket"] for each in trials)
    counts = {"requested": len(trials), "evaluated": found["passed"] + found["failed"]}
    counts |= {name: found[name] for name in ("passed", "failed", "error", "cancelled")}
    document = {
        "run": "ab" * 16, "state": "finished", "verdict": verdict, "cleanup": "clean", "worker": "local",
        "spec_sha256": "cd" * 32, "cases": {"profile": 3, "chosen": 1}, "created_by": "olga",
        "profile": "environment-smoke", "failure": None,
        "started_at": "2026-01-02T03:04:05.000000Z", "counts": counts, "trials": list(trials),
        "endpoint": {"name": "scripted", "version": 1},
    }  # fmt: skip
    return {**document, **changes}


def summary(run: dict[str, Any]) -> str:
    return markdown_summary(run)


OF_ALL = ("tests", "failures", "errors")  # Jenkins' schema of JUnit reports lets the root say only these
OF_A_SUITE = (*OF_ALL, "skipped")


def numbers(element: ElementTree.Element) -> dict[str, int]:
    names = OF_ALL if element.tag == "testsuites" else OF_A_SUITE
    assert {"name"} < set(element.attrib) <= {"name", "timestamp", *names}
    return {name: int(element.get(name, "")) for name in names}


class TestJUnit:
    @pytest.mark.parametrize(
        ("bucket", "reward", "code", "outcome"),
        [
            ("passed", 1, None, []),
            ("failed", 0, None, ["failure"]),
            ("error", None, "grading.reward_missing", ["error"]),
            ("error", 1, "incomplete.agent_deadline", ["error"]),
            ("cancelled", None, "cancelled.requested", ["skipped"]),
            ("cancelled", 1, None, ["skipped"]),
            (None, None, None, ["error"]),
            (None, 1, None, ["error"]),
            ("passed", None, None, ["error"]),
            ("passed", 0, None, ["error"]),
            ("failed", 1, None, ["error"]),
        ],
    )
    def test_only_a_graded_reward_of_1_is_a_pass(
        self, bucket: str | None, reward: int | None, code: str | None, outcome: list[str]
    ) -> None:
        root = ElementTree.fromstring(junit_xml(run_of(trial(bucket, reward, code))))
        (case, *_) = root.findall("testsuite/testcase")
        assert [child.tag for child in case] == outcome

    @pytest.mark.parametrize(
        ("cases", "words"),
        [
            ({"profile": 3, "chosen": 1}, "1 of 3 cases of the profile"),
            ({"profile": 1, "chosen": 1}, "1 of 1 case of the profile"),
            (None, "an unknown part of the profile"),
        ],
    )
    def test_it_says_how_much_of_the_profile_was_run(self, cases: dict[str, int] | None, words: str) -> None:
        run = run_of(trial(), cases=cases)
        properties = ElementTree.fromstring(junit_xml(run)).findall(".//property[@name='scope']")
        assert [each.get("value") for each in properties] == [words] and words in summary(run)

    @given(st.lists(st.sampled_from(BUCKETS), max_size=6), st.sampled_from(["passed", "failed", "error", "cancelled"]))
    def test_its_numbers_are_those_of_the_count_strip(self, chosen: list[Any], verdict: str) -> None:
        run = run_of(*(trial(*one) for one in chosen), verdict=verdict)
        root = ElementTree.fromstring(junit_xml(run))
        first, *others = root.findall("testsuite")
        counts = run["counts"]
        assert numbers(first) == {
            "tests": counts["requested"],
            "failures": counts["failed"],
            "errors": counts["requested"] - counts["evaluated"] - counts["cancelled"],
            "skipped": counts["cancelled"],
        }
        for suite in (first, *others):
            found = Counter(case[0].tag if len(case) else "passed" for case in suite.findall("testcase"))
            told = numbers(suite)
            assert (found["failure"], found["error"], found["skipped"]) == (
                told["failures"], told["errors"], told["skipped"],
            )  # fmt: skip
            assert found.total() == told["tests"]
        assert numbers(root) == {
            name: sum(numbers(suite)[name] for suite in (first, *others)) for name in numbers(root)
        }

    @pytest.mark.parametrize(
        ("changes", "trials"),
        [
            ({"cleanup": "failed", "verdict": "error"}, [trial()]),
            ({"verdict": "error"}, [trial()]),
            ({"verdict": "incomplete"}, [trial()]),
            ({"verdict": "passed"}, [trial("failed", 0)]),
            ({"verdict": "error", "failure": {"stage": "gateway", "class": "routing", "code": "gateway.listen"}}, []),
        ],
    )
    def test_a_run_that_is_worse_than_its_trials_shows_it(self, changes: Any, trials: list[Any]) -> None:
        root = ElementTree.fromstring(junit_xml(run_of(*trials, **changes)))
        assert int(root.get("errors", "")) + int(root.get("failures", "")) >= 1

    def test_a_passed_run_has_no_further_case(self) -> None:
        root = ElementTree.fromstring(junit_xml(run_of(trial(), trial())))
        assert numbers(root) == {"tests": 2, "failures": 0, "errors": 0}

    def test_a_duration_is_that_of_the_trial_and_absent_when_it_was_not_recorded(self) -> None:
        run = run_of(trial(), {**trial(), "ended_at": None})
        cases = ElementTree.fromstring(junit_xml(run)).findall("testsuite/testcase")
        assert [case.get("time") for case in cases] == ["1.500", None]

    @pytest.mark.parametrize("text", HOSTILE)
    def test_hostile_text_changes_no_structure(self, text: str) -> None:
        self._same_structure(text)

    @given(foreign)
    def test_no_text_changes_the_structure(self, text: str) -> None:
        self._same_structure(text)

    def _same_structure(self, text: str) -> None:
        report = junit_xml(run_of(trial(task=text), trial("error", None, text or "x.y"), profile=text, created_by=text))
        plain = junit_xml(run_of(trial(), trial("error", None, "x.y")))
        assert [element.tag for element in ElementTree.fromstring(report).iter()] == [
            element.tag for element in ElementTree.fromstring(plain).iter()
        ]
        assert b"@" not in report and not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", report)


# What a renderer makes of a summary without any hostile text: its table, two headings of text, code spans.
MARKDOWN = MarkdownIt("commonmark", {"linkify": False}).enable("table")


def shape(text: str) -> list[str]:
    """Every token that a renderer sees, with the text of those that are not foreign."""
    tokens = [
        child for token in MARKDOWN.parse(text) for child in (token.children if token.type == "inline" else [token])
    ]
    return [token.type for token in tokens]


class TestMarkdown:
    def test_it_tells_counts_coverage_verdict_and_why(self) -> None:
        run = run_of(trial(), trial(), trial("error", None, "grading.reward_missing"), verdict="incomplete")
        text = summary(run)
        for line in (
            "## benchsite: incomplete",
            "1 of 3 cases of the profile  ",
            "3 requested = 2 graded (2 passed + 0 failed) + 1 error + 0 cancelled  ",
            "**Passed: 2 of 2 · Graded: 2 of 3**",
            "| 1 | `task` | error | `grading.reward_missing` No reward | not graded | 3 |",
            "A scripted smoke proves the adapter, never a model.",
        ):
            assert line in text.splitlines()

    def test_nothing_evaluated_is_no_rate(self) -> None:
        assert "**Passed: 0 of 0 · Graded: 0 of 1**" in summary(run_of(trial("cancelled", None)))

    def test_a_failed_cleanup_stands_out(self) -> None:
        assert "**Cleanup failed:**" in summary(run_of(trial(), cleanup="failed", verdict="error"))

    @pytest.mark.parametrize("text", HOSTILE)
    def test_hostile_text_changes_no_structure(self, text: str) -> None:
        self._same_structure(text)

    @given(foreign)
    def test_no_text_changes_the_structure(self, text: str) -> None:
        self._same_structure(text)

    def _same_structure(self, text: str) -> None:
        failure = {"stage": "trial", "class": "x", "code": text}
        changes: dict[str, Any] = {"failure": failure, "profile": text, "worker": text}
        written = summary(run_of(trial(task=text), trial("error", None, text or "x"), verdict="error", **changes))
        plain = {"failure": {**failure, "code": "x"}, "profile": "x", "worker": "x"}
        expected = summary(run_of(trial(), trial("error", None, "x"), verdict="error", **plain))
        assert shape(written) == shape(expected)
        foreign_part = "".join(re.findall(r"`[^`]*`", written))
        assert not set("@<>[]!#*|~$\n") & set(foreign_part)
        assert "//" not in written and "www." not in written.lower()


class TestInert:
    @given(foreign)
    def test_a_terminal_gets_printable_characters_only(self, text: str) -> None:
        assert escape_for_terminal(text).isprintable()

    def test_words_cannot_hide_in_selectors_and_an_emoji_stays_one(self) -> None:
        hidden = "a" + "".join(chr(0xE0100 + byte) for byte in b"call start")
        assert escape_for_terminal(hidden).startswith("a\\U000e0163") and escape_for_terminal(hidden).isascii()
        assert escape_for_terminal("\u2714\ufe0f x\ufe0f\u3164") == "\u2714\ufe0f x\\ufe0f\\u3164"

    @given(foreign)
    def test_a_report_gets_text_that_can_be_written_and_is_never_empty(self, text: str) -> None:
        shown = escape_for_report(text)
        assert shown.strip() and shown.isprintable() and shown.encode("utf-8")
        assert not set("@<>&\"'`|[]{}#*!~$^?") & set(shown)

    def test_ordinary_words_stay_as_they_are(self) -> None:
        text = "ledger-totals: 2 of 3 (passed), 50% at 12:30; größer, 东京"
        assert escape_for_report(text) == text

    def test_what_is_escaped_can_still_be_read(self) -> None:
        assert escape_for_report("a@b") == "a\\x40b"
        assert escape_for_report("http://x www.y GH-1") == "http:/\\x2fx www\\x2ey GH\\x2d1"

    def test_long_text_is_cut_and_says_so(self) -> None:
        assert escape_for_report("x" * 301) == "x" * 300 + CUT


class TestFiles:
    def test_both_reports_are_written_and_replace_older_ones(self, tmp_path: Path) -> None:
        options = {"junit": tmp_path / "j.xml", "summary": tmp_path / "s.md"}
        options["junit"].write_text("older")
        write_reports(options, run_of(trial()))
        assert ElementTree.parse(options["junit"]).getroot().tag == "testsuites"
        assert options["summary"].read_text().startswith("## benchsite: passed")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["j.xml", "s.md"]
        assert options["junit"].stat().st_mode & 0o777 == 0o644

    @pytest.mark.parametrize("place", ["absent/report.xml", "."])
    def test_an_impossible_place_is_refused_before_anything_starts(self, tmp_path: Path, place: str) -> None:
        with pytest.raises(BadInput) as refused:
            check_reports({"junit": tmp_path / place, "summary": None})
        assert refused.value.code == "input.no_target"

    @pytest.mark.parametrize("kind", ["link", "pipe"])
    def test_nothing_but_a_plain_file_is_ever_replaced(self, tmp_path: Path, kind: str) -> None:
        """A report that was written to /dev/null would put a file in its place."""
        place, other = tmp_path / "report.xml", tmp_path / "other"
        other.write_text("somebody's")
        place.symlink_to(other) if kind == "link" else os.mkfifo(place)
        with pytest.raises(BadInput) as refused:
            check_reports({"junit": place, "summary": None})
        assert refused.value.code == "input.no_target" and "plain file" in refused.value.sentence
        for device in (Path("/dev/null"), Path("/dev/stdout")):
            with pytest.raises(BadInput):
                check_reports({"junit": None, "summary": device})

    def test_a_report_that_cannot_be_written_leaves_the_old_one_and_nothing_else(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        target = tmp_path / "j.xml"
        target.write_text("older")

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(ReportNotWritten):
            write_reports({"junit": target, "summary": None}, run_of(trial()))
        assert [path.read_text() for path in tmp_path.iterdir()] == ["older"]
