"""The rewards that Harbor's own files hold: never believed for a trial, always believed against it.

Harbor reports a reward for an agent that never ran, so that it agrees proves nothing; where it says otherwise than the
attendant's own copy, one of both was changed afterwards.
"""

from collections.abc import Iterator
from typing import Any

from benchsite.lib.folder import Folder
from evidence.harbor.job import HarborFacts
from evidence.reading.proofs import at, mapping, sequence
from evidence.reading.rewards import MAX_REWARD_BYTES, read_reward


def contradictions(folder: Folder, base: str, harbor: HarborFacts, reward: int, key: str) -> Iterator[str]:
    """Where Harbor's files say otherwise than `reward`, 0 or 1; `base` is the job's folder, `key` the reward's."""
    if harbor.result.state != "ok":
        return
    result = harbor.result.content.get("verifier_result")
    graded = result is not None or harbor.exception_type is None
    if graded and not (list(mapping(at(result, "rewards"))) == [key] and _is(at(result, "rewards", key), reward)):
        yield "result"
    for name in harbor.folders[:1]:
        read = [
            folder.read(f"{base}/{name}/verifier/reward.{kind}", limit=MAX_REWARD_BYTES) for kind in ("json", "txt")
        ]
        copy = read_reward(read[0], read[1], key=key)
        if copy.files and copy.state.value_or_none != reward:
            yield "verifier's copy"
    for statistics in mapping(at(harbor.job_result.content, "stats", "evals")).values():
        by_value = mapping(at(statistics, "reward_stats", key))
        if any(sequence(names) and not _is(_number(value), reward) for value, names in by_value.items()):
            yield "job's result"
        means = [at(metric, "mean") for metric in sequence(at(statistics, "metrics"))]
        if any(mean is not None and not _is(mean, reward) for mean in means):
            yield "job's mean"


def unfinished(job: dict[str, Any]) -> bool:
    """Whether the job's own result says that it is not over, or that not its one trial alone was carried out."""
    counts = {"n_completed_trials": 1, "n_running_trials": 0, "n_pending_trials": 0, "n_cancelled_trials": 0}
    found = [mapping(job.get("stats")).get(name, wanted) == wanted for name, wanted in counts.items()]
    return ("finished_at" in job and job["finished_at"] is None) or not all(found)


def _is(value: Any, reward: int) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == reward


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
