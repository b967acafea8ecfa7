"""At which instants of a run is something killed? Each point knows how to stop the run exactly there."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from tests.crash.engine_proxy import Call, Hold
from tests.crash.frozen_worker import BEFORE_FINAL_STATE, BEFORE_INGEST, MID_INGEST
from tests.crash.rig import Rig


@dataclass
class Point(ABC):
    """One instant. `attendant` and `sandbox` say whether they live there, `done` whether the trial is graded."""

    name: str
    attendant: bool = True
    sandbox: bool = True
    done: bool = False

    @abstractmethod
    def arm(self, rig: Rig) -> None: ...

    @abstractmethod
    def is_reached(self, rig: Rig) -> bool: ...

    @abstractmethod
    def release(self, rig: Rig) -> None: ...


@dataclass
class AtCall(Point):
    """Before the engine hears of a call, or after it answered and before its caller knows."""

    when: str = "before"
    what: str = ""
    role: str | None = "agent"
    method: str = "POST"
    word: str | None = None

    def arm(self, rig: Rig) -> None:
        self._hold = Hold(self._matches, "before" if self.when == "before" else "after")
        rig.proxy.arm(self._hold)

    def is_reached(self, rig: Rig) -> bool:
        return self._hold.reached.is_set()

    def release(self, rig: Rig) -> None:
        rig.proxy.disarm()

    def _matches(self, call: Call) -> bool:
        return (
            call.method == self.method
            and (self.method == "DELETE" or call.what == self.what)
            and call.role == self.role
            and (self.word is None or any(self.word in part for part in call.command))
        )


@dataclass
class AtEndpoint(Point):
    """While the agent waits for an answer of its model."""

    def arm(self, rig: Rig) -> None:
        rig.endpoint.arm()

    def is_reached(self, rig: Rig) -> bool:
        return rig.endpoint.reached.is_set()

    def release(self, rig: Rig) -> None:
        rig.endpoint.release()


@dataclass
class InWorker(Point):
    """Between two steps of the run's end, in the process that executes it."""

    place: str = ""

    def arm(self, rig: Rig) -> None:
        rig.places.arm(self.place)

    def is_reached(self, rig: Rig) -> bool:
        return rig.places.is_reached(self.place)

    def release(self, rig: Rig) -> None:
        rig.places.release(self.place)


POINTS: tuple[Point, ...] = (
    AtCall("network: created, id not persisted", when="after", what="create", role="network", sandbox=False),
    AtCall("gateway: created, id not persisted", when="after", what="create", role="gateway", sandbox=False),
    AtCall("after intent", what="create"),
    AtCall("created, id not persisted", when="after", what="create"),
    AtCall("after persist", what="start", word=None),
    AtCall("after start", when="after", what="start"),
    AtCall("mid-setup", when="after", what="start", word="tar"),
    AtEndpoint("mid-agent"),
    AtCall("mid-artifacts", when="after", what="start", word="app/output"),
    AtCall("mid-verifier", when="after", what="start", role="verifier", word="test.sh"),
    InWorker("before ingest", attendant=False, sandbox=False, done=True, place=BEFORE_INGEST),
    InWorker("mid-ingest", attendant=False, sandbox=False, done=True, place=MID_INGEST),
    AtCall("mid-cleanup", attendant=False, sandbox=False, done=True, method="DELETE", role="gateway"),
    InWorker("before the final state", attendant=False, sandbox=False, done=True, place=BEFORE_FINAL_STATE),
)
