"""Whatever a confused or hostile host changes so that another task, agent, model, limit, network, grading program or
container is behind a grade: it is named, and the trial is not evaluated."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evidence.suite.run_facts import read_run
from evidence.trial.classify import classify_trial
from runs.attendant.plan import MAX_PLAN_BYTES
from runs.outcomes.buckets import Bucket
from tests.evidence.folders import RunCase, canonical, list_files, load_run, passing_run, sha256
from tests.evidence.variants import timed_out

REAL = Path(__file__).parents[2] / "fixtures/real-run"
AGENT = "invalid_evaluation.other_agent"
CONTROLS, LIMITS = "invalid_evaluation.other_controls", "invalid_evaluation.other_limits"
TOLD, DIFFERS = "invalid_evaluation.told_differently", "harness.config_differs"
IDENTITY, REVIEWED = "integrity.trial_identity", "integrity.reviewed_files"
JOURNAL, TIMES = "integrity.journal_differs", "integrity.times_inverted"
BROKEN, COURSE = "integrity.observed_broken", "integrity.record_course"
IMAGE, NETWORK = "integrity.image_mismatch", "integrity.network_mismatch"
UNPROVED = "invalid_evaluation.proof_missing"
CHECKSUM, FOREIGN = "integrity.task_checksum", "integrity.foreign_trial"
type Change = Callable[[RunCase], object]


def put(document: str, *path: str | int, value: Any) -> Change:
    """Set one value of a document of the first trial, or of the run."""

    def change(run: RunCase) -> None:
        place = getattr(run.trial, document) if hasattr(run.trial, document) else getattr(run, document)
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value

    return change


def gone(document: str, *path: str | int) -> Change:
    def change(run: RunCase) -> None:
        place = getattr(run.trial, document)
        for part in path[:-1]:
            place = place[part]
        del place[path[-1]]

    return change


def everywhere(name: str, value: Any, *path: str | int) -> Change:
    """Harbor was told something else and took it over: all of its files agree, and only the spec tells."""

    def change(run: RunCase) -> None:
        trial = run.trial
        jobs = [trial.told, trial.job_config]
        trials = [trial.config, trial.result["config"], trial.lock, trial.job_lock["trials"][0]]
        for section in [
            *(job[f"{name}s"][0] if name == "agent" else job[name] for job in jobs),
            *(t[name] for t in trials),
        ]:
            for part in path[:-1]:
                section = section[part]
            section[path[-1]] = value

    return change


def opened(role: str, **changes: Any) -> Change:
    return lambda run: run.trial.event("opened", role=role).update(changes)


def networks(run: RunCase) -> list[str]:
    return [each["resource_id"] for each in run.journal["resources"] if each["role"] == "network"]


def limit(role: str, name: str, value: Any) -> Change:
    return lambda run: run.trial.event("opened", role=role)["limits"].update({name: value})


def sent(purpose: str, change: Callable[[dict[str, Any]], object]) -> Change:
    return lambda run: change(run.trial.event("transfer", purpose=purpose, direction="upload"))


def one_entry(**changes: Any) -> Callable[[dict[str, Any]], object]:
    return lambda transfer: list_files(transfer, [{**transfer["entries"][0], **changes}, *transfer["entries"][1:]])


def one_less(transfer: dict[str, Any]) -> None:
    list_files(transfer, transfer["entries"][:-1])


def one_more(transfer: dict[str, Any]) -> None:
    list_files(transfer, [*transfer["entries"], {"path": "conftest.py", "size": 1, "sha256": "0" * 64}])


def again(transfer: dict[str, Any]) -> None:
    list_files(transfer, [*transfer["entries"], transfer["entries"][0]])


def journaled(role: str, **changes: Any) -> Change:
    """The first resource of that role in the journal."""
    return lambda run: next(each for each in run.journal["resources"] if each["role"] == role).update(changes)


def probe(session: str | None, image: str) -> Change:
    """The first probe, as one of that session from the image of that role, or from one that nobody knows."""

    def change(run: RunCase) -> None:
        found = next(each for each in run.journal["resources"] if each["role"] == "probe")
        found.update(session_id=session, image_id=run.spec["images"].get(image, "sha256:" + "0" * 64))

    return change


def twice(role: str) -> Change:
    return lambda run: run.trial.events.append(dict(run.trial.event("opened", role=role)))


def other_process(run: RunCase) -> None:
    run.journal["processes"][0]["start_ticks"] += 1


def owned_too(**changes: Any) -> Change:
    """The journal has one more resource, like the first of its role."""

    def change(run: RunCase) -> None:
        like = next(each for each in run.journal["resources"] if each["role"] == changes["role"])
        run.journal["resources"].append({**like, "nonce": "ab" * 16, "resource_id": "9" * 64, **changes})

    return change


def event(name: str, role: str, **changes: Any) -> Change:
    return lambda run: run.trial.event(name, role=role).update(changes)


def more_answers_than_steps(run: RunCase) -> None:
    run.spec["controls"]["max_steps"] = len(run.lines_of(1)) - 1
    steps = run.spec["controls"]["max_steps"]
    everywhere("agent", steps, "kwargs", "config", "agent", "step_limit")(run)


def renamed_folder(run: RunCase) -> None:
    before, run.trial.folder = f"job/{run.trial.folder}/", "task__OtHeR00"
    moved = {path.replace(before, "job/task__OtHeR00/"): data for path, data in run.trial.extra.items()}
    run.trial.extra = moved


def manifest_of(**changes: Any) -> Change:
    return lambda run: run.manifest.update(changes)


def reviewed_otherwise(run: RunCase) -> None:
    """The spec names a manifest in which this task is another one."""
    run.manifest["tasks"][0]["checksum"] = "0" * 64
    run.spec["bundle"]["manifest_sha256"] = sha256(canonical(run.manifest))


def no_job_result(value: Any) -> Change:
    return lambda run: setattr(run.trial, "job_result", value)


def no_plan(value: Any) -> Change:
    return lambda run: setattr(run.trial, "plan", value)


def no_config(value: Any) -> Change:
    return lambda run: setattr(run.trial, "config", value)


def other_place(run: RunCase) -> None:
    """Everything lies where another run's would."""
    run.trial.told["jobs_dir"] = run.trial.told["jobs_dir"].replace("/runs/", "/elsewhere/0")


