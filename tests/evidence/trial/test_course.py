"""The attendant's record follows the course of its trial: what is out of order, too many or missing is named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evidence.reading import observed
from evidence.suite.run_facts import read_run
from evidence.trial.classify import Classification, classify_trial
from evidence.trial.course import deviations, environment_course
from runs.attendant.observed import MAX_LINES
from tests.evidence.folders import RunCase, canonical, list_files, load_run, passing_run

REAL = Path(__file__).parents[2] / "fixtures/real-run"
COURSE, BROKEN = "integrity.record_course", "integrity.observed_broken"
MAKE = pytest.mark.parametrize("make", [lambda: passing_run(1), lambda: load_run(REAL)], ids=["synthetic", "real"])
type Make = Callable[[], RunCase]
type Change = Callable[[RunCase], object]


def judged(run: RunCase, where: Path) -> Classification:
    return classify_trial(read_run(run.write(where / "run")).trials[0])


def index(run: RunCase, name: str, **match: Any) -> int:
    return next(i for i, event in enumerate(run.trial.events) if event is run.trial.event(name, **match))


def move(what: dict[str, Any], before: dict[str, Any]) -> Change:
    """One event of the first trial to the place before another, whose times it takes over."""

    def change(run: RunCase) -> None:
        name, place = what["event"], before["event"]
        event = run.trial.events.pop(index(run, name, **{k: v for k, v in what.items() if k != "event"}))
        at = index(run, place, **{k: v for k, v in before.items() if k != "event"})
        after = run.trial.events[at]
        event.update(mono=after["mono"], at=after["at"])
        if "started_mono" in event:
            event.update(started_mono=run.trial.events[at - 1]["mono"], duration_s=0.0)
        run.trial.events.insert(at, event)

    return change


def again(name: str, **match: Any) -> Change:
    """An event twice, one right behind the other."""

    def change(run: RunCase) -> None:
        place = index(run, name, **match)
        copy = dict(run.trial.events[place])
        if "started_mono" in copy:
            copy.update(started_mono=copy["mono"], duration_s=0.0)
        run.trial.events.insert(place + 1, copy)

    return change


def put(name: str, match: dict[str, Any], **changes: Any) -> Change:
    return lambda run: run.trial.event(name, **match).update(changes)


def drop(name: str, **match: Any) -> Change:
    return lambda run: run.trial.drop(name, **match)


def given_elsewhere(path: str) -> Change:
    """The agent's file is put somewhere else into the verifier's container."""
    return put("transfer", {"purpose": "artifacts_in", "path": "/app/output"}, path=path)


def unreviewed(role: str, purpose: str, before: dict[str, Any]) -> Change:
    """Another file goes into a container, as a transfer of another purpose."""

    def change(run: RunCase) -> None:
        place = index(run, before["event"], **{k: v for k, v in before.items() if k != "event"})
        event = {**run.trial.event("transfer", purpose="tests"), "role": role, "purpose": purpose, "path": "/tmp/x"}
        list_files(event, [{"path": "cheat.py", "size": 1, "sha256": "0" * 64}])
        after = run.trial.events[place - 1]
        run.trial.events.insert(place, {**event, "mono": after["mono"], "at": after["at"]})

    return change


def verifier_event(name: str, **match: Any) -> dict[str, Any]:
    return {"event": name, "role": "verifier", **match}


def version_in_the_verifier(run: RunCase) -> None:
    place = index(run, "opened", role="verifier")
    opened = run.trial.events[place]
    version = {**run.trial.event("agent_version"), "role": "verifier", "mono": opened["mono"], "at": opened["at"]}
    run.trial.events.insert(place + 1, version)


AGENT_COMMAND = {"event": "exec", "purpose": "agent"}
GRADING = {"event": "exec", "purpose": "verifier"}
REWARD = {"event": "transfer", "purpose": "verifier_logs"}
DOWNLOAD = {"event": "transfer", "purpose": "artifact", "path": "/app/output"}

# The rows of "own records that say that something went wrong" of what is recorded of one trial, and their neighbours.
ALTERED: dict[str, tuple[Change, str]] = {
    "processes were left": (put("killed_others", {}, remaining=5), COURSE),
    "nobody counted what was left": (put("killed_others", {}, remaining=-1), COURSE),
    "nothing was killed": (drop("killed_others"), COURSE),
    "killed after the downloads": (move({"event": "killed_others"}, {"event": "state", "role": "agent"}), COURSE),
    "tests sent after the grading": (
        move({"event": "transfer", "purpose": "tests"}, verifier_event("state")),
        COURSE,
    ),
    "outputs sent after the grading": (
        move({"event": "transfer", "purpose": "artifacts_in", "path": "/app/output"}, verifier_event("state")),
        COURSE,
    ),
    "reward fetched before the grading ended": (move(REWARD, GRADING), COURSE),
    "outputs fetched before the agent ran": (move(DOWNLOAD, AGENT_COMMAND), COURSE),
    "task files sent after the agent": (
        move({"event": "transfer", "purpose": "environment"}, {"event": "killed_others"}),
        COURSE,
    ),
    "verifier opened first": (
        move(verifier_event("opened"), {"event": "opened", "role": "agent"}),
        "integrity.ledger_times",
    ),
    "verifier opened before the agent's container was closed": (
        move(verifier_event("opened"), {"event": "closed", "role": "agent"}),
        COURSE,
    ),
    "version asked after the agent": (move({"event": "agent_version"}, {"event": "killed_others"}), COURSE),
    "the grading began while the tests were sent": (
        lambda run: run.trial.event("exec", purpose="verifier").update(
            started_mono=run.trial.event("transfer", purpose="tests")["mono"] - 0.05
        ),
        COURSE,
    ),
    "the agent began before its set-up ended": (
        lambda run: run.trial.event("exec", purpose="agent").update(
            started_mono=run.trial.event("opened", role="agent")["mono"]
        ),
        COURSE,
    ),
    "a second agent command": (again("exec", purpose="agent"), COURSE),
    "a second grading": (again("exec", purpose="verifier"), COURSE),
    "a failed grading before it": (
        lambda run: (
            again("exec", purpose="verifier")(run),
            next(run.trial.matching("exec", purpose="verifier")).update(exit_code=1),
        ),
        COURSE,
    ),
    "a foreign command in the verifier": (
        lambda run: run.trial.events.insert(
            index(run, "exec", purpose="verifier"), {**run.trial.events[index(run, "exec", purpose="verifier")],
            "purpose": "other", "mono": run.trial.events[index(run, "exec", purpose="verifier") - 1]["mono"],
            "started_mono": run.trial.events[index(run, "exec", purpose="verifier") - 1]["mono"]},
        ),
        COURSE,
    ),
    "the agent's command in the verifier": (put("exec", {"purpose": "agent"}, role="verifier"), COURSE),
    "a version read in the verifier's container": (version_in_the_verifier, COURSE),
    "a cancelled grading that ended": (put("exec", {"purpose": "verifier"}, cancelled=True), BROKEN),
    "an output over the grading program": (given_elsewhere("/tests/verify.py"), COURSE),
    "an output over the reward": (given_elsewhere("/logs/verifier"), COURSE),
    "an output at no declared place": (given_elsewhere("/app/output2"), COURSE),
    "an output that nobody declared": (
        lambda run: (
            run.trial.event("transfer", purpose="artifact", path="/app/output").update(
                path="/app/x", kept="kept/artifacts/app/x"
            ),
            given_elsewhere("/app/x")(run),
            run.trial.kept.update({
                path.replace("artifacts/app/output", "artifacts/app/x"): data
                for path, data in list(run.trial.kept.items())
            }),
        ),
        COURSE,
    ),
    "an unreviewed file into the agent": (unreviewed("agent", "artifacts_in", AGENT_COMMAND), COURSE),
    "an unreviewed file into the verifier": (unreviewed("verifier", "environment", GRADING), COURSE),
    "a transfer of no known purpose": (put("transfer", {"purpose": "tests"}, purpose="extra"), BROKEN),
    "an output fetched twice": (again("transfer", purpose="artifact", path="/app/output"), COURSE),
    "a declared output that nobody asked for": (
        lambda run: (drop("transfer", purpose="artifact", path="/logs/artifacts")(run),
                     drop("transfer", purpose="artifacts_in", path="/logs/artifacts")(run)),
        COURSE,
    ),
    "agent not removed": (drop("removed", role="agent"), COURSE),
    "verifier not removed": (drop("removed", role="verifier"), COURSE),
    "agent not closed": (drop("closed", role="agent"), COURSE),
    "verifier not closed": (drop("closed", role="verifier"), COURSE),
    "no state of the agent": (drop("state", role="agent"), COURSE),
    "no counters of the verifier": (drop("counters", role="verifier"), COURSE),
    "no counters of the agent": (drop("counters", role="agent"), COURSE),
    "no launch": (drop("launched"), COURSE),
    "two launches": (again("launched"), COURSE),
    "launched in the host's network": (put("launched", {}, network_namespace=False), BROKEN),
    "closed twice": (again("closed", role="verifier"), COURSE),
    "counted twice": (again("counters", role="agent"), COURSE),
    "an unknown event": (put("counters", {"role": "agent"}, event="counted"), BROKEN),
    "a misspelt failure": (
        lambda run: run.trial.events.insert(
            2, {**run.trial.event("closed", role="agent"), "event": "failures", "mono": run.trial.events[1]["mono"]}
        ),
        BROKEN,
    ),
    "an event of the container after it was closed": (
        lambda run: run.trial.events.append(
            {**run.trial.event("counters", role="verifier"), "mono": run.trial.events[-1]["mono"]}
        ),
        COURSE,
    ),
}  # fmt: skip


@MAKE
@pytest.mark.parametrize("name", ALTERED)
def test_what_does_not_follow_the_course_is_named_and_never_evaluated(name: str, make: Make, tmp_path: Path) -> None:
    change, code = ALTERED[name]
    run = make()
    change(run)
    found = judged(run, tmp_path)
    assert found.code == code, found.detail
    assert "SENTINEL" not in found.sentence and "/" not in found.sentence


@MAKE
def test_the_sentence_names_the_place(make: Make, tmp_path: Path) -> None:
    run = make()
    again("exec", purpose="agent")(run)
    line = run.trial.events.index(run.trial.event("exec", purpose="agent"))
    expected = f"The attendant's record is not the course of such a trial: line {line}: exec agent again."
    assert judged(run, tmp_path).sentence.startswith(expected)


TRUE: dict[str, Change] = {
    "others were killed twice": again("killed_others"),
    "an output was cut off, and what read it killed": lambda run: run.trial.events.insert(
        index(run, "state", role="agent"),
        {**run.trial.event("killed_others"), "mono": run.trial.event("state", role="agent")["mono"]},
    ),
    "counted before the downloads": move({"event": "counters", "role": "agent"}, DOWNLOAD),
    "version known before the last set-up command": move(
        {"event": "agent_version"}, {"event": "exec", "purpose": "setup"}
    ),
    "stopped after the grade, before everything was closed": lambda run: (
        [run.trial.drop(name, role="verifier") for name in ("state", "removed", "closed")],
        run.trial.supervision.update(deadline="trial", exit_code=None, signal=9),  # type: ignore[union-attr]
    ),
    "a container that was gone already": put("removed", {"role": "agent"}, outcome="absent"),
}


@MAKE
@pytest.mark.parametrize("name", TRUE)
def test_what_an_honest_attendant_writes_is_no_false_alarm(name: str, make: Make, tmp_path: Path) -> None:
    run = make()
    TRUE[name](run)
    found = judged(run, tmp_path)
    assert found.code == "passed.reward_1", found.detail


def test_a_version_that_is_known_only_after_the_set_up_was_cancelled_is_no_false_alarm(tmp_path: Path) -> None:
    run = passing_run(1)
    run.trial.end_after_agent()
    run.trial.drop("exec", purpose="agent")
    version = run.trial.events.pop(index(run, "agent_version"))
    killed = {"event": "killed_others", "remaining": 0, "role": "agent", "at": version["at"], "mono": version["mono"]}
    run.trial.events += [killed, {**version, "version": None}]
    run.trial.result = None
    run.run["cancel_requested_at"] = version["at"]
    run.trial.supervision.update(cancel_requested=True, exit_code=None, signal=15)  # type: ignore[union-attr]
    assert judged(run, tmp_path).code == "cancelled.requested"


def test_the_record_is_read_up_to_what_the_attendant_writes_at_most() -> None:
    assert observed.MAX_EVENTS == MAX_LINES


def test_no_agent_works_once_the_verifier_was_opened() -> None:
    """Also when it never worked before, so that nothing else is out of its course."""
    events = passing_run(1).trial.events
    first = [event for event in events if event["event"] == "launched" or event["role"] == "verifier"]
    opened = next(event for event in events if event["event"] == "opened" and event["role"] == "agent")
    lines = [canonical({**event, "seq": number}) + b"\n" for number, event in enumerate([*first, opened])]
    found = list(deviations(observed.parse(b"".join(lines)), environment_course(("/app/output", "/logs/artifacts"))))
    assert found == [f"line {len(first)}: the agent's container after the next was opened"]
