"""Bounded reads of a trial's stored files for pages; whatever fails becomes a sentence.

Nothing here raises for what a file holds or for a storage that lost it: a page says why there is nothing.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from evidence.models import READABLE, Artifact, ExperimentFile
from evidence.register import store
from evidence.register.ingest import tell_conversation
from evidence.trajectory.index import build_index
from evidence.trajectory.ledger_match import answer_digests
from evidence.trajectory.text import safe
from evidence.trajectory.windows import IndexUnreadable, Trajectory, missing_reason
from runs.documents.ledger import MAX_BYTES as MAX_LEDGER_BYTES
from runs.documents.ledger import read_ledger
from runs.models import Trial

TEXT_WINDOW = 64 * 1024
_LOST = "The storage does not hold this file any more, so it cannot be shown."
_NO_ANSWER = "The evidence storage does not answer at the moment, so this file cannot be shown now."
_TRAJECTORIES = ("trajectory", "trajectory_atif")  # the native file comes before Harbor's copy


@dataclass(frozen=True, slots=True)
class OpenedTrajectory:
    """A trajectory to read windows of, or the reason why there is none. ``artifact`` is its file, if any."""

    trajectory: Trajectory | None
    reason: str
    artifact: Artifact | None = None


@dataclass(frozen=True, slots=True)
class TextWindow:
    """Bytes ``start`` to before ``end`` of a file of ``size`` bytes, as safe text; ``reason`` says why none."""

    text: str
    start: int
    end: int
    size: int
    reason: str = ""

    @property
    def whole(self) -> bool:
        return self.start == 0 and self.end == self.size


@contextmanager
def open_trajectory(trial: Trial) -> Iterator[OpenedTrajectory]:
    """The trial's trajectory with its index; the index is built again when it is missing or damaged."""
    wanted = (*_TRAJECTORIES, "trajectory_index")
    found = {row.kind: row for row in Artifact.objects.filter(run=trial.run, trial=trial.ordinal, kind__in=wanted)}
    artifact = next((found[kind] for kind in _TRAJECTORIES if kind in found and found[kind].readable), None)
    if artifact is None or not artifact.size:
        yield OpenedTrajectory(None, _why_none(trial, found), artifact)
        return
    with ExitStack() as files:
        yield _opened(artifact, lambda: _agents_own(files, artifact, found.get("trajectory_index")))


@contextmanager
def open_conversation(trial: Trial) -> Iterator[OpenedTrajectory]:
    """The trial's conversation as the gateway saw it, told again when its readable form is missing or damaged."""
    wanted = ("conversation", "conversation_index", "transcript", *_TRAJECTORIES)
    found = {row.kind: row for row in Artifact.objects.filter(run=trial.run, trial=trial.ordinal, kind__in=wanted)}
    artifact = found.get("transcript")
    if artifact is None or not artifact.readable:
        yield OpenedTrajectory(None, _why_no_transcript(trial, artifact), artifact)
        return
    with ExitStack() as files:
        yield _opened(artifact, lambda: _conversation(files, trial, artifact, found))


def _conversation(files: ExitStack, trial: Trial, artifact: Artifact, found: dict[str, Artifact]) -> Trajectory:
    conversation, index = found.get("conversation"), found.get("conversation_index")
    if conversation is not None and index is not None and conversation.readable and index.readable:
        source = files.enter_context(store.open_stored(conversation))
        with suppress(IndexUnreadable, ValueError, KeyError, TypeError):
            return Trajectory(source, files.enter_context(store.open_stored(index)))
    agents = next((found[kind] for kind in _TRAJECTORIES if kind in found and found[kind].readable), None)
    ledger = Artifact.objects.filter(run=trial.run, kind="ledger").first()
    data = None
    if ledger is not None and ledger.readable:
        with store.open_stored(ledger) as file:
            data = file.read(MAX_LEDGER_BYTES + 1)
    said = read_ledger(data).trial(trial.ordinal)
    source, scratch = (files.enter_context(tempfile.TemporaryFile()) for _ in range(2))  # noqa: SIM115 - the stack closes them
    tell_conversation(artifact, agents, said, source)
    build_index(source, scratch, answer_digests(said))
    return Trajectory(source, scratch)


