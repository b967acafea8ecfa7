"""Trajectories are shown leniently, in windows, with the trouble of each step named."""

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.trajectory.index import DIFFERS, FAILED, USUAL_ENTRY_BYTES, build_index
from evidence.trajectory.steps import LedgerMatch, Link, Step, pair
from evidence.trajectory.text import MAX_SHOWN, safe, shown
from evidence.trajectory.windows import WINDOW, IndexUnreadable, Trajectory, missing_reason
from runs.documents.ledger import message_digest


def opened(data: bytes | dict[str, Any] | list[Any], digests: tuple[str, ...] = ()) -> Trajectory:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    index = io.BytesIO()
    build_index(io.BytesIO(raw), index, digests)
    return Trajectory(io.BytesIO(raw), index)


def call(identity: str | None, command: str = "ls") -> dict[str, Any]:
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    return {"id": identity, "type": "function", "function": function}


def answer(content: str | None, *calls: dict[str, Any], **extra: Any) -> dict[str, Any]:
    """An assistant's message as mini-swe-agent stores it."""
    said = {"role": "assistant", "content": content, "tool_calls": list(calls) or None, **extra}
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    response = {"model": "scripted", "choices": [{"message": said}], "usage": usage}
    return {**said, "extra": {"response": response, "timestamp": 1_780_000_000.5, "cost": 0.0}}


def result(identity: str | None, output: str = "ok", code: int = 0) -> dict[str, Any]:
    return {
        "role": "tool",
        "tool_call_id": identity,
        "content": f'{{"returncode": {code}}}',
        "extra": {"raw_output": output, "returncode": code, "exception_info": ""},
    }


def native(*messages: Any, **info: Any) -> dict[str, Any]:
    return {
        "info": {"exit_status": "Submitted", "mini_version": "2.4.6", **info},
        "messages": list(messages),
        "trajectory_format": "mini-swe-agent-1.1",
    }


def atif(*steps: Any, version: str = "ATIF-v1.7") -> dict[str, Any]:
    return {
        "schema_version": version,
        "agent": {"name": "mini-swe-agent", "version": "2.4.6"},
        "steps": list(steps),
    }


def digest(message: dict[str, Any]) -> str:
    calls = message.get("tool_calls") or []
    return message_digest(
        message["content"], [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in calls]
    )


SYSTEM = {"role": "system", "content": "You are helpful."}
TASK = {"role": "user", "content": "Do it."}


def test_a_native_trajectory_pairs_calls_and_results_by_id() -> None:
    trajectory = opened(
        native(SYSTEM, TASK, answer("hm", call("a"), call("b", "pwd")), result("b", "B"), result("a", "A"))
    )
    window = trajectory.window()
    assert [step.source for step in window.steps] == ["system", "user", "agent"]
    first, second = window.steps[2].calls
    assert (first.arguments.text, first.results[0].text.text, first.results[0].link) == ("ls", "A", Link.ID)
    assert (second.arguments.text, second.results[0].text.text) == ("pwd", "B")
    assert trajectory.summary.exit_status == "Submitted" and trajectory.summary.agent_version == "2.4.6"


def test_results_without_ids_are_paired_by_order_and_marked() -> None:
    trajectory = opened(
        native(SYSTEM, TASK, answer("", call(None), call(None, "pwd")), result(None, "A"), result(None, "B"))
    )
    calls = trajectory.window().steps[2].calls
    assert [(c.results[0].text.text, c.results[0].link) for c in calls] == [
        ("A", Link.ORDER),
        ("B", Link.ORDER),
    ]


def test_an_id_that_names_two_calls_is_ambiguous() -> None:
    step = (
        opened(native(SYSTEM, TASK, answer("", call("c1"), call("c1", "pwd")), result("c1", "A"), result("c1", "B")))
        .window()
        .steps[2]
    )
    assert [(c.results[0].text.text, c.results[0].link) for c in step.calls] == [
        ("A", Link.AMBIGUOUS),
        ("B", Link.AMBIGUOUS),
    ]
    assert "ambiguous_link" in step.problems


