"""One trial's page: its result, the steps of its classification, its stages and its limits. Pure over rows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.text import get_text_list

from benchsite.lib import words
from benchsite.lib.canonical import stored_object
from benchsite.lib.visible_text import visible
from runs.documents.run_spec import RunSpec
from runs.outcomes.codes import BADGES, CODES, STEP_OF_ROW, Step
from runs.web.presenting import specs, status_marks, trials
from runs.web.presenting.trials import Stretch

if TYPE_CHECKING:
    from runs.models import Run, Trial


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step of the classifier: held, the one that decided, or not judged."""

    icon: str
    tone: str
    word: str
    found: str


COST_BASIS = {
    "": "the endpoint's record has no prices, and no cost was sent",
    "reported": "as the endpoint told it with every answer",
    "computed": "by the prices of the endpoint's record and the reported tokens",
    "estimated": "by the prices of the endpoint's record; some tokens were not reported and are estimated",
}


@dataclass(frozen=True, slots=True)
class LimitRow:
    """One limit: what was used (or words), of how much, the share for its meter, whether it was reached."""

    word: str
    value: str
    of: str
    share: float | None
    reached: bool
    why: str = ""


# The classifier's steps in the words of a page: title, what a graded trial proved, what is known when a later step
# decided. The last holds of trials that were stopped early too, so it claims no more than that nothing was found.
_STEPS: dict[Step, tuple[str, str, str]] = {
    Step.IDENTITY: ("Identity and hashes", "task, images, ids and records agree", "no difference was found"),
    Step.CONTROLS: ("Confirmed controls", "Harbor ran what the spec says", "no record shows other controls"),
    Step.EXECUTION: ("Carried out", "worker, engine and harness stayed", "no failure of worker, engine or harness"),
    Step.TIME_LIMITS: ("Within its time", "graded before every deadline", "no deadline came first"),
    Step.ENDPOINT: ("Model answered", "the ledger holds well-formed answers", "no failure of the endpoint decided"),
    Step.RESOURCES: ("Within its resources", "no limit ended the agent", "no limit ended the agent"),
    Step.PROOF: ("Proof of execution", "agent and grading are on record, whole", "every part of it is on record"),
    Step.GRADE: ("Graded 0 or 1", "by a separate verifier that ended well", ""),
}


def trial_page(trial: "Trial", run: "Run") -> dict[str, Any]:
    spec, document = specs.read(run.spec), result_of(trial)
    mark = status_marks.of_trial(trial, run)
    # (kind, word, start, seconds) of what was recorded, from the trial's start.
    start, stages = 0.0, []
    for kind, word, key in (
        ("setup", "Set-up", "setup_s"),
        ("agent", "Agent", "agent_s"),
        ("verify", "Verifier", "verifier_s"),
    ):
        seconds = trials.timing(trial, key)
        if seconds is not None:
            stages.append((kind, word, start, seconds))
            start += seconds
    total = trials.timing(trial, "total_s")
    if stages and total is not None and total - start > 0.05:
        stages.append(("collect", "Overhead", start, total - start))
    stretches = [Stretch(row[0], row[2], row[3]) for row in stages]
    reached = trial.failure_code.removeprefix("incomplete.").removesuffix("_deadline")
    limits = _limits(trial, spec, document, reached if trial.failure_class == "incomplete" else "")
    known = CODES.get(trial.failure_code)
    rows = [_stage_row(stage, spec, reached, trial.failure_class) for stage in stages]
    return {
        "ordinal": trial.ordinal,
        "name": visible(trial.task_name),
        "mark": mark,
        "heading": f"{mark.word}, not graded" if trial.bucket == "error" else mark.word,
        "code": trial.failure_code,
        "sentence": _sentence(trial, run, document),
        "remedy": known.remedy if known and trial.bucket == "error" else "",
        "badges": [_note(str(badge), document) for badge in trial.badges],
        "steps": _steps(trial, document),
        "stages": rows,
        "stretches": stretches,
        "limit_line": _limit_line(trial, spec, stages),
        "limits": limits,
        "limits_reached": sum(limit.reached for limit in limits),
        "took": words.duration(trials.seconds_of(trial)) if trial.bucket and trial.started_at else "",
        "reward": _reward(trial),
        "aloud": get_text_list([f"{row['word']} {row['took']}" for row in rows], "and") or "Stages not recorded",
    }


