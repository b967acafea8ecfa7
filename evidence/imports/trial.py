"""One trial's folder as it was left by Harbor: what its own result says, and nothing that lies deeper than that."""

import json
from dataclasses import dataclass
from typing import Any

from benchsite.lib.folder import FileState, Folder, printable
from evidence.imports.description import Candidate, FileEntry, Reward, TrialReport, Usage
from evidence.imports.documents import MAX_FILE_BYTES, JsonFile, mapping, matches, read_json, sequence, text
from evidence.imports.outcomes import ReportedOutcome
from evidence.imports.rewards import RawRewards, numbers
from evidence.imports.usage import usage_of
from evidence.reading.clocks import moment
from evidence.trajectory.atif import VERSIONS

RESULT_VERSIONS = (1,)
# Exceptions of the agent that void no grade: what it had done when it ended was graded, and counts in every version.
KEPT_EXCEPTIONS = ("AgentTimeoutError", "NonZeroAgentExitCodeError")
MAX_FILES = 2_000
LONGEST = 255
LONGEST_ERROR = 2_000
MAX_STEPS = 100
_PHASES = ("environment_setup", "agent_setup", "agent_execution", "verifier")
_MULTIPLIERS = (
    "timeout_multiplier", "agent_timeout_multiplier", "verifier_timeout_multiplier", "agent_setup_timeout_multiplier",
    "environment_build_timeout_multiplier",
)  # fmt: skip
_RESOURCES = ("override_cpus", "override_memory_mb", "override_storage_mb", "override_gpus", "override_tpu")


@dataclass(frozen=True, slots=True)
class Rule:
    """What decides whether a trial passed: the main reward's name, and the least that passes."""

    main_reward: str = "reward"
    pass_threshold: float = 1.0


@dataclass(frozen=True, slots=True)
class ReadTrial:
    """A trial with what assigns it: the candidate when its result tells it; else the agent and task of its config."""

    report: TrialReport
    candidate: Candidate | None
    agent: tuple[str, str]
    arguments: str
    task: str
    job_id: str


def agent_of(config: dict[str, Any]) -> tuple[str, str]:
    """The agent of a configuration, of a trial or of a lock, as it was named there, and its model."""
    agent = mapping(config.get("agent"))
    return text(agent.get("name")) or text(agent.get("import_path")), text(agent.get("model_name"))


def task_of(config: dict[str, Any]) -> str:
    """What a configuration says about its task, as one text: equal for attempts at the same task."""
    return json.dumps(mapping(config.get("task")), sort_keys=True)


def read_trial(folder: Folder, name: str, rule: Rule) -> ReadTrial | None:
    """The trial in the folder `name` below a job; None when neither its result nor its config is of such a trial."""
    result = read_json(folder, f"{name}/result.json", versions=RESULT_VERSIONS)
    kept = read_json(folder, f"{name}/config.json", versions=RESULT_VERSIONS)
    config = mapping(result.content.get("config")) or kept.content
    told, configured = (text(document.get("trial_name")) for document in (result.content, kept.content))
    if (told or configured) and not any(found and matches(found, name) for found in (told, configured)):
        return None
    if not told and not configured and result.missing and kept.missing:
        return None  # a folder of something else
    listed = _files(folder, name)
    wrong = _malformed(result)
    if told and not matches(told, name):
        wrong = "result.json is another trial's"
    if wrong:
        return _not_reported(folder, name, wrong, config, listed, never_ended=result.missing)
    return _reported(folder, name, result.content, config, listed, rule)