def test_a_result_for_no_call_is_kept_and_named() -> None:
    step = opened(native(SYSTEM, TASK, answer("", call("a")), result("z", "lost"))).window().steps[2]
    assert step.results[0].text.text == "lost" and "result_without_call" in step.problems


def test_an_answer_that_the_agent_could_not_use_is_a_step_of_its_own() -> None:
    refused = {
        "role": "user",
        "content": "No tool calls found.",
        "extra": {"response": answer("no call")["extra"]["response"]},
    }
    trajectory = opened(native(SYSTEM, TASK, refused), (digest({"content": "no call"}),))
    step = trajectory.window().steps[2]
    assert step.source == "agent" and step.message.text == "no call"
    assert step.problems == ("format_error",) and step.failed and step.ledger is LedgerMatch.MATCHES


def test_a_failed_command_is_found() -> None:
    trajectory = opened(
        native(SYSTEM, TASK, answer("", call("a")), result("a"), answer("", call("b")), result("b", "x", 2))
    )
    assert trajectory.flagged(FAILED) == 4 == trajectory.summary.first_failed
    assert trajectory.flagged(FAILED, after=4) is None


def test_the_submission_that_was_not_executed_is_no_failure() -> None:
    submitted = result("a", "", -1)
    submitted["extra"]["exception_info"] = "action was not executed"
    trajectory = opened(native(SYSTEM, TASK, answer("", call("a")), submitted))
    assert trajectory.flagged(FAILED) is None


def test_every_answer_matches_the_ledger() -> None:
    answers = [answer("one", call("a")), answer(None, call("b", "é\n")), answer("three")]
    digests = tuple(digest(message) for message in answers)
    trajectory = opened(native(SYSTEM, TASK, *answers), digests)
    assert trajectory.ledger.sentence == "3 of 3 steps match the ledger."
    assert trajectory.flagged(DIFFERS) is None


def test_a_call_that_the_endpoint_gave_no_id_matches_with_the_one_that_the_client_made_up() -> None:
    message = answer("text", call("made-up"))
    assert opened(native(SYSTEM, message), (digest(answer("text", call(None))),)).ledger.matched == 1
    assert opened(native(SYSTEM, message), (digest(answer("text", call("other"))),)).ledger.matched == 0


@pytest.mark.parametrize("tag", ["think", "thinking"])
def test_reasoning_that_litellm_took_out_of_the_text_still_matches(tag: str) -> None:
    heard = digest({"content": f"<{tag}>why</{tag}>text"})
    trajectory = opened(native(answer("text", reasoning_content="why")), (heard,))
    assert trajectory.ledger.matched == 1


def forged(field: str) -> list[dict[str, Any]]:
    answers = [answer("one", call("a")), answer("two", call("b")), answer("three", call("c"))]
    if field == "text":
        answers[1]["content"] = answers[1]["extra"]["response"]["choices"][0]["message"]["content"] = "forged"
    if field == "shown text":
        answers[1]["content"] = "forged"
    if field == "command":
        answers[1]["tool_calls"][0]["function"]["arguments"] = '{"command":"rm"}'
    if field == "id":
        answers[1]["tool_calls"][0]["id"] = "z"
    return answers


@pytest.mark.parametrize("field", ["text", "shown text", "command", "id"])
def test_a_forged_answer_is_named_and_the_others_still_match(field: str) -> None:
    digests = tuple(digest(message) for message in forged("nothing"))
    trajectory = opened(native(*forged(field)), digests)
    assert [step.ledger for step in trajectory.window().steps] == [
        LedgerMatch.MATCHES,
        LedgerMatch.DIFFERS,
        LedgerMatch.MATCHES,
    ]
    assert trajectory.flagged(DIFFERS) == 2
    assert trajectory.ledger.sentence == "2 of 3 steps match the ledger; 1 answers of the endpoint have no step."


def test_an_invented_answer_and_a_left_out_answer_are_seen() -> None:
    real = [answer("one"), answer("two"), answer("three")]
    digests = tuple(digest(message) for message in real)
    trajectory = opened(native(real[0], answer("invented"), real[2]), digests)
    assert (trajectory.ledger.compared, trajectory.ledger.matched, trajectory.ledger.unmatched_answers) == (
        3,
        2,
        1,
    )