def _note(badge: str, document: dict[str, Any]) -> str:
    """The badge's sentence; also how many answers it is about, or of what was not graded how many of which kind."""
    sentence = BADGES.get(badge, badge)
    answers = (document.get("usage") or {}).get(_COUNTED.get(badge, ""))
    if answers:
        return f"{sentence} {words.counted(answers, 'answer')}."
    counts = (document.get("output") or {}).get("passed_over") if badge == "output_passed_over" else None
    kinds = [f"{code.rpartition('.')[2]} {words.number(count)}" for code, count in (counts or {}).items()]
    return f"{sentence} {', '.join(kinds)}." if kinds else sentence


# Where the normalized result counts the answers that a badge is about.
_COUNTED = {
    "answer_cut": "answers_cut",
    "model_refused": "answers_refused",
    "context_window_exceeded": "context_overflows",
}


def result_of(trial: "Trial") -> dict[str, Any]:
    """The normalized result; empty when there is none of this bucket: not yet, or the trial was closed unjudged."""
    document = stored_object(trial.result)
    return document if document.get("bucket") == trial.bucket else {}


def _steps(trial: "Trial", document: dict[str, Any]) -> list[StepRow]:
    """The classifier's steps in order. The one that did not hold decided; those after it were not judged."""
    if not trial.bucket:
        return []
    decided, skipped = _deciding_step(trial, document), _not_judged(trial, document)
    answered = (document.get("usage") or {}).get("requests_answered")
    found, after = [], False
    for step, (word, proved, nothing_found) in _STEPS.items():
        if step is decided and trial.failure_code:
            title = CODES[trial.failure_code].title if trial.failure_code in CODES else trial.get_bucket_display()
            title += " was reached" if trial.failure_class == "incomplete" else ""
            tone = "cancelled" if trial.bucket == "cancelled" else "attention"
            found.append(StepRow(tone, f"decided {tone}", word, title))
            after = True
        elif skipped or after:
            why = skipped or "an earlier step decided"
            found.append(StepRow("skipped", "off", word, f"not judged: {why}"))
        else:
            detail = proved if trial.evaluated else nothing_found
            if step is Step.ENDPOINT and answered:
                detail = f"{words.counted(answered, 'answer')} in the ledger"
            found.append(StepRow("held", "", word, detail))
    return found


def _deciding_step(trial: "Trial", document: dict[str, Any]) -> Step | None:
    """As the classification says; results from before it said so name the row, and of the others the code tells."""
    if document.get("step") in list(Step):
        return Step(document["step"])
    code = CODES.get(trial.failure_code)
    row = document.get("row", code.rows[0] if code else None)
    return STEP_OF_ROW.get(row) if isinstance(row, int) else None


def _not_judged(trial: "Trial", document: dict[str, Any]) -> str:
    """Why no step beside the deciding one was judged; empty when the steps before it were."""
    status = document.get("execution_status")
    if status == "not_started" or (status is None and trial.started_at is None and not trial.evaluated):
        return "the trial never started"
    return "" if document or trial.evaluated else "the classifier did not see this trial"


def _sentence(trial: "Trial", run: "Run", document: dict[str, Any]) -> str:
    """The classifier's own sentence with its numbers when it is stored, else the code table's."""
    stored = document.get("sentence")
    if isinstance(stored, str) and stored:
        return visible(stored)
    text = trials.sentence(trial, run)
    neither = " What the agent did is unknown to the suite: it counts neither as passed nor as failed."
    return text + neither if trial.bucket == "error" else text


_STAGE_WORDS = {
    "setup": "Container created and started, task files copied in, agent found in the image",
    "agent": "The agent worked, until it ended or was stopped",
    "verify": "A fresh container without network graded what was left",
    "collect": "Harness start, copying out, removal, each verified",
}
_DEADLINE_OF = {"setup": ("setup", "environment"), "agent": ("agent",), "verify": ("verifier",)}


