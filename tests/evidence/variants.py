"""Named ways in which one trial can go wrong, each with the code that it must get.

A variant changes the documents of a run before they are written. Its trial is the first one.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.evidence.folders import (
    AGENT_VERSION,
    RunCase,
    at,
    counters,
    exception,
    failed_request,
    list_files,
    transfer,
)

type Change = Callable[[RunCase], None]


@dataclass(frozen=True)
class Variant:
    """One way in which a trial can go: what is changed in a passing one, and the code that it must get."""

    name: str
    code: str
    change: Change


def reward(json: bytes | None = None, txt: bytes | None = None) -> Change:
    return lambda run: run.trial.reward(json=json, txt=txt)


REWARDS = [
    Variant("both files, different", "integrity.reward_both_files", reward(b'{"reward":1}', b"0")),
    Variant("both files, json 0", "integrity.reward_both_files", reward(b'{"reward":0}', b"1")),
    Variant("both files, equal", "integrity.reward_both_files", reward(b'{"reward":1}', b"1")),
    Variant("both files, one broken", "integrity.reward_both_files", reward(b"{", b"1")),
    Variant("both files, one empty", "integrity.reward_both_files", reward(b"", b"1")),
    Variant("no file", "grading.reward_missing", reward()),
    Variant("truncated", "grading.reward_malformed", reward(b'{"reward":1')),
    Variant("other keys", "grading.reward_key_missing", reward(b'{"accuracy":0.9,"format":1.0}')),
    Variant("duplicate key 0 1", "integrity.reward_duplicate_key", reward(b'{"reward":0,"reward":1}')),
    Variant("duplicate key 1 1", "integrity.reward_duplicate_key", reward(b'{"reward":1,"reward":1}')),
    Variant("duplicate below", "integrity.reward_duplicate_key", reward(b'{"reward":{"a":1,"a":1}}')),
    Variant("null", "grading.reward_null", reward(b'{"reward":null}')),
    Variant("true", "grading.reward_boolean", reward(b'{"reward":true}')),
    Variant("false", "grading.reward_boolean", reward(b'{"reward":false}')),
    Variant("empty object", "grading.reward_key_missing", reward(b"{}")),
    Variant("bare number", "grading.reward_malformed", reward(b"1")),
    Variant("list of objects", "grading.reward_malformed", reward(b'[{"reward":1},{"score":0}]')),
    Variant("capital key", "grading.reward_key_missing", reward(b'{"Reward":1}')),
    Variant("0.8", "grading.reward_domain", reward(b'{"reward":0.8}')),
    Variant("2", "grading.reward_domain", reward(b'{"reward":2}')),
    Variant("-1", "grading.reward_domain", reward(b'{"reward":-1}')),
    Variant("huge integer", "grading.reward_domain", reward(b'{"reward":' + b"9" * 400 + b"}")),
    Variant("1.0", "grading.reward_type", reward(b'{"reward":1.0}')),
    Variant("-0.0", "grading.reward_type", reward(b'{"reward":-0.0}')),
    Variant("1e0", "grading.reward_type", reward(b'{"reward":1e0}')),
    Variant("string", "grading.reward_type", reward(b'{"reward":"1"}')),
    Variant("list", "grading.reward_type", reward(b'{"reward":[1]}')),
    Variant("object", "grading.reward_type", reward(b'{"reward":{"reward":1}}')),
    Variant("NaN", "grading.reward_nonfinite", reward(b'{"reward":NaN}')),
    Variant("Infinity", "grading.reward_nonfinite", reward(b'{"reward":-Infinity}')),
    Variant("1e999", "grading.reward_nonfinite", reward(b'{"reward":1e999}')),
    Variant("extra key", "grading.reward_extra_key", reward(b'{"reward":1,"note":0}')),
    Variant("BOM", "grading.reward_malformed", reward(b'\xef\xbb\xbf{"reward":1}')),
    Variant("UTF-16", "grading.reward_malformed", reward('{"reward":1}'.encode("utf-16"))),
    Variant("invalid UTF-8", "grading.reward_malformed", reward(b'{"reward":1,"\xff":1}')),
    Variant("lone surrogate", "grading.reward_malformed", reward(b'{"reward":1,"\\ud800":1}')),
    Variant("two values", "grading.reward_malformed", reward(b'{"reward":1}{"reward":1}')),
    Variant("comment", "grading.reward_malformed", reward(b'{"reward":1} // ok')),
    Variant("deep", "grading.reward_malformed", reward(b'{"reward":' + b"[" * 900 + b"]" * 900 + b"}")),
    Variant("NUL behind", "grading.reward_malformed", reward(b'{"reward":1}\0')),
    Variant("empty json", "grading.reward_malformed", reward(b"")),
    Variant("too large", "grading.reward_unreadable", reward(b'{"reward":1}'.ljust(4097))),
    *(
        Variant(f"text {text!r}", "grading.reward_malformed", reward(None, text))
        for text in (
            b"",
            b"\n",
            b" 1",
            b"1 ",
            b"1\n\n",
            b"1\r\n",
            b"01",
            b"+1",
            b"-0",
            b"1.0",
            b"1_0",
            "１".encode(),
            b"1e0",
            b"true",
            b"0x1",
            b"2",
            b"\xef\xbb\xbf1",
            b"1\0",
            b"\xff",
            b"NaN",
            b"[REDACTED]",
            b"1,0",
        )
    ),
]


def old_reward(run: RunCase) -> None:
    """Baked into the verifier's image, with the time that it has there."""
    for entry in run.trial.event("transfer", purpose="verifier_logs")["entries"]:
        entry["modified"] = int(datetime.fromisoformat(run.run["started_at"]).timestamp()) - 3600


def result(**changes: Any) -> Change:
    def change(run: RunCase) -> None:
        run.trial.result.update(changes)

    return change


def without(key: str) -> Change:
    def change(run: RunCase) -> None:
        del run.trial.result[key]

    return change


def inverted(key: str) -> Change:
    def change(run: RunCase) -> None:
        span = run.trial.result if key == "trial" else run.trial.result[key]
        span["started_at"], span["finished_at"] = at(50), at(49)

    return change


def event(name: str, match: dict[str, Any], **changes: Any) -> Change:
    def change(run: RunCase) -> None:
        run.trial.event(name, **match).update(changes)

    return change


def drop(name: str, **match: Any) -> Change:
    return lambda run: run.trial.drop(name, **match)


def twice(name: str, **match: Any) -> Change:
    def change(run: RunCase) -> None:
        run.trial.events.append(dict(run.trial.event(name, **match)))

    return change


def ledger(position: int, **changes: Any) -> Change:
    def change(run: RunCase) -> None:
        run.ledger[position].update(changes)

    return change


