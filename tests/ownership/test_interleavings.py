"""Cancel against create, in any order and with any fault: the promises of design 4 hold at every step.

The harness and the worker share one journal. The harness may die at any write; the engine may fail, lie, stay
silent or act later; strangers look as much like ours as they can.
"""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from runs.containers import (
    Deadline,
    EngineError,
    OwnedContainer,
    create_owned,
    create_owned_network,
    reconcile,
    start_owned,
)
from runs.ownership import MAX_BYTES, Fenced, Intent, Journal, JournalBusy, JournalError, Outcome, Role
from runs.ownership.document import JournalDocument

from .conftest import agent_request, journal_on
from .fake_engine import FakeEngine, Fault

CREATE_FAULTS = st.sampled_from([Fault.NONE, Fault.ERROR, Fault.ERROR_DONE, Fault.SILENT, *[Fault.SILENT_LATE] * 2])
ANY_FAULTS = st.lists(st.sampled_from(sorted(Fault)), max_size=3)


class Killed(BaseException):
    """SIGKILL of the harness: nothing of it runs on, and the kernel frees its lock."""


class MortalJournal(Journal):
    """The harness's journal: `writes_left` counts down to its death just before that write."""

    writes_left: int | None = None

    def _store(self, document: JournalDocument) -> None:
        if self.writes_left == 0:
            raise Killed
        if self.writes_left is not None:
            self.writes_left -= 1
        super()._store(document)