ALTERED: dict[str, tuple[Change, str]] = {
    # What was opened
    "agent with more memory": (limit("agent", "memory_bytes", 2**34), LIMITS),
    "agent without a bound of processes": (limit("agent", "pids", -1), LIMITS),
    "agent with more CPUs": (limit("agent", "cpus", 1.5), LIMITS),
    "agent with a bit more CPU": (limit("agent", "cpus", 1.00001), LIMITS),
    "agent with CPUs as a text": (limit("agent", "cpus", "1"), BROKEN),
    "agent with limits that the engine did not apply": (
        opened("agent", warnings=["Your kernel does not support memory limit capabilities. Limitation discarded."]),
        LIMITS,
    ),
    "agent with a larger folder": (limit("agent", "tmpfs", {"/tmp": 2**40}), LIMITS),
    "agent with a limit that nobody confirmed": (limit("agent", "swap", 1), BROKEN),
    "verifier with more files": (limit("verifier", "nofile", 2**20), LIMITS),
    "agent in another network": (opened("agent", network="host"), NETWORK),
    "agent without a network": (opened("agent", network=None), NETWORK),
    "verifier with a network": (opened("verifier", network="bridge"), NETWORK),
    "agent in the run's outer network": (
        lambda run: opened("agent", network=networks(run)[1])(run),
        NETWORK,
    ),
    "another agent container": (opened("agent", container_id="7" * 64), IDENTITY),
    "another verifier container": (opened("verifier", container_id="7" * 64), IDENTITY),
    "the agent's container as verifier": (
        lambda run: opened("verifier", container_id=run.trial.event("opened", role="agent")["container_id"])(run),
        IDENTITY,
    ),
    "the verifier's session as agent": (opened("agent", session_id="task__AbCdEfG__verifier__trial"), IDENTITY),
    "a session of another trial": (opened("agent", session_id="task__OtHeR00__env"), IDENTITY),
    "no session": (opened("verifier", session_id=""), IDENTITY),
    "an agent container more": (twice("agent"), "integrity.duplicate_trial"),
    "a verifier container more": (twice("verifier"), "integrity.duplicate_trial"),
    "another journaled agent image": (journaled("agent", image_id="sha256:" + "0" * 64), IMAGE),
    "another journaled verifier image": (journaled("verifier", image_id="sha256:" + "0" * 64), IMAGE),
    # What serves the whole run
    "another gateway image": (journaled("gateway", image_id="sha256:" + "0" * 64), IMAGE),
    "another probe image": (journaled("probe", image_id="sha256:" + "0" * 64), IMAGE),
    "another image of a mark's probe": (probe("image-mark-gateway", "none"), IMAGE),
    "the verifier's image for the agent's mark": (probe("image-mark-agent", "verifier"), IMAGE),
    "the agent's image for a probe of no mark": (probe(None, "agent"), IMAGE),
    "the agent's image for a probe of an unknown mark": (probe("image-mark-x", "agent"), IMAGE),
    "another gateway": (put("run", "gateway", "container_id", value="0" * 64), "integrity.run_identity"),
    "another process": (other_process, IDENTITY),
    "more answers than steps": (more_answers_than_steps, CONTROLS),
    # The reviewed files
    "no manifest": (manifest_of(schema="x"), "integrity.manifest_mismatch"),
    "a manifest with other tasks": (manifest_of(tasks=[]), "integrity.manifest_mismatch"),
    "a manifest of another task": (reviewed_otherwise, CHECKSUM),
    "another grading program": (sent("tests", one_entry(sha256="0" * 64)), REVIEWED),
    "a renamed grading program": (sent("tests", one_entry(path="test2.sh")), REVIEWED),
    "another size": (sent("tests", one_entry(size=10**6)), REVIEWED),
    "a grading file less": (sent("tests", one_less), REVIEWED),
    "a grading file more": (sent("tests", one_more), REVIEWED),
    "a grading file twice": (sent("tests", again), BROKEN),
    "grading files in another place": (sent("tests", lambda transfer: transfer.update(path="/tmp")), REVIEWED),
    "another input for the agent": (sent("environment", one_entry(sha256="0" * 64)), REVIEWED),
    "the solution for the agent": (sent("environment", one_more), REVIEWED),
    "inputs in another place": (sent("environment", lambda transfer: transfer.update(path="/root")), REVIEWED),
    "no input for the agent": (lambda run: run.trial.drop("transfer", purpose="environment"), UNPROVED),
    "input for the agent that did not arrive": (
        sent("environment", lambda transfer: transfer.update(direction="download")),
        BROKEN,
    ),
    # What Harbor made of it
    "other files than Harbor hashed": (put("lock", "task", "digest", value="sha256:" + "0" * 64), CHECKSUM),
    "other files in the job's lock": (
        put("job_lock", "trials", 0, "task", "digest", value="sha256:" + "0" * 64),
        CHECKSUM,
    ),
    "another task in the lock": (put("lock", "task", "name", value="task-9"), FOREIGN),
    "another task in the job's lock": (put("job_lock", "trials", 0, "task", "name", value="x"), FOREIGN),
    "a result of another name": (put("result", "trial_name", value="x"), IDENTITY),
    "a result's config of another name": (put("result", "config", "trial_name", value="x"), IDENTITY),
    "a config of another name": (put("config", "trial_name", value="x"), IDENTITY),
    "a folder of another name": (renamed_folder, IDENTITY),
    "a result of another job": (put("result", "config", "job_id", value="x"), IDENTITY),
    "a config of another job": (put("config", "job_id", value="x"), IDENTITY),
    "the result of another job": (put("job_result", "id", value="x"), IDENTITY),
    "two trials in the job": (put("job_result", "n_total_trials", value=2), CONTROLS),
    "a trial that was retried": (put("job_result", "stats", "n_retries", value=1), CONTROLS),
    "a graded trial of another name": (
        put("job_result", "stats", "evals", value={"x": {"reward_stats": {"reward": {"1": ["x"]}}}}),
        FOREIGN,
    ),
    "a failed trial of another name": (
        put("job_result", "stats", "evals", value={"x": {"exception_stats": {"ValueError": ["x"]}}}),
        FOREIGN,
    ),
    "a result of the job that says nothing": (no_job_result({}), "harness.result_unreadable"),
    "a config of the trial that says nothing": (no_config({}), DIFFERS),
    "a job that is not over": (put("job_result", "finished_at", value=None), "harness.result_unreadable"),
    "a job with a trial that runs": (
        put("job_result", "stats", "n_running_trials", value=1),
        "harness.result_unreadable",
    ),
    "a job with two trials that ended": (
        put("job_result", "stats", "n_completed_trials", value=2),
        "harness.result_unreadable",
    ),
    "the oracle was the agent": (put("result", "agent_info", "name", value="oracle"), AGENT),
    "an agent of another version": (put("result", "agent_info", "version", value="0"), AGENT),
    "an agent that Harbor does not name": (put("result", "agent_info", value=None), AGENT),
    "another model": (put("result", "agent_info", "model_info", "name", value="x"), CONTROLS),
    "graded before the agent ended": (
        lambda run: run.trial.result["agent_execution"].update(
            finished_at=run.trial.result["verifier"]["finished_at"]
        ),
        TIMES,
    ),
    "a phase at no time": (put("result", "verifier", "started_at", value="soon"), TIMES),
    "a phase at a number": (put("result", "agent_execution", "finished_at", value=5), TIMES),
    "a second trial's folder that is empty": (
        lambda run: run.trial.empty.append("job/task__OtHeR00"),
        "integrity.duplicate_trial",
    ),
    "a second trial's folder behind a thousand names": (
        lambda run: (
            run.trial.extra.update({f"job/{number:04}.txt": b"" for number in range(1000)}),
            run.trial.empty.append("job/task__OtHeR00"),
        ),
        "integrity.duplicate_trial",
    ),
    "no result of the job": (no_job_result(None), "harness.result_unreadable"),
    "a cut result of the job": (no_job_result(b'{"id": '), "harness.result_unreadable"),
    "no config of the trial": (no_config(None), DIFFERS),
    "a config of the trial that is a list": (no_config([]), DIFFERS),
    "a trial's config with another task": (put("config", "task", "path", value="/elsewhere/tasks/x"), DIFFERS),
    "a trial's config with another agent": (put("config", "agent", "name", value="oracle"), DIFFERS),
    "a trial's config with a model argument": (
        put("config", "agent", "kwargs", "config", "model", "model_kwargs", "max_retries", value=3),
        DIFFERS,
    ),
    "a trial's config with a multiplier": (put("config", "agent_timeout_multiplier", value=4.0), DIFFERS),
    "a trial's config in another place": (put("config", "trials_dir", value="/elsewhere"), DIFFERS),
    "a trial's config with something new": (put("config", "oracle", value=True), DIFFERS),
    "a trial's config without the verifier's limit": (gone("config", "verifier", "override_timeout_sec"), DIFFERS),
    "a trial's config with more instructions": (put("config", "extra_instructions", value=["cheat"]), DIFFERS),
    "a trial's config that begins from another trial": (put("config", "source_trial", value={"id": "x"}), DIFFERS),
    "a result's config with another address": (
        put("result", "config", "agent", "env", value={"OPENAI_BASE_URL": "http://elsewhere.test/v1"}),
        DIFFERS,
    ),
    # What Harbor and the attendant were told
    "told of another address": (everywhere("agent", "http://elsewhere.test/v1", "env", "OPENAI_BASE_URL"), TOLD),
    "told more attempts of the model": (
        everywhere("agent", 3, "kwargs", "config", "model", "model_kwargs", "max_retries"),
        TOLD,
    ),
    "told to wait longer": (everywhere("agent", 9999, "kwargs", "config", "model", "model_kwargs", "timeout"), TOLD),
    "told to drop what the model does not know": (
        everywhere("agent", True, "kwargs", "config", "model", "model_kwargs", "drop_params"),
        TOLD,
    ),
    "told a longer limit of the agent": (everywhere("agent", 9999.0, "max_timeout_sec"), TOLD),
    "told a longer limit of the verifier": (everywhere("verifier", 9999.0, "max_timeout_sec"), TOLD),
    "told of more hosts": (everywhere("agent", ["elsewhere.test"], "extra_allowed_hosts"), TOLD),
    "told of another plan": (everywhere("environment", {"plan": "/elsewhere/environment.json"}, "kwargs"), TOLD),
    "told a key": (put("told", "agents", 0, "env", "OPENAI_API_KEY", value="sk-real"), TOLD),
    "told another place": (other_place, TOLD),
    "told a place that is none": (put("told", "jobs_dir", value=5), TOLD),
    "told two agents": (lambda run: run.trial.told["agents"].append(dict(run.trial.told["agents"][0])), TOLD),
    "no plan": (no_plan(None), TOLD),
    "a plan that is no object": (no_plan([]), TOLD),
    "a probe that says that it passed though a check did not hold": (
        lambda run: run.run["probe"]["checks"][3].update(passed=False),
        UNPROVED,
    ),
    "a probe without one of its checks": (lambda run: run.run["probe"]["checks"].pop(2), UNPROVED),
    "a probe with a check twice": (
        lambda run: run.run["probe"]["checks"].append(dict(run.run["probe"]["checks"][0])),
        UNPROVED,
    ),
    "a probe without checks": (put("run", "probe", "checks", value=[]), UNPROVED),
    "a probe that did not pass": (put("run", "probe", "passed", value=False), UNPROVED),
    "no gateway was recorded": (put("run", "gateway", value=None), UNPROVED),
    "no end of the run": (put("run", "ended_at", value=None), UNPROVED),
    "a run of another time": (put("run", "ended_at", value="2026-01-01T00:00:00.000000Z"), TIMES),
    "a run that began after its trial": (
        lambda run: run.run.update(started_at=run.trial.supervision["ended_at"]),  # type: ignore[index]
        "integrity.ledger_times",
    ),
    "a trial after its run": (
        lambda run: run.trial.supervision.update(ended_at="2099-01-01T00:00:00.000000Z"),  # type: ignore[union-attr]
        TIMES,
    ),
    "a trial of another boot": (
        lambda run: run.trial.supervision.update(mono_started=1e9, mono_ended=2e9),  # type: ignore[union-attr]
        TIMES,
    ),
    "a record of another time": (
        lambda run: run.trial.events[-1].update(at="2030-01-01T00:00:00.000000Z"),
        TIMES,
    ),
    # What the run owned
    "no fence": (lambda run: run.journal.update(fence=None), JOURNAL),
    "a second agent container": (owned_too(role="agent", trial=1, session_id="task__AbCdEfG__env"), JOURNAL),
    "a second verifier container": (
        owned_too(role="verifier", trial=1, session_id="task__AbCdEfG__verifier__trial"),
        JOURNAL,
    ),
    "an agent of no trial": (owned_too(role="agent", trial=None, session_id="x__env"), JOURNAL),
    "an agent of a ninth trial": (owned_too(role="agent", trial=9, session_id="x__env"), FOREIGN),
    "a probe of a trial": (owned_too(role="probe", trial=1, session_id=None), JOURNAL),
    "no probe": (
        lambda run: run.journal.update(resources=[r for r in run.journal["resources"] if r["role"] != "probe"]),
        JOURNAL,
    ),
    "a second gateway": (owned_too(role="gateway", trial=None, session_id=None), JOURNAL),
    "a third network": (
        owned_too(role="network", kind="network", trial=None, session_id=None, image_id=None),
        JOURNAL,
    ),
    "an agent without a session": (journaled("agent", session_id=None), JOURNAL),
    "an agent of the verifier's session": (journaled("agent", session_id="x__verifier__trial"), JOURNAL),
    "an agent without an image": (journaled("agent", image_id=None), JOURNAL),
    "a process of no trial": (lambda run: run.journal["processes"][-1].update(trial=None), JOURNAL),
    "three processes": (
        lambda run: run.journal["processes"].extend(
            {**run.journal["processes"][0], "pid": pid} for pid in (7001, 7002, 7003)
        ),
        JOURNAL,
    ),
    "removed by somebody else": (event("removed", "agent", outcome="foreign"), JOURNAL),
    "not removed, and nobody tried again": (event("removed", "verifier", outcome="unknown"), JOURNAL),
    "removed, and still there": (journaled("verifier", stage="foreign", outcome="foreign"), JOURNAL),
    "a plan of another schema": (put("plan", "schema", value="x"), TOLD),
    "a plan of another run": (put("plan", "run_id", value="0" * 32), TOLD),
    "a plan of another trial": (put("plan", "trial", value=2), TOLD),
    "a plan of another task": (put("plan", "task", value="x"), TOLD),
    "a plan with another journal": (put("plan", "journal_directory", value="/elsewhere"), TOLD),
    "a plan with another placeholder": (put("plan", "placeholder", value="benchsite-placeholder-" + "1" * 32), TOLD),
    "a plan with another image": (put("plan", "roles", "verifier", "image_id", value="sha256:0"), TOLD),
    "a plan with another limit": (put("plan", "roles", "agent", "pids", value=9), TOLD),
    "a plan with a secret": (put("plan", "roles", "agent", "env", value={"KEY": "x"}), TOLD),
    "a plan with a network for the verifier": (put("plan", "roles", "verifier", "network_id", value="x"), TOLD),
    "a plan with another network": (put("plan", "roles", "agent", "network_id", value="x"), TOLD),
    "a plan with another gateway": (put("plan", "roles", "agent", "gateway_host", value="elsewhere"), TOLD),
    "a plan with a command": (put("plan", "roles", "agent", "command", value=["sh"]), TOLD),
    "a plan with other bounds": (put("plan", "bounds", "transfer_bytes", value=1), TOLD),
    "a plan with a gateway at no address": (put("plan", "roles", "agent", "gateway_ip", value="x"), TOLD),
    "a plan with a gateway elsewhere": (put("plan", "roles", "agent", "gateway_ip", value="8.8.8.8"), TOLD),
    "a plan with a network of another name": (put("plan", "roles", "agent", "network_name", value="bridge"), TOLD),
    "a plan with something new": (put("plan", "oracle", value=True), TOLD),
    "a plan with one role more": (put("plan", "roles", "oracle", value={}), TOLD),
    "a plan with one role less": (gone("plan", "roles", "verifier"), TOLD),
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        put("plan", "conduct", "agent", "exclusive", value=False),
        put("plan", "conduct", "verifier", "uploads", "solution", value="/tests"),
        gone("plan", "conduct"),
        put("plan", "deadlines", "agent", value=5),
    ],
)
def test_a_plan_that_lets_more_be_done_with_its_containers_is_named(change: Change, tmp_path: Path) -> None:
    run = passing_run(1)
    change(run)
    assert classify_trial(read_run(run.write(tmp_path / "run")).trials[0]).code == TOLD