def cut_ledger(run: RunCase) -> None:
    run.ledger.pop()


def after_closed(run: RunCase) -> None:
    run.ledger.append(dict(run.ledger[0]))


def spec_of(**changes: Any) -> Change:
    """The spec itself is another one than the recorded hash says."""

    def change(run: RunCase) -> None:
        from tests.evidence.folders import canonical, sha256

        run.run["spec_sha256"] = sha256(canonical(run.spec))
        run.rehash = False
        run.spec.update(changes)

    return change


def tampered(path: str, data: bytes) -> Change:
    """A kept file that differs from what the attendant recorded."""

    def change(run: RunCase) -> None:
        run.trial.kept[kept(run, path)] = data

    return change


def kept(run: RunCase, beginning: str) -> str:
    """The first kept file whose path begins like this."""
    return next(path for path in sorted(run.trial.kept) if path.startswith(beginning))


def lost(path: str) -> Change:
    def change(run: RunCase) -> None:
        del run.trial.kept[kept(run, path)]

    return change


def second_result(run: RunCase) -> None:
    import json

    run.trial.extra["job/task__ZzZzZzZ/result.json"] = json.dumps(run.trial.result).encode()


def verifier_input(run: RunCase) -> None:
    given = run.trial.event("transfer", purpose="artifacts_in", path="/app/output")
    list_files(given, [{**given["entries"][0], "sha256": "0" * 64}, *given["entries"][1:]])


def journal(role: str, **changes: Any) -> Change:
    def change(run: RunCase) -> None:
        own = [row for row in run.journal["resources"] if (row["role"], row["trial"]) == (role, 1)]
        own[0].update(changes)

    return change


def run_record(**changes: Any) -> Change:
    return lambda run: run.run.update(changes)


def supervision(**changes: Any) -> Change:
    def change(run: RunCase) -> None:
        assert run.trial.supervision is not None
        run.trial.supervision.update(changes)

    return change


def no_supervision(run: RunCase) -> None:
    run.trial.supervision = None


def extra_trial(run: RunCase) -> None:
    run.spec["tasks"].pop()


def foreign_task(run: RunCase) -> None:
    run.trial.result.update({"task_name": "task-2", "task_id": {"path": "/data/tasks/task-2"}})


def bad_times(run: RunCase) -> None:
    run.run["ended_at"] = at(-1)