class CancelAgainstCreate(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="interleavings-"))
        Journal.create(self.folder / "run", run_id="r1")
        self.engine = FakeEngine()
        self.worker = journal_on(self.engine, self.folder / "run", lock_wait_s=0)
        self.harness = MortalJournal(self.folder / "run", lock_wait_s=0, now=self.worker._now)
        self.created: list[OwnedContainer] = []
        self.intents: list[Intent] = []
        self.creates_at_fence: int | None = None
        self.starts_at_fence = 0
        self.strangers = self._place_strangers()

    def _place_strangers(self) -> set[str]:
        document = self.worker.read()
        ours = {"benchsite.run": "r1", "benchsite.owner": document.owner, "benchsite.role": "agent"}
        looks: list[dict[str, str]] = [
            {},
            {"benchsite.run": "r1"},
            {**ours, "benchsite.nonce": "f" * 32},
            {**ours, "benchsite.owner": "e" * 32, "benchsite.nonce": "f" * 32},
        ]
        return {self.engine.place(kind, labels) for labels in looks for kind in ("container", "network")}

    @precondition(lambda self: self.harness.writes_left is None)
    @rule(fault=CREATE_FAULTS, late_s=st.sampled_from([0.1, 2.0, 15.0]), network=st.booleans())
    def create(self, fault: Fault, late_s: float, network: bool) -> None:
        self.engine.late_s = late_s
        self.engine.script("create", fault)
        try:
            if network:
                create_owned_network(self.engine, self.harness, internal=True)
            else:
                owned = create_owned(self.engine, self.harness, {"trial": 1}, agent_request())
                assert self.worker.read().resource(owned.intent.nonce).resource_id == owned.id
                self.created.append(owned)
        except (EngineError, JournalError):
            self.engine.faults.pop("create", None)

    @precondition(lambda self: self.harness.writes_left is None)
    @rule()
    def intend(self) -> None:
        with suppress(JournalError):
            self.intents.append(self.harness.intend(Role.AGENT))

    @precondition(lambda self: self.intents and self.harness.writes_left is None)
    @rule(data=st.data())
    def create_what_was_intended(self, data: st.DataObject) -> None:
        """Between an intent and its create anything may have happened, such as the fence or a recovery."""
        intent = data.draw(st.sampled_from(self.intents))
        with suppress(JournalError), self.harness.creating(intent) as slot:
            slot.persist(self.engine._create("container", intent.labels, intent.nonce)["Id"])

    @precondition(lambda self: self.harness.writes_left is None)
    @rule(writes=st.integers(0, 2), fault=CREATE_FAULTS)
    def create_and_die(self, writes: int, fault: Fault) -> None:
        """Killed before the intent, after the intent, or after the create and before the id is persisted."""
        self.harness.writes_left = writes
        self.engine.script("create", fault)
        with pytest.raises((Killed, JournalError, EngineError)):
            create_owned(self.engine, self.harness, {"trial": 1}, agent_request())
            raise Killed
        self.engine.faults.pop("create", None)

    @precondition(lambda self: self.harness.writes_left is not None)
    @rule()
    def another_harness(self) -> None:
        self.harness = MortalJournal(self.folder / "run", lock_wait_s=0, now=self.worker._now)

    @precondition(lambda self: self.created and self.harness.writes_left is None)
    @rule(
        data=st.data(),
        fault=st.sampled_from([Fault.NONE, Fault.ERROR, Fault.SILENT_DONE]),
        dies=st.booleans(),
    )
    def start(self, data: st.DataObject, fault: Fault, dies: bool) -> None:
        owned = data.draw(st.sampled_from(self.created))
        self.engine.script("start", fault)
        self.harness.writes_left = 0 if dies else None
        try:
            start_owned(self.engine, self.harness, owned)
        except (EngineError, JournalError, Killed):
            self.engine.faults.pop("start", None)

    @precondition(lambda self: self.engine.calls or self.intents)
    @rule()
    def fence(self) -> None:
        self.worker.fence("cancelled")
        self._remember_fence()

    @precondition(lambda self: self.created)
    @rule(at=st.sampled_from(["before", "after"]))
    def fence_while_creating(self, at: str) -> None:
        """The cancel comes while the create call is on its way: it waits until the id is in the journal."""
        try:
            intent = self.worker.intend(Role.PROBE)
        except JournalError:
            return
        with self.worker.creating(intent) as slot:
            if at == "before":
                self._fence_is_refused()
            answer = self.engine._create("container", intent.labels, intent.nonce)
            if at == "after":
                self._fence_is_refused()
            slot.persist(answer["Id"])
        self.worker.fence("cancelled")
        self._remember_fence()
        with pytest.raises(Fenced):
            start_owned(self.engine, self.worker, OwnedContainer(answer["Id"], intent))

    def _fence_is_refused(self) -> None:
        with pytest.raises(JournalBusy):
            self.worker.fence("cancelled")

    def _remember_fence(self) -> None:
        if self.creates_at_fence is None:
            self.creates_at_fence = self._creates()
            self.starts_at_fence = len(self.engine.started)

    def _creates(self) -> int:
        return sum(1 for call, _ in self.engine.calls if call == "create")

    @rule(seconds=st.sampled_from([0.1, 3.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        self.engine.sleep(seconds)

    @rule(inspects=ANY_FAULTS, removes=ANY_FAULTS, lists=ANY_FAULTS)
    def reconcile_among_faults(self, inspects: list[Fault], removes: list[Fault], lists: list[Fault]) -> None:
        self.engine.script("inspect", *inspects)
        self.engine.script("remove", *removes)
        self.engine.script("list", *lists)
        report = reconcile(self.engine, self.worker, deadline=self._deadline(20))
        self.engine.heal()
        assert not report.problems
        for resource in report.removed:
            assert resource.id not in self.engine.resources
        for resource in report.resources:
            assert resource.outcome in Outcome

    def _deadline(self, seconds: float) -> Deadline:
        return Deadline(seconds, monotonic=self.engine.monotonic, sleep=self.engine.sleep)

    @invariant()
    def strangers_are_untouched(self) -> None:
        assert self.strangers <= set(self.engine.resources)
        assert not self.strangers & set(self.engine.removed)
        assert not self.strangers & {what for call, what in self.engine.calls if call == "remove"}

    @invariant()
    def nothing_is_created_or_started_after_the_fence(self) -> None:
        if self.creates_at_fence is not None:
            assert self._creates() == self.creates_at_fence
            assert len(self.engine.started) == self.starts_at_fence

    @invariant()
    def the_journal_is_readable_and_bounded(self) -> None:
        assert self.worker.path.stat().st_size <= MAX_BYTES
        present = {found["Labels"].get("benchsite.nonce") for found in self.engine.resources.values()}
        assert not present & {r.nonce for r in self.worker.read().resources if r.settled}

    @invariant()
    def only_ids_of_the_journal_are_removed(self) -> None:
        known = {resource.resource_id for resource in self.worker.read().resources}
        assert {what for call, what in self.engine.calls if call == "remove"} <= known

    def teardown(self) -> None:
        """Whatever happened: after the fence, and a recovery that comes again, nothing of ours is left."""
        self.engine.heal()
        self.worker.fence("interrupted")
        for _ in range(3):
            report = reconcile(self.engine, self.worker, deadline=self._deadline(60))
            assert report.clean
            self.engine.sleep(30)
        assert set(self.engine.resources) == self.strangers
        assert all(resource.settled for resource in self.worker.read().resources)
        shutil.rmtree(self.folder)


@pytest.fixture(autouse=True)
def no_disk_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


CancelAgainstCreate.TestCase.settings = settings(
    max_examples=200,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestCancelAgainstCreate = CancelAgainstCreate.TestCase