def _malformed(result: JsonFile) -> str:
    """Why nothing is known of how the trial ended; empty when its result has Harbor's form."""
    if result.missing:
        return "it has no result.json: it was never ended"
    if result.trouble:
        return f"result.json was not taken: {result.reason}"
    content = result.content
    agent, model = content.get("agent_info"), mapping(content.get("agent_info")).get("model_info")
    if not text(content.get("trial_name")):
        return "result.json has no trial_name"
    if not _is_name(content.get("task_name")):
        return "result.json has no task_name of 1 to 255 characters"
    if content.get("source") is not None and not _fits(content.get("source")):
        return "the source in result.json is no text of at most 255 characters"
    if not isinstance(agent, dict) or not _is_name(agent.get("name")):
        return "result.json names no agent"
    if model is not None and not (
        isinstance(model, dict)
        and _fits(model.get("name"))
        and (model.get("provider") is None or _fits(model.get("provider")))
    ):
        return "the model in result.json is none"
    if not _is_name(content.get("task_checksum")):
        return "result.json has no task_checksum"
    return ""


def _not_reported(
    folder: Folder, name: str, wrong: str, config: dict[str, Any], listed: "_Listed", *, never_ended: bool
) -> ReadTrial:
    lock = read_json(folder, f"{name}/lock.json").content
    task = mapping(config.get("task"))
    path = text(task.get("path")).rstrip("/").rpartition("/")[2]
    case = text(mapping(lock.get("task")).get("name")) or text(task.get("name")) or path or name
    report = TrialReport(
        folder=name,
        case=case[:LONGEST],
        source=text(task.get("source"))[:LONGEST],
        checksum="",
        outcome=ReportedOutcome.NOT_REPORTED,
        error_type="NeverEnded" if never_ended else "UnreadableResult",
        error=wrong,
        badges=tuple(sorted(listed.badges)),
        planted=listed.planted,
        files=listed.files,
        overrides=_overrides(config),
    )
    return ReadTrial(report, None, agent_of(config), _arguments(config), task_of(config), text(config.get("job_id")))


def _reported(
    folder: Folder, name: str, content: dict[str, Any], config: dict[str, Any], listed: "_Listed", rule: Rule
) -> ReadTrial:
    steps = [mapping(step) for step in sequence(content.get("step_results"))]
    rewards_told = mapping(content.get("verifier_result")).get("rewards")
    rewards, badges = numbers(rewards_told)
    badges |= listed.badges
    raw = RawRewards(folder, name)
    if raw.differs(rewards_told):
        badges.add("reward_differs")
    if rewards_told is None:
        rewards = numbers(raw.values)[0]  # to look at; what its own result does not say passes nothing
    trajectories, damaged = _trajectories(folder, name, steps, badges)
    error_type, error, agent_error = _error(content, steps, rewards, rewards_told, rule, badges)
    if not error:
        damage = damaged or raw.damaged
        error_type, error = ("DamagedFile", damage) if damage else ("", "")
    graded = not error
    passed = graded and rewards[rule.main_reward] >= rule.pass_threshold
    whole = content.get("agent_result")
    of_steps = [step.get("agent_result") for step in steps]
    usage, malformed = usage_of([whole] if whole is not None else of_steps, trajectories)
    if malformed:
        badges.add("usage_malformed")
    regraded = config.get("source_trial") is not None
    if regraded:
        badges.add("regraded")
    times, started, finished = _times(content, badges)
    agent, model = mapping(content.get("agent_info")), mapping(mapping(content.get("agent_info")).get("model_info"))
    report = TrialReport(
        folder=name,
        case=text(content["task_name"]),
        source=text(content.get("source")),
        checksum=text(content["task_checksum"]),
        outcome=_outcome(graded, passed),
        error_type=error_type[:LONGEST],
        error=error[:LONGEST_ERROR],
        agent_error=agent_error if graded else "",
        rewards=_rewards(rewards, rule, passed if graded else None),
        usage=Usage() if regraded else usage,
        repeated_usage=usage if regraded and usage.source else None,
        regraded=regraded,
        agent_version=text(agent.get("version"))[:LONGEST],
        started_at=started,
        finished_at=finished,
        duration_ms=_duration([content, *steps]),
        times=times,
        steps=tuple(_step(step) for step in steps[:MAX_STEPS]),
        verifier_mode=text(content.get("verifier_environment_mode"))[:LONGEST],
        overrides=_overrides(config),
        conversation_id=_conversation([content, *steps], badges),
        badges=tuple(sorted(badges)),
        planted=listed.planted,
        files=listed.files,
    )
    candidate = Candidate(text(agent["name"]), text(model.get("provider")), text(model.get("name")))
    return ReadTrial(
        report, candidate, agent_of(config), _arguments(config), task_of(config), text(config.get("job_id"))
    )