INTEGRITY = [
    Variant("reward older than verifier", "integrity.reward_before_verifier", old_reward),
    Variant("foreign task", "integrity.foreign_trial", foreign_task),
    Variant("foreign task path", "integrity.foreign_trial", result(task_id={"path": "/x/task-2"})),
    Variant("task id of a package", "integrity.foreign_trial", result(task_id={"org": "a", "name": "task-1"})),
    Variant("two results", "integrity.duplicate_trial", second_result),
    Variant("checksum differs", "integrity.task_checksum", result(task_checksum="0" * 64)),
    Variant("checksum missing", "integrity.task_checksum", without("task_checksum")),
    Variant("no id", "integrity.trial_identity", without("id")),
    Variant("id is a number", "integrity.trial_identity", result(id=1)),
    Variant("id is no uuid", "integrity.trial_identity", result(id="task__ZMZiXjZ")),
    Variant("another id", "integrity.trial_identity", result(id="00000000-0000-0000-0000-00000000ffff")),
    *(
        Variant(f"{key} inverted", "integrity.times_inverted", inverted(key))
        for key in ("trial", "environment_setup", "agent_setup", "agent_execution", "verifier")
    ),
    Variant("run inverted", "integrity.times_inverted", bad_times),
    Variant("monotonic inverted", "integrity.times_inverted", supervision(mono_ended=1.0)),
    Variant("supervision inverted", "integrity.times_inverted", supervision(ended_at=at(-5))),
    Variant("spec changed", "integrity.spec_mismatch", spec_of(suite="swe")),
    Variant("spec of another schema", "integrity.spec_unreadable", spec_of(schema="benchsite.run-spec/v2")),
    Variant("run of another schema", "integrity.run_unreadable", run_record(schema="x")),
    *(
        Variant(f"run's {name} {value!r}", "integrity.run_unreadable", run_record(**{name: value}))
        for name, values in {
            "cancel_requested_at": ["soon", "", False, [], "2026-06-17T09:00:00", "0001-01-01T00:00:00.000000Z"],
            "interrupted": ["yes", 1, None],
            "failure": ["worker_runtime", [1], {}, {"class": [1]}],
            "deadline": ["trial", True, ""],
            "probe": [[], True, {}],
            "preflight": [{}, "passed"],
            "readiness": [[], True],
            "gateway": ["x", [], {}, {"container_id": [], "closed": True}, {"container_id": "1" * 64, "closed": 1}],
            "started_at": [None, "", "9999-01-01T00:00:00.000000Z", "1999-01-01T00:00:00.000000Z", 10**400],
            "ended_at": ["", 5, "2026-02-30T00:00:00.000000Z"],
            "worker": [[], "0.1.0"],
            "note": [1],
        }.items()
        for value in values
    ),
    Variant("run id differs", "integrity.run_identity", run_record(run_id="0" * 32)),
    Variant("unrequested trial", "integrity.foreign_trial", extra_trial),
    Variant(
        "agent image",
        "integrity.image_mismatch",
        event("opened", {"role": "agent"}, image_id="sha256:" + "0" * 64),
    ),
    Variant(
        "verifier image",
        "integrity.image_mismatch",
        event("opened", {"role": "verifier"}, image_id="sha256:1"),
    ),
    Variant(
        "image as tag",
        "integrity.image_mismatch",
        event("opened", {"role": "agent"}, image_id="agent:latest"),
    ),
    Variant("journaled image", "integrity.image_mismatch", journal("agent", image_id="sha256:" + "0" * 64)),
    Variant("journaled verifier image", "integrity.image_mismatch", journal("verifier", image_id="sha256:" + "0" * 64)),
    Variant("journaled id differs", "integrity.trial_identity", journal("agent", trial_uuid="0" * 8)),
    Variant("seen id differs", "integrity.trial_identity", event("opened", {"role": "agent"}, trial_uuid="x")),
    Variant("container of another trial", "integrity.trial_identity", event("opened", {"role": "agent"}, trial=2)),
    Variant("two agent containers", "integrity.duplicate_trial", twice("opened", role="agent")),
    Variant("two verifier containers", "integrity.duplicate_trial", twice("opened", role="verifier")),
    Variant(
        "journal of another schema",
        "integrity.journal_unreadable",
        lambda run: run.journal.update(schema="x"),
    ),
    Variant("journal with an extra key", "integrity.journal_unreadable", lambda run: run.journal.update(x=1)),
    Variant("ledger without end", "integrity.ledger_broken", cut_ledger),
    Variant("ledger goes on", "integrity.ledger_broken", after_closed),
    Variant("ledger wrong count", "integrity.ledger_broken", ledger(-1, count=3)),
    Variant("ledger empty", "integrity.ledger_broken", lambda run: run.ledger.clear()),
    Variant("ledger number", "integrity.ledger_broken", ledger(1, seq=7)),
    Variant("ledger chain", "integrity.ledger_broken", ledger(2, prev="0" * 64)),
    Variant("ledger first chain", "integrity.ledger_broken", ledger(0, prev="1" * 64)),
    Variant("ledger kind", "integrity.ledger_broken", ledger(0, kind="great")),
    Variant("ledger extra key", "integrity.ledger_broken", ledger(0, body="x")),
    Variant("ledger boolean count", "integrity.ledger_broken", ledger(0, prompt_tokens=True)),
    Variant("ledger negative", "integrity.ledger_broken", ledger(0, bytes_in=-1)),
    Variant(
        "reward changed afterwards",
        "integrity.artifact_hash",
        tampered("verifier/reward.json", b'{"reward":0}'),
    ),
    Variant("reward spaced", "integrity.artifact_hash", tampered("verifier/reward.json", b'{"reward":1}')),
    Variant("output changed", "integrity.artifact_hash", tampered("verifier/test-stdout.txt", b"nice")),
    Variant("artifact changed", "integrity.artifact_hash", tampered("artifacts/", b"{ }")),
    Variant("log emptied", "integrity.artifact_hash", tampered("agent/mini-swe-agent.txt", b"")),
    Variant("kept file lost", "integrity.artifact_hash", lost("agent/mini-swe-agent.txt")),
    Variant("reward lost", "integrity.artifact_hash", lost("verifier/reward.json")),
    Variant("verifier got another file", "integrity.verifier_input", verifier_input),
    Variant("no supervision", "integrity.record_unreadable", no_supervision),
    Variant("supervision of another schema", "integrity.record_unreadable", supervision(schema="x")),
    *(
        Variant(f"supervision's {name} {value!r}", "integrity.record_unreadable", supervision(**{name: value}))
        for name, values in {
            "interrupted": ["yes", 1],
            "cancel_requested": ["true", None],
            "exit_code": ["x", True, 256, 0.0],
            "signal": [0, "9", 9],
            "deadline": ["verifier", "", True],
            "trial": [True, "1"],
            "started_at": [None, "", "1999-01-01T00:00:00.000000Z", "9999-01-01T00:00:00.000000Z"],
            "ended_at": [None, "x"],
            "mono_started": [None, "1", -1.0, 10**400],
            "process": [None, {}, []],
            "note": [1],
        }.items()
        for value in values
    ),
    *(
        Variant(f"observed {name} {key}", "integrity.observed_broken", event(name, match, **{key: value}))
        for name, match, key, value in [
            ("exec", {"purpose": "agent"}, "exit_code", "0"),
            ("exec", {"purpose": "agent"}, "exit_code", True),
            ("exec", {"purpose": "verifier"}, "role", "root"),
            ("exec", {"purpose": "agent"}, "mono", None),
            ("exec", {"purpose": "agent"}, "timed_out", 1),
            ("opened", {"role": "agent"}, "image_id", 5),
            ("opened", {"role": "agent"}, "trial", "1"),
            ("transfer", {"purpose": "agent_logs"}, "outcome", None),
            ("transfer", {"purpose": "agent_logs"}, "entries", [1]),
            ("transfer", {"purpose": "verifier_logs"}, "entries", {"a": 1}),
            ("counters", {"role": "agent"}, "oom_kill", "1"),
            ("counters", {"role": "agent"}, "tmpfs", {"/tmp": 5}),
            ("counters", {"role": "agent"}, "tmpfs", [5]),
            ("state", {"role": "agent"}, "oom_killed", "no"),
            ("agent_version", {}, "version", 2),
            ("killed_others", {}, "remaining", None),
            ("removed", {"role": "agent"}, "outcome", "gone"),
            ("exec", {"purpose": "agent"}, "at", None),
            ("exec", {"purpose": "agent"}, "at", "0001-01-01T00:00:00.000000Z"),
            ("exec", {"purpose": "agent"}, "at", "9999-01-01T00:00:00.000000Z"),
            ("exec", {"purpose": "agent"}, "at", "2026-13-01T00:00:00.000000Z"),
            ("exec", {"purpose": "agent"}, "at", "2026-06-17T04:00:14Z"),
            ("exec", {"purpose": "agent"}, "cancelled", True),
            ("exec", {"purpose": "verifier"}, "cancelled", True),
            ("exec", {"purpose": "agent"}, "cancelled", "no"),
            ("exec", {"purpose": "agent"}, "orphaned", 1),
            ("exec", {"purpose": "agent"}, "started_mono", None),
            ("exec", {"purpose": "agent"}, "mono", 1014),
            ("opened", {"role": "agent"}, "limits", None),
            ("opened", {"role": "agent"}, "warnings", None),
            ("opened", {"role": "verifier"}, "session_id", None),
            ("opened", {"role": "verifier"}, "container_id", None),
            ("transfer", {"purpose": "agent_logs", "direction": "download"}, "direction", "upload"),
            ("transfer", {"purpose": "agent_logs", "direction": "download"}, "refusals", [{"path": "x", "code": "y"}]),
            ("transfer", {"purpose": "agent_logs", "direction": "download"}, "code", "transfer.link"),
            ("transfer", {"purpose": "agent_logs", "direction": "download"}, "kept", "kept/verifier"),
            ("transfer", {"purpose": "agent_logs", "direction": "download"}, "size", 1),
            ("transfer", {"purpose": "agent_logs", "direction": "download"}, "sha256", "0" * 64),
            ("transfer", {"purpose": "agent_logs", "direction": "download"}, "outcome", "partial"),
            ("transfer", {"purpose": "tests"}, "files", 99),
            ("transfer", {"purpose": "tests"}, "kept", "kept/verifier"),
            ("transfer", {"purpose": "tests"}, "code", "transfer.not_needed"),
            ("transfer", {"purpose": "tests"}, "outcome", "source_absent"),
            ("state", {"role": "agent"}, "event", "stopped"),
            ("counters", {"role": "agent"}, "oom_kill", 10**400),
            ("counters", {"role": "agent"}, "note", "x"),
        ]
    ),
]


