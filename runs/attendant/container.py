"""One owned container from its intent to its removal; every call is blocking and bounded."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchsite.lib.disk import FULL
from runs.attendant import counters
from runs.attendant.execs import Command, Ended, Interrupt, Running, Tail, run_to_end
from runs.attendant.observed import ObservedFile
from runs.attendant.plan import RolePlan
from runs.containers import (
    ContainerRequest,
    Deadline,
    OwnedContainer,
    connect,
    create_owned,
    engine_call,
    remove_owned,
    start_owned,
)
from runs.ownership import Journal, Role
from runs.wire.failures import EngineFailed

HOLDER = ("/usr/local/lib/benchsite/holder",)
CALL_TIMEOUT_S = 10
STOP_GRACE_S = 1
OWN_EXEC_LIMIT_S = 60.0
KILL_TRIES = 20
KILL_PAUSE_S = 0.05
REMOVE_BOUND_S = 60.0
# The engine's own folder for shared memory, beside those of the plan.
SHARED_MEMORY_BYTES = 64 * 1024 * 1024
# `kill -9 -1` reaches every process but the first and itself in one step, so nothing can fork past it.
# The shell's own kill needs no fork, and stands in where an image has no such program.
KILL_COMMANDS = (("/bin/kill", "-9", "-1"), ("/bin/sh", "-c", "kill -9 -1"))
NOT_RUNNABLE = (126, 127)

CAPABILITIES = {
    "agent": ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"),
    "verifier": ("DAC_OVERRIDE", "KILL"),
}


@cache
def engine() -> Any:
    """The one client of this process; its connections are kept and may be used by several threads."""
    return connect(CALL_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class ContainerIdentity:
    """Which container this is, in Harbor's words and in ours."""

    role: str
    trial: int
    session_id: str
    trial_uuid: str


