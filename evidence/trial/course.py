"""The course of a trial: in which order, and how often, its steps may stand in the attendant's record.

A record is a sequence with a grammar. A course lists for each container its stages, in their order, with the steps that
each may hold; every step stands in its stage or in no record at all. What differs between plans of trials is data.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from evidence.reading.observed import (
    AGENT,
    VERIFIER,
    AnyEvent,
    Closed,
    Exec,
    Failure,
    KilledOthers,
    Launched,
    Observed,
    Transfer,
)

type Step = str
OPENED, CLOSED, KILLED, COUNTERS = "opened", "closed", "killed_others", "counters"
VERSION = "agent_version"


@dataclass(frozen=True, slots=True)
class Stage:
    """Steps in any order. `needed` are those without which nothing is graded, `repeated` those that may stand here
    more than once; every other may stand here once."""

    needed: tuple[Step, ...] = ()
    optional: tuple[Step, ...] = ()
    repeated: tuple[Step, ...] = ()

    @property
    def steps(self) -> frozenset[Step]:
        return frozenset((*self.needed, *self.optional, *self.repeated))


@dataclass(frozen=True, slots=True)
class Course:
    """The stages of each container, in the order of the containers: one is closed before the next is opened.

    `work` is the one command of each whose end is graded or is the grading; nothing is copied out of a container of
    `killed_first` while another process may live in it.
    """

    stages: Mapping[str, tuple[Stage, ...]]
    work: Mapping[str, Step] = field(default_factory=dict)
    killed_first: frozenset[str] = frozenset()


ENDING = (Stage(needed=("state", "removed")), Stage(needed=(CLOSED,)))


def environment_course(artifacts: tuple[str, ...]) -> Course:
    """A trial in an environment of its own, graded in a separate verifier; `artifacts` are its outputs' places."""
    outputs = tuple(f"download artifact {path}" for path in artifacts)
    inputs = tuple(f"upload artifacts_in {path}" for path in artifacts)
    return Course(
        stages={
            AGENT: (
                Stage(needed=(OPENED,)),
                Stage(optional=("upload environment /app",)),
                Stage(needed=(VERSION,), repeated=("exec setup", "exec other", "exec version")),
                Stage(needed=("exec agent",)),
                Stage(needed=(KILLED,), repeated=(KILLED,)),
                Stage(
                    needed=("download agent_logs /logs/agent", *outputs, COUNTERS),
                    optional=("upload agent_logs /logs/agent",),
                    repeated=(KILLED,),
                ),
                *ENDING,
            ),
            VERIFIER: (
                Stage(needed=(OPENED,)),
                Stage(needed=("upload tests /tests",), optional=inputs),
                # That there was no grading, or that it was not fetched, has codes of its own.
                Stage(optional=("exec verifier",)),
                Stage(
                    needed=(COUNTERS,),
                    optional=("download verifier_logs /logs/verifier",),
                    repeated=(KILLED,),
                ),
                *ENDING,
            ),
        },
        work={AGENT: "exec agent", VERIFIER: "exec verifier"},
        killed_first=frozenset({AGENT}),
    )


def step_of(event: AnyEvent) -> Step:
    """An event as a course names it: a command with its purpose, a transfer with direction, purpose and place."""
    if isinstance(event, Exec):
        return f"exec {event.purpose}"
    if isinstance(event, Transfer):
        return f"{event.direction} {event.purpose} {event.path}"
    return str(event.__struct_config__.tag)


def _words(event: AnyEvent) -> str:
    """The same without a place, which may be text of a run."""
    return f"{event.direction} {event.purpose}" if isinstance(event, Transfer) else step_of(event)


def deviations(observed: Observed, course: Course) -> Iterator[str]:
    """Where the record does not follow the course, in words: a step out of its order, one too many, one of none."""
    followed = {role: _Followed(role, course) for role in course.stages}
    for number, event in enumerate(observed.sequence):
        if isinstance(event, Launched) != (number == 0):
            yield f"line {event.seq}: {'no launch' if number == 0 else 'a second launch'}"
        if isinstance(event, Launched | Failure):
            continue
        roles = list(followed)
        place = roles.index(event.role)
        if any(followed[role].began and not followed[role].closed for role in roles[:place]):
            yield f"line {event.seq}: the {event.role}'s container before the one before it was closed"
        if any(followed[role].began for role in roles[place + 1 :]):
            yield f"line {event.seq}: the {event.role}'s container after the next was opened"
        yield from (f"line {event.seq}: {problem}" for problem in followed[event.role].take(event))


def missing(observed: Observed, course: Course, *, ended: bool) -> Iterator[str]:
    """The steps that a graded trial needs and that are not there. `ended` says that nobody stopped its process, so that
    the containers were closed too."""
    found = {(event.role, step_of(event)) for event in observed.sequence}
    for role, stages in course.stages.items():
        needed = [step for stage in stages if ended or stage not in ENDING for step in stage.needed]
        yield from (f"{role}: no {step.split(' /')[0]}" for step in needed if (role, step) not in found)


class _Followed:
    """How far one container's record has come."""

    def __init__(self, role: str, course: Course) -> None:
        self.role = role
        self._stages = course.stages[role]
        self._work = course.work.get(role)
        self._killed_first = role in course.killed_first
        self._stage = 0
        self._taken: Counter[Step] = Counter()
        self._remaining: int | None = None
        self._latest = 0.0
        self.closed = False

    @property
    def began(self) -> bool:
        return bool(self._taken)

    def take(self, event: AnyEvent) -> Iterator[str]:
        step = step_of(event)
        place = self._place(step)
        self._taken[step] += 1
        if place is None:
            yield f"{_words(event)} is no step of the {self.role}'s container, or not any more"
            return
        self._stage = place
        if self._taken[step] > 1 and step not in self._stages[place].repeated:
            yield f"{_words(event)} again"
        if isinstance(event, Exec) and not self._latest <= event.started_mono <= event.mono:
            yield f"{_words(event)} began before the step before it ended"
        if isinstance(event, KilledOthers):
            self._remaining = event.remaining
        if (
            isinstance(event, Transfer)
            and event.direction == "download"
            and self._killed_first
            and self._remaining != 0
        ):
            yield f"{_words(event)} while other processes may live"
        if step != VERSION:  # asked beside the set-up
            self._latest = event.mono
        self.closed = isinstance(event, Closed)

    def _place(self, step: Step) -> int | None:
        """The stage of a step: this one or a later one. The version may be known late when the agent never ran."""
        if step == VERSION and not self._taken[self._work or ""] and not self.closed:
            return self._stage if any(step in stage.steps for stage in self._stages) else None
        later = range(self._stage, len(self._stages))
        return next((place for place in later if step in self._stages[place].steps), None)