def control(*path: str | int, value: Any) -> Change:
    """Changes one value of a Harbor document; the path begins with the document's attribute of the trial."""

    def change(run: RunCase) -> None:
        document = getattr(run.trial, str(path[0]))
        for part in path[1:-1]:
            document = document[part] if isinstance(part, int) else document.setdefault(part, {})
        document[path[-1]] = value

    return change


_PLACES: list[tuple[str | int, ...]] = [("result", "config"), ("lock",)]
_AGENTS: list[tuple[str | int, ...]] = [
    *((*place, "agent") for place in _PLACES),
    ("job_config", "agents", 0),
]
_CONTROLS: list[tuple[str, list[tuple[str | int, ...]], tuple[str | int, ...], list[Any]]] = [
    ("install_only", [*_PLACES, ("job_config",)], ("install_only",), [True, None, 0, "false"]),
    ("verification_disabled", [*_PLACES, ("job_config",)], ("verifier", "disable"), [True, None, 0]),
    ("other_controls", _PLACES, ("timeout_multiplier",), [0.25, 2, None, True]),
    ("other_controls", _PLACES, ("agent_timeout_multiplier",), [0.25, 2]),
    ("other_controls", _PLACES, ("verifier_timeout_multiplier",), [0.5]),
    ("other_controls", _PLACES, ("agent_setup_timeout_multiplier",), [3.0]),
    ("other_controls", _PLACES, ("environment_build_timeout_multiplier",), [3.0]),
    ("other_controls", _PLACES, ("source_trial",), [{"action": "regrade"}]),
    ("other_controls", _PLACES, ("user_agent",), [{"name": "user"}]),
    ("other_controls", _PLACES, ("verifier", "override_timeout_sec"), [None, 600, True]),
    ("other_controls", _PLACES, ("verifier", "import_path"), ["x:Y"]),
    ("other_agent", _AGENTS, ("name",), ["oracle", "nop", None, "mini-swe-agent2"]),
    ("other_agent", _AGENTS, ("import_path",), ["x:Y"]),
    ("other_agent", _AGENTS, ("kwargs", "version"), ["2.4.7", None, 2.4]),
    ("other_controls", _AGENTS, ("model_name",), ["openai/other", None]),
    ("other_controls", _AGENTS, ("kwargs", "max_tokens"), [4097, None, 1024.5]),
    ("other_controls", _AGENTS, ("kwargs", "config", "agent", "step_limit"), [0, 9, None, 8.0]),
    ("other_controls", _AGENTS, ("kwargs", "reasoning_effort"), ["high"]),
    ("other_controls", _AGENTS, ("load_trajectory",), ["/x.json"]),
    ("other_controls", _AGENTS, ("mcp_servers",), [[{"name": "x"}]]),
    ("other_controls", _AGENTS, ("skills",), [["x"]]),
    ("other_controls", _AGENTS, ("override_timeout_sec",), [None, 1, 3000]),
    ("other_controls", _AGENTS, ("override_setup_timeout_sec",), [None, 1]),
    ("other_controls", _PLACES, ("environment", "import_path"), [None, "x:Y"]),
    ("other_controls", _PLACES, ("environment", "extra_docker_compose"), [["x.yaml"]]),
    ("other_controls", _PLACES, ("environment", "mounts"), [[{"type": "bind"}]]),
    ("shared_verifier", [("lock",)], ("verifier", "environment_mode"), ["shared", None]),
    ("shared_verifier", [("result",)], ("verifier_environment_mode",), ["shared", None]),
    ("other_controls", [("job_lock",)], ("n_concurrent_trials",), [4, None, True]),
    ("other_controls", [("job_lock",)], ("retry", "max_retries"), [1, None, False]),
    ("other_controls", [("job_lock",)], ("trials",), [[], [{}, {}], None]),
    ("other_controls", [("job_lock",)], ("harbor", "version"), ["0.25.0", None]),
    ("other_controls", [("job_config",)], ("n_attempts",), [2, None]),
    ("other_controls", [("job_config",)], ("n_concurrent_trials",), [4]),
    ("other_controls", [("job_config",)], ("retry", "max_retries"), [1, False, None]),
    ("other_controls", [("job_config",)], ("agents",), [[], None]),
]


def _controls() -> Iterator[Variant]:
    for suffix, places, path, values in _CONTROLS:
        for place in places:
            for value in values:
                name = f"{'.'.join(map(str, (*place, *path)))}={value!r}"
                code = f"invalid_evaluation.{suffix}"
                if path == ("agents",):  # without agents, the first comparison that fails is theirs
                    code = "invalid_evaluation.other_controls"
                yield Variant(name, code, control(*place, *path, value=value))


def cancel(seconds: float) -> Change:
    return lambda run: run.run.update(cancel_requested_at=at(seconds))


def cancelled_in_agent(run: RunCase) -> None:
    run.trial.end_after_agent()
    run.trial.event("exec", purpose="agent").update(exit_code=None, cancelled=True)
    run.run["cancel_requested_at"] = at(10)
    assert run.trial.supervision is not None
    run.trial.supervision.update(cancel_requested=True, exit_code=None, signal=15)
    run.trial.result = None


def interrupted_in_agent(run: RunCase) -> None:
    run.trial.end_after_agent()
    run.trial.result = None
    run.run["interrupted"] = True
    run.trial.supervision = None


def never_started(run: RunCase) -> None:
    run.never_started(1)


def both(*changes: Change) -> Change:
    def change(run: RunCase) -> None:
        for each in changes:
            each(run)

    return change


STOPPED = [
    Variant("cancel while the agent runs", "cancelled.requested", cancelled_in_agent),
    Variant("cancel before the verifier ended", "cancelled.requested", cancel(20)),
    Variant("cancel in the queue", "cancelled.requested", both(never_started, cancel(0))),
    Variant("interrupted", "worker_runtime.interrupted", interrupted_in_agent),
    Variant(
        "interrupted before",
        "worker_runtime.interrupted",
        both(never_started, run_record(interrupted=True)),
    ),
    Variant(
        "interrupted flag",
        "worker_runtime.interrupted",
        both(supervision(interrupted=True), drop("exec", purpose="verifier")),
    ),
    Variant(
        "interrupted while it was graded",
        "worker_runtime.interrupted",
        both(
            result(exception_info=exception("CancelledError")),
            no_supervision,
            run_record(interrupted=True),
        ),
    ),
    Variant("killed by a stranger", "worker_runtime.process_lost", supervision(exit_code=None, signal=9)),
    Variant("no exit at all", "worker_runtime.process_lost", supervision(exit_code=None)),
    Variant("never started", "worker_runtime.not_started", never_started),
]