class Container:
    """One container of the trial. Not yet created until `open`; `close` is harmless at any time and twice."""

    def __init__(self, journal: Journal, identity: ContainerIdentity, plan: RolePlan, observed: ObservedFile) -> None:
        self._journal = journal
        self._identity = identity
        self._plan = plan
        self._observed = observed
        self._api: Any = None
        self._owned: OwnedContainer | None = None
        self._counted = False
        self._closed = False

    @property
    def id(self) -> str:
        if self._owned is None:
            raise EngineFailed("container.not_started", "The container was never created.")
        return self._owned.id

    @property
    def is_open(self) -> bool:
        return self._owned is not None and not self._closed

    def open(self) -> None:
        """Intent, create, id, fence, start, and the record of what the engine really gave."""
        self.start()
        self.announce()

    def start(self) -> None:
        """Everything of `open` but the record."""
        self._api = engine()
        self._owned = create_owned(
            self._api,
            self._journal,
            {
                "trial": self._identity.trial,
                "session_id": self._identity.session_id,
                "trial_uuid": self._identity.trial_uuid,
            },
            self._request(),
        )
        start_owned(self._api, self._journal, self._owned)

    def announce(self) -> None:
        """Record what the engine really gave. Raises EngineFailed when it is another image."""
        with engine_call("inspect container", Deadline()):
            seen = self._api.inspect_container(self.id)
        if seen["Image"] != self._plan.image_id:
            raise EngineFailed(
                "container.image", "The engine started another image than the locked one.", seen["Image"]
            )
        self._observed.write("opened", self._identity.role, **self._opened(seen))

    def run(
        self,
        command: Command,
        *,
        limit_s: float,
        take: Callable[[bytes], None],
        stdin: Iterator[bytes] | None = None,
        interrupt: Interrupt | None = None,
    ) -> tuple[Ended, Tail]:
        return run_to_end(self._api, self.id, command, limit_s=limit_s, take=take, stdin=stdin, interrupt=interrupt)

    def begin(self, command: Command, *, limit_s: float) -> Running:
        """Start a command whose output the caller reads itself."""
        return Running(self._api, self.id, command, limit_s=limit_s)

    def kill_others(self) -> int:
        """Kill every process but the first; returns how many are left: 0 unless something is very wrong."""
        remaining = -1
        for attempt in range(KILL_TRIES):
            self._kill_once()
            remaining = self._others()
            if remaining == 0:
                break
            time.sleep(KILL_PAUSE_S * min(attempt + 1, 10))
        self._observed.write("killed_others", self._identity.role, remaining=remaining)
        return remaining

    def count(self) -> None:
        """Record the limits that were hit and the space used; once, while the container still runs."""
        if self._counted:
            return
        self._counted = True
        found = self._counters()
        self._observed.write(
            "counters", self._identity.role, available=found is not None, **(found or counters.NOTHING_KNOWN)
        )

    def is_left_full(self) -> bool:
        """Whether dead processes left so much memory taken that what the kernel kills now is killed for that.

        That is half of the limit, and more than all writable folders hold: files without end, or shared memory.
        """
        with engine_call("read memory"):
            seen = self._api.stats(self.id, stream=False, one_shot=True)["memory_stats"]
        detail, limit = seen.get("stats", {}), self._plan.memory_bytes
        droppable = sum(detail.get(f"total_{name}", detail.get(name, 0)) for name in ("active_file", "inactive_file"))
        folders = sum(self._plan.tmpfs.values()) + SHARED_MEMORY_BYTES
        return bool(seen["usage"] - droppable >= max(0.5 * limit, min(folders + 0.05 * limit, 0.95 * limit)))

    def close(self) -> None:
        """Counters, stop, state, removal by id. Never raises: what fails is recorded and cleaned up later."""
        if self._closed or self._owned is None:
            return
        self._closed = True
        for step in (self.count, self._stop, self._record_state, self._remove):
            try:
                step()
            except Exception as error:
                self._fail("stop", error)
        self._observed.write("closed", self._identity.role)

    def discard(self) -> None:
        """Remove a container that nobody used; what fails stands in the journal, for the cleanup."""
        if self._closed or self._owned is None:
            return
        self._closed = True
        with suppress(Exception):
            remove_owned(self._api, self._journal, self._owned.intent.nonce, bound_s=REMOVE_BOUND_S)

    def _kill_once(self) -> None:
        for argv in KILL_COMMANDS:
            ended, _ = self.run(Command(argv, user="0:0", workdir="/"), limit_s=OWN_EXEC_LIMIT_S, take=lambda _: None)
            if ended.exit_code not in NOT_RUNNABLE:
                return

    def _others(self) -> int:
        """Living processes beside the first; a dead one that waits to be reaped can do nothing any more."""
        with engine_call("list processes"):
            listed = self._api.top(self.id, ps_args="-eo pid,stat")
        states = [row[1] for row in listed.get("Processes") or []]
        living = [state for state in states if not state.startswith("Z") or "l" in state]
        return max(0, len(living) - 1)

    def _counters(self) -> dict[str, Any] | None:
        output = Tail(counters.COUNTERS_BYTES)
        command = Command(counters.argv(self._plan.tmpfs), user="0:0", workdir="/")
        try:
            ended, _ = self.run(command, limit_s=OWN_EXEC_LIMIT_S, take=output.add)
            return counters.parse(output.text(), self._plan.tmpfs) if ended.exit_code == 0 else None
        except Exception as error:
            self._fail("stop", error)
            return None

    def _stop(self) -> None:
        with engine_call("stop container"):
            self._api.stop(self.id, timeout=STOP_GRACE_S)

    def _record_state(self) -> None:
        with engine_call("inspect container", Deadline()):
            state = self._api.inspect_container(self.id)["State"]
        self._observed.write(
            "state",
            self._identity.role,
            status=state["Status"],
            exit_code=state.get("ExitCode"),
            oom_killed=bool(state.get("OOMKilled")),
        )

    def _remove(self) -> None:
        assert self._owned is not None
        outcome = remove_owned(self._api, self._journal, self._owned.intent.nonce, bound_s=REMOVE_BOUND_S)
        self._observed.write("removed", self._identity.role, outcome=str(outcome))

    def _fail(self, where: str, error: Exception) -> None:
        record_failure(self._observed, self._identity.role, where, error)

    def _request(self) -> ContainerRequest:
        plan = self._plan
        hosts = {plan.gateway_host: plan.gateway_ip} if plan.gateway_host and plan.gateway_ip else {}
        return ContainerRequest(
            role=Role(self._identity.role),
            image_id=plan.image_id,
            command=plan.command or HOLDER,
            cpus=plan.cpus,
            memory_bytes=plan.memory_bytes,
            pids=plan.pids,
            nofile=plan.nofile,
            tmpfs=plan.tmpfs,
            network=plan.network_id,
            hosts=hosts,
            env=plan.env,
            capabilities=CAPABILITIES[self._identity.role],
        )

    def _opened(self, seen: dict[str, Any]) -> dict[str, Any]:
        host = seen["HostConfig"]
        nofile = [u["Hard"] for u in host.get("Ulimits") or [] if u["Name"] == "nofile"]
        return {
            "trial": self._identity.trial,
            "trial_uuid": self._identity.trial_uuid,
            "session_id": self._identity.session_id,
            "container_id": self.id,
            "image_id": seen["Image"],
            "limits": {
                "cpus": host["NanoCpus"] / 1e9,
                "memory_bytes": host["Memory"],
                "pids": host["PidsLimit"],
                "nofile": nofile[0] if nofile else None,
                "tmpfs": {path: counters.tmpfs_size(options) for path, options in (host.get("Tmpfs") or {}).items()},
            },
            "network": None if host["NetworkMode"] == "none" else host["NetworkMode"],
            "warnings": list(self._owned.warnings) if self._owned else [],
        }


def record_failure(observed: ObservedFile, role: str, where: str, error: BaseException) -> None:
    """Write one `failure` event with the error's own code; of others only a full disk has one."""
    code = getattr(error, "code", None)
    if isinstance(error, OSError) and error.errno in FULL:
        code = "disk_full"
    detail = getattr(error, "detail", None) or f"{type(error).__name__}: {error}"
    try:
        observed.write(
            "failure",
            role,
            where=where,
            code=code if isinstance(code, str) else "unexpected",
            detail=detail[:500],
        )
    except OSError:
        # A disk that is full cannot be told so; the supervisor notices the missing events.
        logging.getLogger(__name__).warning("a failure could not be recorded")