def _why_no_transcript(trial: Trial, artifact: Artifact | None) -> str:
    if artifact is not None:
        return f"The transcript cannot be shown: {artifact.get_state_display().lower()}. {artifact.note}".strip()
    if trial.bucket is None:
        return "The gateway's transcript is registered when the trial has ended."
    return (
        "No transcript was recorded. A trial that asked the endpoint nothing has none, and neither has a run of a "
        "version before transcripts."
    )


def _opened(artifact: Artifact, make: Callable[[], Trajectory]) -> OpenedTrajectory:
    try:
        trajectory = make()
    except store.StorageFails:
        return OpenedTrajectory(None, _NO_ANSWER, artifact)
    except (OSError, store.NotReadable):
        return OpenedTrajectory(None, _LOST, artifact)
    return OpenedTrajectory(trajectory, trajectory.reason or "", artifact)


def _agents_own(files: ExitStack, artifact: Artifact, index: Artifact | None) -> Trajectory:
    source = files.enter_context(store.open_stored(artifact))
    if index is not None and index.readable:
        with suppress(IndexUnreadable, OSError, ValueError, KeyError, TypeError):
            return Trajectory(source, files.enter_context(store.open_stored(index)))
    scratch = files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
    build_index(source, scratch)
    return Trajectory(source, scratch)


@contextmanager
def open_handed_in(file: ExperimentFile) -> Iterator[OpenedTrajectory]:
    """A trajectory that was handed in with a job. It has no index and no ledger; it is read as it is asked for."""
    if not file.readable or not file.size:
        yield OpenedTrajectory(None, f"The trajectory cannot be shown: {file.get_state_display().lower()}. {file.note}")
        return
    with ExitStack() as files:
        try:
            source = files.enter_context(store.open_stored(file))
            scratch = files.enter_context(tempfile.TemporaryFile())
            build_index(source, scratch)
            trajectory = Trajectory(source, scratch)
            opened = OpenedTrajectory(trajectory, trajectory.reason or "")
        except store.StorageFails:
            opened = OpenedTrajectory(None, _NO_ANSWER)
        except (OSError, store.NotReadable):
            opened = OpenedTrajectory(None, _LOST)
        yield opened


def _why_none(trial: Trial, found: dict[str, Artifact]) -> str:
    rows = [found[kind] for kind in _TRAJECTORIES if kind in found]
    refused = next((row for row in rows if not row.readable and row.state != "missing"), None)
    if refused is not None:
        return f"The trajectory cannot be shown: {refused.get_state_display().lower()}. {refused.note}".strip()
    timed_out = trial.failure_code == "incomplete.agent_deadline" or "agent_timed_out" in trial.badges
    size = 0 if rows else None
    if trial.bucket is None:
        return "The trajectory is registered when the trial has ended."
    return missing_reason(agent_timed_out=timed_out, size=size)


def text_window(artifact: Artifact, start: int | None = None, length: int = TEXT_WINDOW) -> TextWindow:
    """A window of a file as text: from ``start``, or its end when ``start`` is None."""
    size = artifact.size
    if start is None:
        start = max(0, size - length)
    start = min(max(0, start), max(0, size - 1))
    try:
        with store.open_stored(artifact) as file:
            file.seek(start)
            data = file.read(length)
    except store.NotReadable as error:
        return TextWindow("", 0, 0, size, f"{artifact.get_state_display()}. {artifact.note} ({error.state})")
    except store.StorageFails:
        return TextWindow("", 0, 0, size, _NO_ANSWER)
    except OSError:
        return TextWindow("", 0, 0, size, _LOST)
    return TextWindow(safe(data.decode("utf-8", "replace")), start, start + len(data), size)


def kept(trial: Trial, *kinds: str) -> list[Artifact]:
    """The readable files of these kinds, by path."""
    rows = Artifact.objects.filter(run=trial.run, trial=trial.ordinal, kind__in=kinds, state__in=READABLE)
    return list(rows.order_by("path"))