def failure(where: str, code: str) -> Change:
    def change(run: RunCase) -> None:
        row = {"event": "failure", "where": where, "code": code, "detail": "SENTINEL", "role": "agent"}
        run.trial.events.insert(2, {**row, "at": at(run.trial.offset + 3), "mono": run.trial.mono + 3})

    return change


def run_failure(stage: str, klass: str = "worker_runtime") -> Change:
    record = {"stage": stage, "class": klass, "code": f"{stage}.x", "detail": "SENTINEL"}
    return both(never_started, run_record(failure=record))


def failed_setup(run: RunCase) -> None:
    run.trial.event("exec", purpose="setup")["exit_code"] = 1
    run.trial.drop("exec", purpose="agent")
    run.trial.result["exception_info"] = exception("RuntimeError")


def no_result(run: RunCase) -> None:
    run.trial.result = None


def raw_result(data: bytes) -> Change:
    def change(run: RunCase) -> None:
        run.trial.result = data

    return change


def harbor_raised(name: str) -> Change:
    return result(exception_info=exception(name))


def agent_exit(code: int | None, **changes: Any) -> Change:
    return event("exec", {"purpose": "agent"}, exit_code=code, **changes)


def refuse(purpose: str, outcome: str) -> Change:
    def change(run: RunCase) -> None:
        direction = "upload" if purpose in ("environment", "tests", "artifacts_in") else "download"
        found = run.trial.event("transfer", purpose=purpose, direction=direction)
        kept = (found["kept"] or "").removeprefix("kept/")
        found.update(outcome=outcome, code=None if outcome == "source_absent" else "unsafe_entry")
        list_files(found, [])
        if kept:
            run.trial.kept = {p: d for p, d in run.trial.kept.items() if not p.startswith(kept + "/")}
        if purpose == "artifact":
            list_files(run.trial.event("transfer", purpose="artifacts_in", path=found["path"]), [])

    return change


def replaced(document: str, value: Any) -> Change:
    """One of Harbor's documents is another one, other bytes, or not there."""
    return lambda run: setattr(run.trial, document, value)


GONE = "OCI runtime exec failed: container not running"


def says_it_was_gone(run: RunCase) -> None:
    """Every observation of the agent says that its container was not running, and the verifier found nothing."""
    call = {"role": "assistant", "content": "", "tool_calls": []}
    seen = {"role": "tool", "content": GONE, "extra": {"returncode": 126, "raw_output": GONE}}
    trajectory = {
        "messages": [call, seen] * 3,
        "info": {"exit_status": "LimitsExceeded", "mini_version": AGENT_VERSION},
    }
    run.trial.kept["agent/mini-swe-agent.trajectory.json"] = json.dumps(trajectory).encode()
    run.trial.reward(json=b'{"reward":0}')


def container_gone(run: RunCase) -> None:
    """The same, and the attendant saw it: nothing could be copied out of that container any more."""
    says_it_was_gone(run)
    refuse("agent_logs", "failed")(run)
    run.trial.event("state", role="agent").update(status="exited", exit_code=137)


TROUBLE = [
    *(
        Variant(f"attendant {where} {code}", expected, failure(where, code))
        for where, code, expected in [
            ("start", "engine.create", "worker_runtime.start_failed"),
            ("exec", "engine.exec", "worker_runtime.exec_failed"),
            ("transfer", "engine.transfer", "worker_runtime.transfer_failed"),
            ("stop", "engine.stop", "worker_runtime.stop_failed"),
            ("start", "no_space_left", "worker_runtime.disk_full"),
            ("transfer", "disk_full", "worker_runtime.disk_full"),
            ("somewhere", "x", "worker_runtime.provider_failure"),
        ]
    ),
    Variant("set-up failed", "worker_runtime.setup_failed", failed_setup),
    Variant("agent's container was gone", "worker_runtime.transfer_failed", container_gone),
    Variant("upload failed", "worker_runtime.transfer_failed", refuse("environment", "failed")),
    Variant("artifact failed", "worker_runtime.transfer_failed", refuse("artifact", "failed")),
    Variant("artifact refused", "worker_runtime.transfer_refused", refuse("artifact", "refused")),
    Variant("agent logs failed", "worker_runtime.transfer_failed", refuse("agent_logs", "failed")),
    Variant("preflight", "worker_runtime.preflight", run_failure("preflight")),
    Variant("gateway", "worker_runtime.gateway", run_failure("gateway")),
    Variant("probe", "worker_runtime.probe", run_failure("probe")),
    Variant("assets", "integrity.run_refused", run_failure("assets", "integrity")),
    Variant("other stage", "harness.run_failure", run_failure("ingest")),
    Variant("credential refused at once", "authentication.not_ready", run_failure("probe", "authentication")),
    Variant("endpoint not found at once", "routing.not_ready", run_failure("probe", "routing")),
    Variant("endpoint not serving at once", "serving_runtime.not_ready", run_failure("probe", "serving_runtime")),
    Variant("no result", "harness.no_result", no_result),
    Variant("empty result", "harness.result_unreadable", raw_result(b"")),
    Variant("cut result", "harness.result_unreadable", raw_result(b'{"id": "')),
    Variant("result is a list", "harness.result_unreadable", raw_result(b"[]")),
    Variant("result with duplicate keys", "harness.result_unreadable", raw_result(b'{"id":1,"id":2}')),
    Variant("result with NaN", "harness.result_unreadable", raw_result(b'{"id":NaN}')),
    Variant("deep result", "harness.result_unreadable", raw_result(b'{"id":' + b"[" * 5000 + b"]" * 5000 + b"}")),
    Variant("result in Latin-1", "harness.result_unreadable", raw_result(b'{"id":"\xe9"}')),
    Variant("result too large", "harness.result_unreadable", raw_result(b'{"id":"' + b"x" * (4 * 2**20) + b'"}')),
    Variant("result of version 2", "harness.result_unsupported", result(schema_version=2)),
    Variant("lock of version 3", "harness.result_unsupported", control("lock", "schema_version", value=3)),
    Variant("lock of version True", "harness.result_unsupported", control("lock", "schema_version", value=True)),
    Variant("job lock of version 4", "harness.result_unsupported", control("job_lock", "schema_version", value=4)),
    Variant("ValueError and reward", "harness.exception", harbor_raised("ValueError")),
    Variant(
        "RuntimeError, no agent",
        "harness.exception",
        both(harbor_raised("RuntimeError"), lambda run: run.trial.end_after_agent()),
    ),
    *(
        Variant(f"{document} {what}", "harness.config_differs", replaced(document, value))
        for document in ("job_config", "job_lock", "lock")
        for what, value in [("missing", None), ("cut", b'{"schema_version": 1, "tri'), ("empty", b""), ("a list", [])]
    ),
    Variant("timeout that nobody saw", "harness.exception", harbor_raised("AgentTimeoutError")),
    Variant("CancelledError that nobody asked for", "harness.exception", harbor_raised("CancelledError")),
]