def test_answers_in_another_order_do_not_all_match() -> None:
    real = [answer("one"), answer("two")]
    trajectory = opened(native(*reversed(real)), tuple(digest(message) for message in real))
    assert trajectory.ledger.matched == 1


def test_without_answers_in_the_ledger_nothing_is_claimed() -> None:
    trajectory = opened(native(answer("one")))
    assert trajectory.ledger.sentence == "The ledger has no answers to compare with."


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"messages": []}', b'{"steps": [], "schema_version": "ATIF-v1.7"}', b"nonsense"]
)
def test_a_trajectory_without_steps_says_so(data: bytes) -> None:
    trajectory = opened(data)
    window = trajectory.window()
    assert window.steps == () and window.reason in ("No steps recorded.", "The trajectory file is empty.")


def test_a_missing_or_empty_trajectory_has_its_reason() -> None:
    """Whatever the metadata claims."""
    assert "killed at its time limit" in missing_reason(agent_timed_out=True, size=None)
    assert "empty" in missing_reason(agent_timed_out=False, size=0)
    assert "logs are offered" in missing_reason(agent_timed_out=False, size=None)


@pytest.mark.parametrize("minor", range(9))
def test_atif_1_0_to_1_8_are_read(minor: int) -> None:
    trajectory = opened(atif({"step_id": 1, "source": "user", "message": "hi"}, version=f"ATIF-v1.{minor}"))
    assert trajectory.window().steps[0].message.text == "hi"


@pytest.mark.parametrize("version", ["ATIF-v1.9", "ATIF-v2.0", "atif-v1.7", ""])
def test_another_version_is_refused_by_name(version: str) -> None:
    trajectory = opened(atif({"step_id": 1, "source": "user", "message": "hi"}, version=version))
    assert not trajectory.summary.supported and "cannot be shown" in (trajectory.window().reason or "")


def test_broken_metrics_are_a_warning_of_their_step() -> None:
    trajectory = opened(
        atif(
            {"step_id": 1, "source": "agent", "message": "a", "metrics": "oops"},
            {
                "step_id": 2,
                "source": "agent",
                "message": "b",
                "metrics": {"prompt_tokens": "abc", "completion_tokens": 3},
            },
            {"step_id": 3, "source": "agent", "message": "c", "metrics": {"prompt_tokens": 5}},
        )
    )
    first, second, third = trajectory.window().steps
    assert first.problems == ("metrics_not_an_object",)
    assert second.problems == ("metrics.prompt_tokens",)
    assert second.metrics is not None and second.metrics.completion_tokens == 3
    assert third.problems == ()
    assert trajectory.summary.totals.prompt_tokens == 5


def test_arguments_that_are_no_object_are_shown_as_they_are() -> None:
    odd = {"id": "a", "type": "function", "function": {"name": "bash", "arguments": "[1]"}}
    step = opened(native(answer("", odd))).window().steps[0]
    assert step.calls[0].arguments.text == "[1]" and "tool_call.arguments" in step.problems


def test_a_cost_of_zero_is_not_reported() -> None:
    step = {"step_id": 1, "source": "agent", "message": "a", "metrics": {"prompt_tokens": 5, "cost_usd": 0}}
    trajectory = opened(atif(step))
    assert trajectory.summary.totals.cost_usd is None
    metrics = trajectory.window().steps[0].metrics
    assert metrics is not None and metrics.cost_usd is None
    assert (
        opened(native(answer("a"), model_stats={"instance_cost": 0.0, "api_calls": 1})).summary.totals.cost_usd is None
    )
    assert opened(native(answer("a"), model_stats={"instance_cost": 0.5})).summary.totals.cost_usd == 0.5


def test_copied_context_is_left_out_of_the_totals() -> None:
    metrics = {"prompt_tokens": 5, "cost_usd": 1.0}
    trajectory = opened(
        atif(
            {
                "step_id": 1,
                "source": "agent",
                "message": "old",
                "metrics": metrics,
                "is_copied_context": True,
            },
            {"step_id": 2, "source": "agent", "message": "new", "metrics": metrics},
        )
    )
    assert trajectory.summary.totals.prompt_tokens == 5 and trajectory.summary.totals.cost_usd == 1.0
    assert [step.copied for step in trajectory.window().steps] == [True, False]