def _rewards(rewards: dict[str, float], rule: Rule, passed: bool | None) -> tuple[Reward, ...]:
    """All rewards by their names; of a trial that was not graded, none is the main one."""
    mains = {rule.main_reward} if passed is not None else set()
    return tuple(
        Reward(name, number, name in mains, passed if name in mains else None)
        for name, number in sorted(rewards.items())
    )


def _outcome(graded: bool, passed: bool) -> ReportedOutcome:
    if not graded:
        return ReportedOutcome.ERRORED
    return ReportedOutcome.PASSED if passed else ReportedOutcome.FAILED


def _error(
    content: dict[str, Any],
    steps: list[dict[str, Any]],
    rewards: dict[str, float],
    told: Any,
    rule: Rule,
    badges: set[str],
) -> tuple[str, str, str]:
    """Type and sentence of what voids the trial, both empty for a graded one; and an agent's error that voids nothing.

    One rule for every version of Harbor, so that trials compare; a badge says where Harbor itself counted otherwise.
    """
    told_of = [part.get("exception_info") for part in (content, *steps)]
    exceptions = [_exception(info) for info in told_of if info is not None]
    sentence = "; ".join(": ".join(filter(None, found)) for found in exceptions)
    voiding = [found for found in exceptions if found[0] not in KEPT_EXCEPTIONS]
    has_main = rule.main_reward in rewards and isinstance(told, dict)
    valid = content.get("reward_valid")
    if voiding or (exceptions and not has_main):
        if has_main and valid in (None, True):
            badges.add("harbor_counted_otherwise")
        return (voiding or exceptions)[0][0], sentence, ""
    if not has_main:
        if content.get("verifier_result") is None:
            return "NotGraded", f"it was not graded: {_why_not_graded(mapping(content.get('config')))}", ""
        return "NoMainReward", f"its result has no main reward {rule.main_reward!r}", ""
    if valid is not None and valid is not True:
        return "RewardNotValid", "; ".join(filter(None, (sentence, "Harbor says that its reward is not valid"))), ""
    return "", "", sentence[:LONGEST]


def _why_not_graded(config: dict[str, Any]) -> str:
    if config.get("install_only") is True:
        return "Harbor only installed the agent"
    if mapping(config.get("verifier")).get("disable") is True:
        return "the verifier was off"
    return "its result has no verifier_result"


def _exception(info: Any) -> tuple[str, str]:
    """Type and message; whatever stands there is an exception."""
    found = mapping(info)
    return text(found.get("exception_type"))[:LONGEST] or "unnamed exception", text(found.get("exception_message"))


def _trajectories(
    folder: Folder, name: str, steps: list[dict[str, Any]], badges: set[str]
) -> tuple[list[dict[str, Any]], str]:
    """The trajectories that can be read, of the trial or of each step; and why one that is there cannot be."""
    bases = [""] + [f"steps/{step_name}/" for step in steps if _is_part(step_name := step.get("step_name"))]
    found: list[dict[str, Any]] = []
    damaged = ""
    for base in bases[: MAX_STEPS + 1]:
        path = f"{base}agent/trajectory.json"
        document = read_json(folder, f"{name}/{path}", limit=MAX_FILE_BYTES)
        if document.missing:
            continue
        if document.trouble:
            damaged = damaged or f"{printable(path)} was not taken: {document.reason}"
        elif document.content.get("schema_version") in VERSIONS:
            found.append(document.content)
        else:
            badges.add("trajectory_version")
    return found, damaged