def timed_out(purpose: str, name: str) -> Change:
    def change(run: RunCase) -> None:
        run.trial.event("exec", purpose=purpose).update(exit_code=None, timed_out=True)
        run.trial.result["exception_info"] = exception(name)

    return change


def aborted(purpose: str, before_limit_s: float) -> Change:
    """Harbor cut a command off by itself, so long before the limit of its phase."""

    def change(run: RunCase) -> None:
        seconds = run.spec["limits"][f"{purpose}_s"] - before_limit_s
        run.trial.event("exec", purpose=purpose).update(exit_code=None, duration_s=seconds)
        run.trial.result["exception_info"] = exception("TimeoutError")

    return change


def verifier_timed_out(run: RunCase) -> None:
    timed_out("verifier", "VerifierTimeoutError")(run)
    run.trial.reward(json=None, txt=None)
    run.trial.drop("transfer", purpose="verifier_logs")
    run.trial.result["verifier_result"] = None


def slow_environment(beyond_limit_s: float) -> Change:
    """The environment did not start; it was given up so long after its limit."""

    def change(run: RunCase) -> None:
        run.trial.events = []
        run.trial.kept = {}
        spent = run.spec["limits"]["environment_start_s"] + beyond_limit_s
        run.trial.result["environment_setup"] = {"started_at": at(0), "finished_at": at(spent)}
        run.trial.result["exception_info"] = exception("EnvironmentStartTimeoutError")

    return change


def long_environment(run: RunCase) -> None:
    """It took longer than its limit, and everything went on."""
    spent = run.spec["limits"]["environment_start_s"] + 1
    run.trial.result["environment_setup"] = {"started_at": at(0), "finished_at": at(spent)}


def late_deadline(phase: str) -> Change:
    """The supervisor stopped a process that hung after its trial was graded."""

    def change(run: RunCase) -> None:
        assert run.trial.supervision is not None
        run.trial.supervision.update(deadline=phase, exit_code=None, signal=15)

    return change


def graded_after_trial_limit(run: RunCase) -> None:
    run.spec["limits"]["trial_s"] = 5
    late_deadline("trial")(run)


def agent_then_trial_limit(run: RunCase) -> None:
    timed_out("agent", "AgentTimeoutError")(run)
    late_deadline("trial")(run)
    run.trial.result = None


def slow_setup(run: RunCase) -> None:
    run.trial.end_after_agent()
    run.trial.drop("exec", purpose="agent")
    spent = run.spec["limits"]["agent_setup_s"] + 0.1
    run.trial.result["agent_setup"] = {"started_at": at(0), "finished_at": at(spent)}
    run.trial.result["exception_info"] = exception("AgentSetupTimeoutError")


def trial_deadline(run: RunCase) -> None:
    run.trial.end_after_agent()
    run.trial.event("exec", purpose="agent").update(exit_code=None, cancelled=True)
    run.trial.result = None
    assert run.trial.supervision is not None
    run.trial.supervision.update(deadline="trial", exit_code=None, signal=15)
    lasting(run, 601)


def run_deadline(run: RunCase) -> None:
    trial_deadline(run)
    run.run["deadline"] = "run"
    assert run.trial.supervision is not None
    run.trial.supervision["deadline"] = "run"


LIMITS = [
    Variant("verifier", "incomplete.verifier_deadline", verifier_timed_out),
    Variant("agent, reward 1 later", "incomplete.agent_deadline", timed_out("agent", "AgentTimeoutError")),
    Variant("status timedOut, graders true", "incomplete.agent_deadline", timed_out("agent", "X")),
    Variant("agent stopped by Harbor", "incomplete.agent_deadline", aborted("agent", 0.5)),
    Variant("agent stopped a second before", "incomplete.agent_deadline", aborted("agent", 1.0)),
    Variant("agent stopped too early for a limit", "harness.exception", aborted("agent", 1.5)),
    Variant("trial, graded after its limit", "incomplete.trial_deadline", graded_after_trial_limit),
    Variant("trial, graded before but no result", "incomplete.trial_deadline", both(late_deadline("trial"), no_result)),
    Variant("trial, after the agent's own limit", "incomplete.agent_deadline", agent_then_trial_limit),
    Variant("environment, half a second before", "incomplete.environment_deadline", slow_environment(-0.5)),
    Variant("environment, a little before", "incomplete.environment_deadline", slow_environment(-0.4)),
    Variant("environment, too early for a limit", "harness.exception", slow_environment(-0.6)),
    Variant(
        "slow environment, then ValueError", "harness.exception", both(long_environment, harbor_raised("ValueError"))
    ),
    Variant("set-up", "incomplete.setup_deadline", timed_out("setup", "AgentSetupTimeoutError")),
    Variant("set-up without command", "incomplete.setup_deadline", slow_setup),
    Variant("environment", "incomplete.environment_deadline", slow_environment(0.1)),
    Variant("trial", "incomplete.trial_deadline", trial_deadline),
    Variant("run", "incomplete.run_deadline", run_deadline),
    Variant("run, never started", "incomplete.run_deadline", both(never_started, run_record(deadline="run"))),
    Variant("agent killed at its limit", "incomplete.agent_deadline", agent_exit(137, timed_out=True)),
]


def answers(*lines: dict[str, Any], exit_code: int = 1) -> Change:
    def change(run: RunCase) -> None:
        run.answer_with(1, *lines)
        run.trial.event("exec", purpose="agent")["exit_code"] = exit_code
        if exit_code:
            run.trial.result["exception_info"] = exception("NonZeroAgentExitCodeError")

    return change


WRONG_MODEL = {"kind": "wrong_model"}
MALFORMED = {"kind": "malformed", "message_sha256": None}
REFUSED = {
    "kind": "refused",
    "code": "max_tokens",
    "status": 404,
    "request_sha256": None,
    "response_sha256": None,
}
_UPSTREAM: list[tuple[dict[str, Any], str]] = [
    (failed_request("status", 401), "authentication.rejected"),
    (failed_request("status", 403), "authentication.rejected"),
    (failed_request("status", 404), "routing.not_found"),
    (failed_request("status", 302), "routing.redirected"),
    (failed_request("unreachable"), "routing.unreachable"),
    (failed_request("tls"), "routing.tls"),
    (failed_request("address_refused"), "routing.address_refused"),
    (WRONG_MODEL, "routing.wrong_model"),
    (failed_request("status", 429), "serving_runtime.rate_limited"),
    (failed_request("status", 400), "serving_runtime.upstream_status"),
    (failed_request("status", 500), "serving_runtime.upstream_status"),
    (failed_request("status", 503), "serving_runtime.upstream_status"),
    (failed_request("timeout"), "serving_runtime.timeout"),
    (failed_request("too_large"), "serving_runtime.unreadable"),
    (failed_request("bad_encoding"), "serving_runtime.unreadable"),
    (MALFORMED, "serving_runtime.malformed"),
]