def test_windows_hold_at_most_50_steps_and_stay_inside() -> None:
    trajectory = opened(native(*[{"role": "system", "content": str(n)} for n in range(1, 6701)]))
    assert [
        (w.first, w.last, len(w.steps)) for w in (trajectory.window(), trajectory.window(6690), trajectory.window(9999))
    ] == [
        (1, 50, 50),
        (6690, 6700, 11),
        (6700, 6700, 1),
    ]
    assert len(trajectory.window(1, 1000).steps) == 50
    assert trajectory.window(-5).first == 1
    assert (trajectory.around(17).first, trajectory.around(51).first, trajectory.around(50).first) == (
        1,
        51,
        1,
    )
    assert trajectory.window(3000).steps[0].message.text == "3000"


def test_search_finds_steps_whatever_the_case_and_the_escapes() -> None:
    trajectory = opened(
        native(SYSTEM, {"role": "user", "content": 'Say "Grüße"\nnow'}, answer("x", call("a", "echo HELLO")))
    )
    assert trajectory.find('say "grüße"\nnow') == (2,)
    assert trajectory.find("Hello") == (3,)
    assert trajectory.find("hello", after=3) == trajectory.find("  ") == trajectory.find("absent") == ()


def test_control_characters_ansi_and_lone_surrogates_are_safe() -> None:
    content = b"a\\u0000b\\u001b[31mred\\u001b[0m \\ud800 \\u202eevil \xff"
    raw = b'{"messages": [{"role": "system", "content": "' + content + b'"}]}'
    text = opened(raw).window().steps[0].message.text
    assert text.startswith("a␀bred \ufffd ⟨U+202E⟩evil")
    text.encode()


def test_long_text_is_folded_with_its_size() -> None:
    text = shown("x" * 100_000)
    assert text.cut and text.size == 100_000 and len(text.text) < MAX_SHOWN + 10


@given(st.text())
def test_safe_text_can_always_be_stored(text: str) -> None:
    safe(text).encode()
    assert "\0" not in safe(text) and "\x1b" not in safe(text)


def test_a_step_that_is_too_large_is_named_and_the_others_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evidence.trajectory.index.MAX_STEP_BYTES", 2000)
    monkeypatch.setattr("evidence.trajectory.windows.MAX_STEP_BYTES", 2000)
    big = {"role": "system", "content": "x" * 3000}
    trajectory = opened(native(SYSTEM, big, TASK, answer("a", call("b")), result("b", "y" * 3000), SYSTEM))
    steps = trajectory.window().steps
    assert [step.problems for step in steps] == [(), ("step_too_large",), (), (), ("step_too_large",), ()]
    assert trajectory.summary.problems["step_too_large"] == 2


def test_an_entry_that_cannot_be_parsed_is_named() -> None:
    trajectory = opened(
        b'{"messages": [{"role": "system", "content": "a"}, {"role" "user"}, ["x"], {"role": "user", "content": "b"}]}'
    )
    assert [step.problems for step in trajectory.window().steps] == [
        (),
        ("step_unreadable",),
        ("message_not_an_object", "unknown_role"),
        (),
    ]


@pytest.mark.parametrize("depth", [600, 900, 5_000, 100_000])
def test_deep_nesting_is_a_problem_of_its_step(depth: int) -> None:
    """Also where a parser still follows and a reader's recursion no longer does."""
    deep = (
        b'{"messages": [{"role": "system", "content": '
        + b"[" * depth
        + b"]" * depth
        + b'}, {"role": "user", "content": "b"}]}'
    )
    steps = opened(deep).window().steps
    assert steps[0].problems == ("step_unreadable",) and steps[1].message.text == "b"


def test_a_foreign_or_cut_index_is_refused() -> None:
    index = io.BytesIO()
    build_index(io.BytesIO(b'{"messages": [{}]}'), index)
    for data in (b"", b"x" * 100, index.getvalue()[:-3], index.getvalue()[5:]):
        with pytest.raises(IndexUnreadable):
            Trajectory(io.BytesIO(b""), io.BytesIO(data))


