"""All 115 folders against what the published importer made of them: equal, but for differences with a known reason."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence.imports.description import ExperimentReport, JobReport, TrialReport
from evidence.imports.identity import case_id, checkpoint_id, experiment_id, suite_id
from evidence.imports.job import read_job
from evidence.imports.outcomes import ReportedOutcome
from evidence.imports.trial import Rule
from tests.experiments.jobs import oracle

# Why a difference is right: the oracle's known faults, and what our contract decides otherwise.
REASONS = {
    "planted": "the oracle believes a result.json that lies deeper down",
    "unreadable": "the oracle leaves a trial without a readable result out, and counts the job as complete without it",
    "unbegun": "the oracle counts running, killed and resumed jobs as complete",
    "changed": "the oracle drops a whole candidate for one changed task",
    "no_job_result": "the oracle reads no job without its own result.json",
    "usage": "the oracle mixes sources of usage, and takes a reported zero for nothing",
    "unknown_trajectory": "the oracle takes usage from a trajectory of a version that is not known",
    "regrade": "the oracle counts the tokens of a regraded trial twice",
    "not_valid": "the oracle ignores reward_valid",
    "unnamed_reward": "the oracle's own library refuses a reward without a name, and its trial with it",
}


def test_every_folder_agrees_but_for_differences_with_a_known_reason(jobs: Path) -> None:
    found: Counter[str] = Counter()
    unexplained = []
    for name, told in oracle().items():
        for options, run in told["runs"].items():
            report = read_job(jobs / name, Rule(**run["options"]))
            for where, what, reason in differences(report, run):
                print(f"{name} ({options}) {where}: {what}: {REASONS.get(reason, 'NO REASON')}")
                found[reason] += 1
                if reason not in REASONS:
                    unexplained.append((name, options, where, what))
    assert not unexplained
    # What is no difference any more needs no reason; and no fault may hide behind one.
    assert dict(found) == {
        "planted": 32, "unreadable": 46, "unbegun": 20, "changed": 28, "no_job_result": 24, "usage": 42,
        "unknown_trajectory": 12, "regrade": 12, "not_valid": 2, "unnamed_reward": 24,
    }  # fmt: skip


def differences(report: JobReport, run: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Where, what and why ours is not the oracle's."""
    ours = {identity(report, part): part for part in report.experiments}
    trials = {trial.folder: (key, part, trial) for key, part in ours.items() for trial in part.trials}
    for theirs in run["trials"]:
        key, part, trial = trials.pop(theirs["dir"], (None, None, None))
        if key is None or part is None or trial is None:
            yield theirs["dir"], "only theirs", "planted" if theirs["dir"] in planted_folders(report) else ""
            continue
        for what, mine, other in compared(key, part, trial, theirs):
            if mine != other:
                yield trial.folder, f"{what} is {mine!r}, not {other!r}", why(what, trial)
    for _, _, trial in trials.values():
        yield trial.folder, f"only ours ({trial.outcome})", why_only_ours(report, trial)
    for theirs in run["experiments"]:
        part = ours.pop(theirs["experiment_id"], None)
        if part is None:
            yield theirs["experiment_id"], "only theirs", ""
            continue
        for what, mine, other in compared_experiments(part, theirs):
            if mine != other:
                yield theirs["experiment_id"], f"{what} is {mine!r}, not {other!r}", why_of_experiment(report, part)
    for key, part in ours.items():
        yield key, "only ours", why_only_ours(report, part.trials[0])


def identity(report: JobReport, part: ExperimentReport) -> str:
    who = part.candidate
    return experiment_id(report.job_id, who.agent_name, who.model_provider, who.model_name, part.source)


def planted_folders(report: JobReport) -> set[str]:
    return {path.rpartition("/")[0] for path in report.planted}


def compared(key: str, part: ExperimentReport, trial: TrialReport, theirs: dict[str, Any]) -> Iterator[Any]:
    words = {ReportedOutcome.PASSED: "passed", ReportedOutcome.FAILED: "failed"}
    yield "experiment", key, theirs["experiment_id"]
    yield "case", case_id(suite_id(part.source), part.source, trial.case), theirs["test_case_id"]
    yield "outcome", words.get(trial.outcome, "errored"), theirs["status"]
    yield (
        "rewards",
        {each.name: each.number for each in trial.rewards},
        {name: score["value"]["number"] for name, score in theirs["rewards"].items()},
    )
    yield (
        "main reward",
        [(each.name, each.passed) for each in trial.rewards if each.main],
        [(name, score["passed"]) for name, score in theirs["rewards"].items() if score["role"] == "primary_verdict"],
    )
    for name, mine in (
        ("input_tokens", trial.usage.input_tokens),
        ("output_tokens", trial.usage.output_tokens),
        ("cost", trial.usage.cost_usd),
        ("duration_ms", trial.duration_ms),
        ("attempt", trial.attempt),
    ):
        yield name, mine, theirs[name]
    if not theirs["generations"]:  # otherwise the id is that of a conversation which the oracle made itself
        yield "conversation", trial.conversation_id, theirs["conversation_id"]


def compared_experiments(part: ExperimentReport, theirs: dict[str, Any]) -> Iterator[Any]:
    suite = suite_id(part.source)
    cases = [(case_id(suite, part.source, trial.case), trial.checksum) for trial in part.trials if trial.checksum]
    yield "suite", suite, theirs["suite_id"]
    yield "checkpoint", checkpoint_id(cases), theirs["suite_version"]
    yield "agent version", part.agent_version, theirs["candidate"].get("agent_version", "")
    yield "complete", part.complete, theirs["final_status"] == "completed"
    yield "requested", part.requested, theirs["planned_trial_count"]


def why(what: str, trial: TrialReport) -> str:
    is_usage = what in ("input_tokens", "output_tokens", "cost")
    if is_usage and trial.regraded:
        return "regrade"
    if is_usage:
        return "unknown_trajectory" if "trajectory_version" in trial.badges else "usage"
    if trial.error_type == "RewardNotValid":
        return "not_valid"
    return "unnamed_reward" if "reward_unnamed" in trial.badges else ""


def why_only_ours(report: JobReport, trial: TrialReport) -> str:
    codes = {note.code for note in report.warnings}
    if trial.outcome is ReportedOutcome.NOT_REPORTED:
        return "unreadable"
    if "changed_task" in codes:
        return "changed"
    return "no_job_result" if "job_file_not_taken" in codes else ""


def why_of_experiment(report: JobReport, part: ExperimentReport) -> str:
    if any(trial.planted for trial in part.trials):
        return "planted"
    if part.requested > len(part.trials):
        return "unbegun"
    return "unreadable" if part.count(ReportedOutcome.NOT_REPORTED) else ""