def _endpoint() -> Iterator[Variant]:
    for line, code in _UPSTREAM:
        name = f"{line['kind']} {line.get('code', '')} {line.get('status', '')}"
        yield Variant(f"{name}: the only answer", code, answers(line))
        yield Variant(f"{name}: the only answer, agent exits 0", code, answers(line, exit_code=0))
        yield Variant(f"{name}: the last answer, agent fails", code, answers({}, line))
        yield Variant(f"{name}: then a refusal", code, answers({}, line, REFUSED))


def starved(**changes: Any) -> Change:
    def change(run: RunCase) -> None:
        row = run.trial.event("counters", role="agent")
        row.update(counters(**changes))
        run.trial.event("exec", purpose="agent")["exit_code"] = 137
        run.trial.result["exception_info"] = exception("NonZeroAgentExitCodeError")

    return change


FULL = {"/tmp": {"used": 2**26, "size": 2**26}}
RESOURCES = [
    Variant("oom", "resource_exhaustion.memory", starved(oom_kill=1)),
    Variant(
        "engine says OOMKilled",
        "resource_exhaustion.memory",
        both(agent_exit(137), event("state", {"role": "agent"}, oom_killed=True)),
    ),
    Variant("pids", "resource_exhaustion.pids", starved(pids_max=3)),
    Variant("disk", "resource_exhaustion.disk", starved(tmpfs=FULL)),
    Variant("all of them", "resource_exhaustion.memory", starved(oom_kill=1, pids_max=1, tmpfs=FULL)),
    Variant("pids and disk", "resource_exhaustion.pids", starved(pids_max=1, tmpfs=FULL)),
]


def only_refusals(run: RunCase) -> None:
    run.answer_with(1, REFUSED, REFUSED)


def no_requests(run: RunCase) -> None:
    run.answer_with(1)


def late_version(run: RunCase) -> None:
    run.trial.event("agent_version")["mono"] = run.trial.event("exec", purpose="agent")["started_mono"] + 0.1


def no_uuids(run: RunCase) -> None:
    for resource in run.journal["resources"]:
        resource["trial_uuid"] = None


def harbor_says(reward: object) -> Change:
    return result(verifier_result={"rewards": {"reward": reward}})


def job_says(**changes: Any) -> Change:
    def change(run: RunCase) -> None:
        for statistics in run.trial.job_result["stats"]["evals"].values():
            statistics.update(changes)

    return change


def job_counted(value: str) -> Change:
    return lambda run: job_says(reward_stats={"reward": {value: [run.trial.folder]}})(run)


def harbors_copy(data: bytes, name: str = "reward.json") -> Change:
    def change(run: RunCase) -> None:
        run.trial.extra[f"job/{run.trial.folder}/verifier/{name}"] = data

    return change


REPORTED = [
    Variant(f"{name}, ours says 1", "integrity.reward_differs", change)
    for name, change in {
        "Harbor says reward 0": harbor_says(0),
        "Harbor says true": harbor_says(True),
        "Harbor says a text": harbor_says("1"),
        "Harbor says another reward too": result(verifier_result={"rewards": {"reward": 1, "other": 1}}),
        "Harbor says nothing": result(verifier_result=None),
        "Harbor says an empty object": result(verifier_result={}),
        "Harbor says no rewards": result(verifier_result={"rewards": None}),
        "the job counted a 0": job_counted("0"),
        "the job counted a word": job_counted("x"),
        "the job's mean is 0": job_says(metrics=[{"mean": 0.0}]),
        "Harbor's copy says 0": harbors_copy(b'{"reward": 0}'),
        "Harbor's copy is broken": harbors_copy(b'{"reward": '),
        "Harbor's copy says 0 as a text": harbors_copy(b"0", "reward.txt"),
    }.items()
]

UNPROVED = [
    Variant("agent never ran", "invalid_evaluation.no_agent_end", drop("exec", purpose="agent")),
    Variant("agent without exit", "invalid_evaluation.no_agent_end", agent_exit(None)),
    Variant("no requests", "invalid_evaluation.no_completion", no_requests),
    Variant("only refusals", "invalid_evaluation.no_completion", only_refusals),
    Variant(
        "answers to another trial",
        "invalid_evaluation.no_completion",
        lambda run: [line.update(trial=2) for line in run.lines_of(1)] and None,
    ),
    Variant(
        "only the readiness question's answer",
        "integrity.foreign_trial",
        lambda run: [line.update(trial=len(run.trials) + 1) for line in run.lines_of(1)] and None,
    ),
    Variant(
        "answers to nobody",
        "integrity.ledger_broken",
        lambda run: [line.update(trial=None) for line in run.lines_of(1)] and None,
    ),
    Variant("no version", "invalid_evaluation.agent_version", drop("agent_version")),
    Variant("version unknown", "invalid_evaluation.agent_version", event("agent_version", {}, version=None)),
    Variant("another version", "invalid_evaluation.agent_version", event("agent_version", {}, version="2.4.5")),
    Variant("version after the run", "invalid_evaluation.agent_version", late_version),
    Variant("no journaled id", "integrity.journal_differs", no_uuids),
    Variant("agent container not seen", "invalid_evaluation.proof_missing", drop("opened", role="agent")),
    Variant(
        "verifier container not seen",
        "invalid_evaluation.not_verified_separately",
        drop("opened", role="verifier"),
    ),
]


def verifier_exit(code: int | None) -> Change:
    return event("exec", {"purpose": "verifier"}, exit_code=code)


def no_reward(run: RunCase) -> None:
    run.trial.reward(json=None, txt=None)