HUGE = b"1" + b"0" * 400


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"messages": [], "info": {"model_stats": {"instance_cost": %s}}}' % HUGE, id="cost"),
        pytest.param(b'{"messages": [], "info": {"model_stats": {"api_calls": %s}}}' % HUGE, id="calls"),
        pytest.param(b'{"messages": [{"role": "assistant", "tool_calls": 5}]}', id="tool calls"),
        pytest.param(
            b'{"messages": [{"role": "user", "extra": {"response": {"choices": [{"message": {"tool_calls": 1}}]}}}]}',
            id="unusable tool calls",
        ),
        pytest.param(
            b'{"messages": [{"role": "assistant", "extra": {"response": {"usage": {"prompt_tokens": %s}}}}]}' % HUGE,
            id="usage",
        ),
    ],
)
def test_no_value_that_an_agent_writes_keeps_its_run_from_ending(data: bytes) -> None:
    trajectory = opened(data)
    assert trajectory.summary.totals.cost_usd is None
    assert len(trajectory.window().steps) == trajectory.summary.steps


def test_entries_beyond_the_bound_are_named_and_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evidence.trajectory.index.MAX_ENTRIES", 10)
    trajectory = opened(native(*[SYSTEM] * 30))
    assert (trajectory.summary.steps, dict(trajectory.summary.problems)) == (10, {"too_many_entries": 1})


def test_more_entries_are_read_only_of_a_file_whose_entries_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evidence.trajectory.index.MAX_ENTRIES", 10)
    long = {**SYSTEM, "content": "x" * USUAL_ENTRY_BYTES}
    assert opened(native(*[long] * 30)).summary.steps == 30


class Counting:
    """A call or result whose id counts how often it is looked at."""

    looks = 0

    def __init__(self, call_id: str) -> None:
        self._id, self.name, self.arguments, self.text = call_id, "", shown(""), shown("")
        self.returncode = self.exception = None

    @property
    def call_id(self) -> str:
        Counting.looks += 1
        return self._id


@pytest.mark.parametrize("same", [False, True])
def test_pairing_takes_a_few_looks_for_each_call_and_no_more(same: bool) -> None:
    """Tens of thousands fit into one step, so a look at all calls for every result would take hours."""
    Counting.looks = 0
    ids = ["a" if same else f"{number}" for number in range(500)]
    paired, left, _ = pair([Counting(name) for name in ids], [Counting(name) for name in ids])  # type: ignore[misc]
    assert not left and all(len(call.results) == 1 for call in paired)
    assert Counting.looks <= 20 * len(ids)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "tool_calls",
                    "function",
                    "arguments",
                    "id",
                    "extra",
                    "response",
                    "choices",
                    "message",
                    "usage",
                    "observation",
                    "results",
                    "metrics",
                    "source",
                    "tool_call_id",
                    "returncode",
                    "timestamp",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=300)
@given(st.sampled_from(["messages", "steps"]), st.lists(junk, max_size=4), junk)
def test_any_json_is_shown_without_a_crash(key: str, entries: list[Any], info: Any) -> None:
    entries = [{"role": "assistant"} | entry if isinstance(entry, dict) else entry for entry in entries]
    trajectory = opened({"schema_version": "ATIF-v1.7", key: entries, "info": info}, ("0" * 64,))
    for step in trajectory.window().steps:
        assert isinstance(step, Step)
        step.message.text.encode()


class Measured(io.BytesIO):
    """A file that counts the bytes read from it."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.taken += len(data)
        return data


def test_a_window_of_a_long_trajectory_reads_its_own_bytes_only() -> None:
    """4,000 steps stand for 100,000; the benchmark trajectory-first-window has those."""
    steps = [message for n in range(4000) for message in (answer("", call(f"c{n}")), result(f"c{n}", "x" * 500))]
    data = json.dumps(native(*steps)).encode()
    index = io.BytesIO()
    build_index(io.BytesIO(data), index, ())
    source, window_index = Measured(data), Measured(index.getvalue())
    trajectory = Trajectory(source, window_index)
    for number in (1, 2000, 4000):
        source.taken = window_index.taken = 0
        assert len(trajectory.around(number).steps) == WINDOW
        assert source.taken + window_index.taken < len(data) // 20