@pytest.mark.parametrize("make", [lambda: passing_run(1), lambda: load_run(REAL)], ids=["synthetic", "real"])
@pytest.mark.parametrize("name", ALTERED)
def test_what_was_altered_is_named_and_never_evaluated(name: str, make: Callable[[], RunCase], tmp_path: Path) -> None:
    change, code = ALTERED[name]
    run = make()
    change(run)
    judged = classify_trial(read_run(run.write(tmp_path / "run")).trials[0])
    assert (judged.bucket, judged.code) == (Bucket.ERROR, code), judged.detail


def _stopped_early(run: RunCase) -> None:
    run.run["cancel_requested_at"] = run.trial.events[1]["at"]
    run.trial.supervision.update(cancel_requested=True, exit_code=None, signal=15)  # type: ignore[union-attr]
    run.trial.end_after_agent()
    run.trial.result = None
    run.trial.lock = None


TRUE: dict[str, tuple[Change, str]] = {
    "as it was": (lambda run: None, "passed.reward_1"),
    "CPUs as the engine rounds them": (
        lambda run: limit("agent", "cpus", run.spec["limits"]["agent"]["cpus"] - 1e-9)(run),
        "passed.reward_1",
    ),
    "as many answers as steps": (
        lambda run: everywhere("agent", len(run.lines_of(1)), "kwargs", "config", "agent", "step_limit")(run)
        or run.spec["controls"].update(max_steps=len(run.lines_of(1))),
        "passed.reward_1",
    ),
    "a default that Harbor leaves out of the trial's config": (
        lambda run: run.trial.config.pop("install_only", None),
        "passed.reward_1",
    ),
    "a default that Harbor writes into the trial's config": (
        put("config", "agent", "load_trajectory", value=None),
        "passed.reward_1",
    ),
    "the order of the files": (sent("tests", lambda transfer: transfer["entries"].reverse()), "passed.reward_1"),
    "a container that was removed at the second attempt": (
        lambda run: (
            run.trial.event("removed", role="verifier").update(outcome="unknown"),
            journaled("verifier", attempts=2)(run),
        ),
        "passed.reward_1",
    ),
    "stopped before the job's result": (
        lambda run: (_stopped_early(run), no_job_result(b'{"id')(run)),
        "cancelled.requested",
    ),
    "stopped at a limit after the grade, with a cut job's result": (
        lambda run: (
            run.trial.supervision.update(deadline="trial", exit_code=None, signal=9),  # type: ignore[union-attr]
            no_job_result(b'{"id')(run),
        ),
        "passed.reward_1",
    ),
    "no container was opened": (
        lambda run: (
            run.never_started(1),
            run.run.update(interrupted=True),
        ),
        "worker_runtime.interrupted",
    ),
}  # fmt: skip