UNGRADED = [
    Variant("verifier exit 3, no reward", "grading.verifier_exit", both(no_reward, verifier_exit(3))),
    Variant("verifier exit 1, reward 1", "grading.verifier_exit", verifier_exit(1)),
    Variant("verifier killed", "grading.verifier_exit", verifier_exit(137)),
    Variant("verifier without exit", "grading.verifier_not_run", verifier_exit(None)),
    Variant("verifier not run", "grading.verifier_not_run", drop("exec", purpose="verifier")),
    Variant("verifier's files refused", "worker_runtime.verifier_transfer", refuse("verifier_logs", "refused")),
    Variant("verifier's files failed", "worker_runtime.verifier_transfer", refuse("verifier_logs", "failed")),
    Variant(
        "verifier's files not fetched",
        "worker_runtime.verifier_transfer",
        drop("transfer", purpose="verifier_logs"),
    ),
    Variant("verifier got no artifacts", "worker_runtime.verifier_transfer", refuse("artifacts_in", "failed")),
    Variant("verifier's files absent", "grading.reward_missing", refuse("verifier_logs", "source_absent")),
    Variant(
        "RewardFileNotFoundError",
        "grading.reward_missing",
        both(no_reward, harbor_raised("RewardFileNotFoundError")),
    ),
    Variant(
        "ValidationError of a bare 1",
        "grading.reward_malformed",
        both(reward(b"1"), harbor_raised("ValidationError")),
    ),
    Variant(
        "parse error",
        "grading.reward_malformed",
        both(reward(b'{"reward":1'), harbor_raised("VerifierOutputParseError")),
    ),
]


def lasting(run: RunCase, seconds: float) -> None:
    """The first trial, and the run with it, lasted at least so long."""
    record = run.trial.supervision
    assert record is not None
    if record["mono_ended"] < run.trial.mono + seconds:
        record.update(mono_ended=run.trial.mono + seconds, ended_at=at(run.trial.offset + seconds))
    run.run["ended_at"] = max(run.run["ended_at"], at(run.trial.offset + seconds))


def failure_at(seconds: float) -> Change:
    """The attendant recorded a failure, so long after the trial's start."""

    def change(run: RunCase) -> None:
        lasting(run, seconds)
        row = {"event": "failure", "where": "start", "code": "engine.gone", "detail": "", "role": "verifier"}
        run.trial.events.append({**row, "at": at(run.trial.offset + seconds), "mono": run.trial.mono + seconds})

    return change


def failed_transfer_at(seconds: float) -> Change:
    """The agent's logs could not be fetched, so long after the trial's start."""

    def change(run: RunCase) -> None:
        lasting(run, seconds)
        row = {**transfer("download", "agent_logs", "/logs/agent"), "outcome": "failed", "code": "transfer.tar"}
        for event in ({"event": "killed_others", "remaining": 0}, row):
            stamp = {"at": at(run.trial.offset + seconds), "mono": run.trial.mono + seconds}
            run.trial.events.append({**event, "role": "agent", **stamp})

    return change


STARTED = "worker_runtime.start_failed"
MOVED = "worker_runtime.transfer_failed"
# What fails after our own supervisor stopped a trial is a consequence of that; what failed before it is a cause.
CAUSES = [
    Variant("failure after the trial's limit", "incomplete.trial_deadline", both(trial_deadline, failure_at(700))),
    Variant("failure before the trial's limit", STARTED, both(trial_deadline, failure_at(30))),
    Variant("failure after the run's limit", "incomplete.run_deadline", both(run_deadline, failure_at(2000))),
    Variant("failure before the run's limit", STARTED, both(run_deadline, failure_at(700))),
    Variant("failure after the agent's limit", STARTED, both(timed_out("agent", "X"), failure_at(2000))),
    Variant("failure after a late limit", STARTED, both(late_deadline("trial"), failure_at(700))),
    Variant(
        "transfer after the trial's limit", "incomplete.trial_deadline", both(trial_deadline, failed_transfer_at(700))
    ),
    Variant("transfer before the trial's limit", MOVED, both(trial_deadline, failed_transfer_at(30))),
]

WRONG = [
    *CAUSES,
    *REWARDS,
    *INTEGRITY,
    *_controls(),
    *STOPPED,
    *TROUBLE,
    *LIMITS,
    *_endpoint(),
    *RESOURCES,
    *UNPROVED,
    *REPORTED,
    *UNGRADED,
]

GRADED = [
    Variant("reward.json 1", "passed.reward_1", lambda run: None),
    Variant("reward.txt 1", "passed.reward_1", reward(None, b"1")),
    Variant("reward.txt 1 and newline", "passed.reward_1", reward(None, b"1\n")),
    Variant("reward.json with spaces", "passed.reward_1", reward(b' {\n "reward" : 1 }\n')),
    Variant("reward.json of the largest size", "passed.reward_1", reward(b'{"reward":1}'.ljust(4096))),
    Variant("reward.json 0", "failed.reward_0", reward(b'{"reward":0}')),
    Variant("reward.json -0", "failed.reward_0", reward(b'{"reward":-0}')),
    Variant("reward.txt 0", "failed.reward_0", reward(None, b"0")),
    Variant("reward.txt 0 and newline", "failed.reward_0", reward(None, b"0\n")),
    Variant(
        "agent exits 1 by itself",
        "passed.reward_1",
        both(agent_exit(1), harbor_raised("NonZeroAgentExitCodeError")),
    ),
    Variant(
        "an upstream error in between",
        "passed.reward_1",
        lambda run: run.answer_with(1, {}, failed_request("status", 500), {}),
    ),
    Variant(
        "a failed last answer, agent exits 0",
        "passed.reward_1",
        lambda run: run.answer_with(1, {}, failed_request("status", 500)),
    ),
    Variant("refusals", "passed.reward_1", lambda run: run.answer_with(1, {}, REFUSED)),
    Variant("oom in a child, agent exits 0", "passed.reward_1", event("counters", {"role": "agent"}, oom_kill=1)),
    Variant("verifier's counters", "passed.reward_1", event("counters", {"role": "verifier"}, oom_kill=1)),
    # Its own exit code and its reward decide; what it spent besides is counted nowhere.
    Variant("verifier killed for memory", "passed.reward_1", event("state", {"role": "verifier"}, oom_killed=True)),
    Variant("agent left a process behind", "passed.reward_1", event("exec", {"purpose": "agent"}, orphaned=True)),
    Variant("verifier left a process behind", "passed.reward_1", event("exec", {"purpose": "verifier"}, orphaned=True)),
    Variant("only the agent's text says that it was gone", "failed.reward_0", says_it_was_gone),
    Variant("agent logs refused", "passed.reward_1", refuse("agent_logs", "refused")),
    Variant("agent logs absent", "passed.reward_1", refuse("agent_logs", "source_absent")),
    Variant("cancel after the grade", "passed.reward_1", cancel(30)),
    Variant("trial's limit after the grade", "passed.reward_1", late_deadline("trial")),
    Variant("run's limit after the grade", "passed.reward_1", late_deadline("run")),
    Variant("environment longer than its limit", "passed.reward_1", long_environment),
    Variant("interrupted afterwards", "passed.reward_1", run_record(interrupted=True)),
    Variant("naive times", "passed.reward_1", result(started_at="2026-06-17T04:23:38.642104")),
]