def _times(content: dict[str, Any], badges: set[str]) -> tuple[dict[str, str], Any, Any]:
    """All times as they were written, and start and end where they have a zone."""
    written = {key: text(content.get(key)) for key in ("started_at", "finished_at")}
    for phase in _PHASES:
        for key in ("started_at", "finished_at"):
            written[f"{phase}.{key}"] = text(mapping(content.get(phase)).get(key))
    written = {key: value for key, value in written.items() if value and moment(value) is not None}
    ends = [moment(written.get(key)) for key in ("started_at", "finished_at")]
    if any(end is not None and end.tzinfo is None for end in ends):
        badges.add("time_without_zone")
    aware = [end if end is not None and end.tzinfo is not None else None for end in ends]
    return written, aware[0], aware[1]


def _duration(parts: list[dict[str, Any]]) -> int | None:
    """Milliseconds of the agent's execution, over all steps; None where nothing says it."""
    total: int | None = None
    for part in parts:
        phase = mapping(part.get("agent_execution"))
        start, end = moment(phase.get("started_at")), moment(phase.get("finished_at"))
        if start is None or end is None or (start.tzinfo is None) != (end.tzinfo is None) or end < start:
            continue
        total = (total or 0) + int((end - start).total_seconds() * 1000)
    return total


def _step(step: dict[str, Any]) -> dict[str, Any]:
    error = _exception(step["exception_info"]) if step.get("exception_info") is not None else None
    return {
        "name": text(step.get("step_name"))[:LONGEST],
        "rewards": numbers(mapping(step.get("verifier_result")).get("rewards"))[0],
        "error": ": ".join(filter(None, error))[:LONGEST_ERROR] if error else "",
    }


def _conversation(parts: list[dict[str, Any]], badges: set[str]) -> str:
    told = [mapping(mapping(part.get("agent_result")).get("metadata")) for part in parts]
    values = [
        found["agento11y.conversation_id"] for found in told if found.get("agento11y.conversation_id") is not None
    ]
    names = {text(value).strip() for value in values}
    if any(not isinstance(value, str) for value in values) or any(len(name) > LONGEST for name in names):
        badges.add("conversation_malformed")
        return ""
    if len(names - {""}) > 1:
        badges.add("conversation_contradictory")
        return ""
    return next(iter(names - {""}), "")


def _overrides(config: dict[str, Any]) -> dict[str, Any]:
    """Multipliers of time-outs and overridden resources, as far as they change anything."""
    environment = mapping(config.get("environment"))
    found = {key: config.get(key) for key in _MULTIPLIERS if config.get(key) not in (None, 1.0)}
    found |= {key: environment.get(key) for key in _RESOURCES if environment.get(key) is not None}
    return {key: value for key, value in found.items() if isinstance(value, int | float | str)}


def _arguments(config: dict[str, Any]) -> str:
    return json.dumps(mapping(mapping(config.get("agent")).get("kwargs")), sort_keys=True)


@dataclass(frozen=True, slots=True)
class _Listed:
    files: tuple[FileEntry, ...]
    planted: tuple[str, ...]
    badges: set[str]


def _files(folder: Folder, name: str) -> _Listed:
    """Every file of the trial, no link followed; a result.json deeper than the trial's own is planted."""
    listing = folder.walk(name, limit=MAX_FILES)
    files, planted = [], []
    refused = listing.truncated
    for entry in listing.entries:
        path = entry.path.removeprefix(f"{name}/")
        state = FileState.TOO_LARGE if entry.size > MAX_FILE_BYTES else entry.state
        refused |= state not in (FileState.OK, FileState.EMPTY)
        files.append(FileEntry(path, state, entry.size, entry.detail))
        if path.endswith("/result.json"):
            planted.append(printable(path))
    badges = {"files_refused"} if refused else set()
    return _Listed(tuple(files), tuple(planted), badges | ({"planted_result"} if planted else set()))


def _is_name(value: Any) -> bool:
    return _fits(value) and bool(value)


def _fits(value: Any) -> bool:
    return isinstance(value, str) and len(text(value)) <= LONGEST


def _is_part(value: Any) -> bool:
    """Whether a text can be one part of a path."""
    return isinstance(value, str) and value not in ("", ".", "..") and "/" not in value and "\0" not in value