@pytest.mark.parametrize("make", [lambda: passing_run(1), lambda: load_run(REAL)], ids=["synthetic", "real"])
@pytest.mark.parametrize("name", TRUE)
def test_what_means_nothing_is_no_false_alarm(name: str, make: Callable[[], RunCase], tmp_path: Path) -> None:
    change, code = TRUE[name]
    run = make()
    change(run)
    judged = classify_trial(read_run(run.write(tmp_path / "run")).trials[0])
    assert judged.code == code, judged.detail


def test_the_process_of_another_trial_is_not_this_ones(tmp_path: Path) -> None:
    run = load_run(REAL)
    run.journal["processes"][0]["trial"] = 3
    assert classify_trial(read_run(run.write(tmp_path / "run")).trials[0]).code == IDENTITY


def test_a_verifier_that_stood_ready_while_a_stopped_agent_ran_is_none_too_many(tmp_path: Path) -> None:
    run = passing_run(1)
    timed_out("agent", "AgentTimeoutError")(run)
    owned_too(role="verifier", trial=1, session_id="task__AbCdEfG__verifier__trial")(run)
    assert classify_trial(read_run(run.write(tmp_path / "run")).trials[0]).code == "incomplete.agent_deadline"


def test_a_manifest_that_cannot_be_read_is_not_the_confirmed_one(tmp_path: Path) -> None:
    folder = passing_run(1).write(tmp_path / "run")
    for data in (b"", b"{", b'{"a":1,"a":2}', json.dumps([1]).encode(), b" " * (256 * 1024 + 1)):
        (folder / "manifest.json").write_bytes(data)
        assert classify_trial(read_run(folder).trials[0]).code == "integrity.manifest_mismatch"
    (folder / "manifest.json").unlink()
    assert classify_trial(read_run(folder).trials[0]).code == "integrity.manifest_mismatch"