def _stage_row(
    stage: tuple[str, str, float, float], spec: RunSpec | None, reached: str, failure_class: str
) -> dict[str, Any]:
    kind, word, start, seconds = stage
    limit = _stage_limit(kind, spec)
    return {
        "kind": kind,
        "word": word,
        "what": _STAGE_WORDS[kind],
        "start": f"{start:.1f} s",
        "took": words.duration(seconds, exact=True),
        "limit": "" if limit is None else words.duration(limit),
        "reached": failure_class == "incomplete" and reached in _DEADLINE_OF.get(kind, ()),
    }


def _stage_limit(kind: str, spec: RunSpec | None) -> float | None:
    if spec is None:
        return None
    limits = spec.limits
    setup = limits.environment_start_s + limits.agent_setup_s
    return {"setup": setup, "agent": limits.agent_s, "verify": limits.verifier_s}.get(kind)


def _limit_line(
    trial: "Trial", spec: RunSpec | None, stages: list[tuple[str, str, float, float]]
) -> tuple[float, str] | None:
    if trial.failure_code != "incomplete.agent_deadline":
        return None
    agent = next((stage for stage in stages if stage[0] == "agent"), None)
    limit = _stage_limit("agent", spec)
    return None if agent is None or limit is None else (agent[2] + limit, f"{words.duration(limit)} limit")


def _limits(trial: "Trial", spec: RunSpec | None, document: dict[str, Any], reached: str) -> list[LimitRow]:
    counters = document.get("counters") or {}
    agent_limit, agent_s = spec.limits.agent_s if spec else None, trials.timing(trial, "agent_s")
    trial_limit, total_s = spec.limits.trial_s if spec else None, trials.seconds_of(trial)
    steps, max_steps = trial.steps, spec.controls.max_steps if spec else None
    agent = spec.limits.agent if spec else None
    missing = "the engine's counters were not readable" if trial.started_at else "the trial never started"
    unknown = "" if counters.get("available") is True else missing
    badges, tokens = set(trial.badges), trials.tokens(trial)
    counted = "the record holds no count" if tokens == words.NOT_REPORTED else "as the gateway counted them"
    return [
        _used("Agent steps", steps, max_steps, words.number, "step_limit_reached" in badges),
        _used("Agent time", agent_s, agent_limit, words.duration, reached == "agent"),
        _used("Whole trial", total_s, trial_limit, words.duration, reached == "trial"),
        LimitRow("Tokens in / out", tokens, "", None, False, counted),
        _counter("Memory", "oom_kills", counters, unknown, words.size(agent.memory_bytes if agent else None)),
        _counter(
            "Processes", "pids_limit_hits", counters, unknown, words.number(agent.pids) if agent else words.NOT_RECORDED
        ),
        _counter(
            "Writable storage",
            "tmpfs_full",
            counters,
            unknown,
            words.size(specs.storage_bytes(agent) if agent else None),
        ),
        LimitRow(
            "Cost",
            trials.cost(trial) or words.NOT_REPORTED,
            "",
            None,
            False,
            COST_BASIS.get(trial.cost_basis, ""),
        ),
    ]


def _used(word: str, value: Any, limit: Any, shown: Any, reached: bool) -> LimitRow:
    usable = isinstance(value, int | float) and isinstance(limit, int | float) and limit > 0
    return LimitRow(
        word=word,
        value=shown(value),
        of="" if limit is None else f"of {shown(limit)}",
        share=value / limit if usable else None,
        reached=reached,
        why="" if usable or value is not None else "the trial did not get far enough",
    )


def _counter(word: str, key: str, counters: dict[str, Any], unknown: str, limit: str) -> LimitRow:
    """A limit of which the engine counts only how often it was hit; ``unknown`` is why it is not known, if so."""
    if unknown:
        return LimitRow(word, words.NOT_RECORDED, f"of {limit}", None, False, unknown)
    hits = counters.get(key)
    reached = bool(hits)
    value = "reached" if reached else "never reached"
    if isinstance(hits, int) and not isinstance(hits, bool) and hits:
        value = f"reached {words.counted(hits, 'time')}"
    return LimitRow(word, value, "", None, reached, f"limit {limit}")


def _reward(trial: "Trial") -> str:
    if trial.reward is None:
        return ""
    return str(trial.reward) if trial.evaluated else f"{trial.reward}, kept and not counted"