def test_a_manifest_of_the_largest_size_is_read(tmp_path: Path) -> None:
    folder = passing_run(1).write(tmp_path / "run")
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes().ljust(256 * 1024))
    assert classify_trial(read_run(folder).trials[0]).code == "passed.reward_1"


def test_what_was_told_is_read_up_to_what_an_attendant_reads(tmp_path: Path) -> None:
    folder = passing_run(1).write(tmp_path / "run")
    path = folder / "trials/1/environment.json"
    path.write_bytes(path.read_bytes().ljust(MAX_PLAN_BYTES))
    assert classify_trial(read_run(folder).trials[0]).code == "passed.reward_1"
    path.write_bytes(path.read_bytes() + b" ")
    assert classify_trial(read_run(folder).trials[0]).code == TOLD


def test_a_task_without_inputs_needs_none_to_be_sent(tmp_path: Path) -> None:
    run = passing_run(1)
    task = run.manifest["tasks"][0]
    task["files"] = [file for file in task["files"] if not file["path"].startswith("environment/")]
    run.spec["bundle"]["manifest_sha256"] = sha256(canonical(run.manifest))
    run.trial.drop("transfer", purpose="environment")
    assert classify_trial(read_run(run.write(tmp_path / "run")).trials[0]).code == "passed.reward_1"


def test_a_journal_that_cannot_be_read_has_its_own_code(tmp_path: Path) -> None:
    folder = passing_run(1).write(tmp_path / "run")
    (folder / "journal.json").write_text("{")
    facts = read_run(folder)
    failed = {check.code for check in facts.trials[0].checks if not check.ok}
    assert failed == {"integrity.journal_unreadable"}
