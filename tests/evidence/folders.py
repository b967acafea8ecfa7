"""A synthetic run folder that passes, as plain documents that a test changes before it writes them.

The shapes are those of Harbor 0.22.0 and of the run's own records; everything in it agrees, so one change shows what
one difference leads to.
"""

import copy
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from evidence.trial.run_checks import ASKED, PREPARED, PROBED
from runs.wire.copies import Entry, combined_sha256

RUN_ID = "0123456789abcdef0123456789abcdef"
OWNER = "f" * 32
AGENT_IMAGE = "sha256:" + "a" * 64
VERIFIER_IMAGE = "sha256:" + "b" * 64
ALIAS = "scripted"
AGENT_VERSION = "2.4.6"
START = datetime(2026, 6, 17, 4, 0, 0, tzinfo=UTC)
SESSION = "task__AbCdEfG"
RUN_ROOT = f"/data/runs/{RUN_ID}"
NETWORK, GATEWAY = "e" * 64, "1" * 64
PLACEHOLDER = "benchsite-placeholder-" + "0a" * 16
JOB_ID = str(UUID(int=77))
_TO_BE_COMPUTED = "what the ledger has when it is written"
TASK_FILES = {
    "instruction.md": b"do it",
    "environment/input.json": b"{}",
    "tests/test.sh": b"grade",
    "tests/input/input.json": b"{}",
}


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


_origin = START


def at(seconds: float) -> str:
    """A wall time, `seconds` after the start of the run that was made or loaded last."""
    return (_origin + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def checksum(trial: int) -> str:
    return sha256(f"task {trial}".encode())


def task_files(below: str = "") -> list[dict[str, Any]]:
    """The reviewed files of each task, or those of one of its folders as they are named from there."""
    return [
        {"path": path.removeprefix(below), "size": len(data), "sha256": sha256(data)}
        for path, data in sorted(TASK_FILES.items())
        if path.startswith(below)
    ]


FILES_SHA256 = sha256("".join(f"{file['path']}\0{file['sha256']}\n" for file in task_files()).encode())


@dataclass
class TrialCase:
    """One trial's documents. `offset` is its start in seconds after the run's. `kept` is relative to kept/."""

    number: int
    offset: float
    supervision: dict[str, Any] | None
    events: list[dict[str, Any]]
    result: Any
    lock: Any
    job_lock: Any
    job_config: Any
    job_result: Any
    config: Any
    told: Any
    plan: Any
    kept: dict[str, bytes]
    folder: str = "task__AbCdEfG"
    extra: dict[str, bytes] = field(default_factory=dict)
    written: bool = True
    empty: list[str] = field(default_factory=list)

    @property
    def uuid(self) -> str:
        return str(UUID(int=self.number))

    @property
    def mono(self) -> float:
        """The monotonic time at which the trial started."""
        assert self.supervision is not None
        return float(self.supervision["mono_started"])

    def event(self, name: str, **match: Any) -> dict[str, Any]:
        """The last event of that name whose fields are as given; in a synthetic trial the only one."""
        found = list(self.matching(name, **match))
        assert found, (name, match)
        return found[-1]

    def matching(self, name: str, **match: Any) -> Iterator[dict[str, Any]]:
        for event in self.events:
            if event["event"] == name and all(event.get(key) == value for key, value in match.items()):
                yield event

    def drop(self, name: str, **match: Any) -> None:
        gone = [id(event) for event in self.matching(name, **match)]
        assert gone, (name, match)
        self.events = [event for event in self.events if id(event) not in gone]

    def reward(self, **files: bytes | None) -> None:
        """Sets the verifier's reward files: reward(json=b"…", txt=None)."""
        for kind, data in files.items():
            self.kept.pop(f"verifier/reward.{kind}", None)
            if data is not None:
                self.kept[f"verifier/reward.{kind}"] = data
        self.recopy()
        value = {b"0": 0, b"1": 1}.get(
            bytes(byte for byte in b"".join(d for d in files.values() if d) if byte in b"01")
        )
        if value is not None and len([data for data in files.values() if data is not None]) == 1:
            self.report(value)

    def report(self, value: int) -> None:
        """Harbor's own files hold this reward too."""
        if self.result["verifier_result"] is not None:
            self.result["verifier_result"] = {"rewards": {"reward": value}}
        self.extra = {path: data for path, data in self.extra.items() if "/verifier/reward." not in path}
        for statistics in self.job_result["stats"]["evals"].values():
            statistics["metrics"] = [{"mean": float(value)}]
            statistics["reward_stats"] = {"reward": {str(value): [self.folder]}}

    def recopy(self) -> None:
        """The attendant's entries again from the kept files."""
        for event in self.matching("transfer", direction="download"):
            kept = event["kept"]
            if kept:
                entries = [
                    {
                        "path": path.removeprefix(f"{kept.removeprefix('kept/')}/"),
                        "size": len(data),
                        "sha256": sha256(data),
                        "modified": int((_origin + timedelta(seconds=self.offset + 20)).timestamp()),
                    }
                    for path, data in sorted(self.kept.items())
                    if path.startswith(kept.removeprefix("kept/") + "/")
                ]
                list_files(event, entries)

    def end_after_agent(self) -> None:
        """Removes everything that came after the agent's command."""
        index = self.events.index(self.event("exec", purpose="agent"))
        self.events = self.events[: index + 1]
        self.kept = {}
        self.result["verifier_result"] = None
        self.result["verifier"] = None


@dataclass
class RunCase:
    spec: dict[str, Any]
    run: dict[str, Any]
    journal: dict[str, Any]
    ledger: list[dict[str, Any]]
    trials: list[TrialCase]
    manifest: dict[str, Any]
    rehash: bool = True
    torn: bytes = b""

    @property
    def trial(self) -> TrialCase:
        return self.trials[0]

    def lines_of(self, trial: int) -> list[dict[str, Any]]:
        return [line for line in self.ledger if line.get("trial") == trial]

    def answer_with(self, trial: int, *lines: dict[str, Any]) -> None:
        """Replaces one trial's ledger lines."""
        place = next((i for i, line in enumerate(self.ledger) if line.get("trial") == trial), 0)
        others = [line for line in self.ledger if line.get("trial") != trial]
        asked = [request(trial, **{"at": self.asked_at(trial), **line}) for line in lines]
        self.ledger = others[:place] + asked + others[place:]

    def asked_at(self, number: int) -> str:
        """A time at which the trial's agent ran."""
        trial = next(trial for trial in self.trials if trial.number == number)
        command = next(trial.matching("exec", purpose="agent"), None)
        if command is None:
            return at(trial.offset + 5)
        ended = datetime.fromisoformat(command["at"])
        return (ended - timedelta(seconds=command["duration_s"] / 2)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def rename(self, run_id: str) -> None:
        """Puts another run's id in the place of this one's, in every document."""
        old = self.run["run_id"]
        for case, names in (
            (self, ("run", "journal", "ledger")),
            *((trial, ("result", "lock", "job_lock", "job_config", "config", "told", "plan")) for trial in self.trials),
        ):
            for name in names:
                setattr(case, name, json.loads(json.dumps(getattr(case, name)).replace(old, run_id)))

    def never_started(self, *numbers: int) -> None:
        for trial in self.trials:
            if trial.number in numbers:
                trial.written = False
        self.journal["resources"] = [r for r in self.journal["resources"] if r["trial"] not in numbers]
        self.ledger = [line for line in self.ledger if line.get("trial") not in numbers]

    def write(self, root: Path) -> Path:
        """Writes the folder at `root` (made new) and returns it."""
        root.mkdir(parents=True)
        if self.rehash:
            self.run["spec_sha256"] = sha256(canonical(self.spec))
            if self.ledger and self.ledger[0]["kind"] == "opened":
                self.ledger[0].setdefault("spec_sha256", self.run["spec_sha256"])
        ledger = chain(self.ledger) + self.torn
        if self.run.get("ledger_sha256") == _TO_BE_COMPUTED:
            self.run["ledger_sha256"] = sha256(ledger) if ledger else None
        (root / "spec.json").write_bytes(canonical(self.spec) + b"\n")
        (root / "manifest.json").write_bytes(json.dumps(self.manifest, indent=1).encode())
        (root / "run.json").write_bytes(canonical(self.run) + b"\n")
        (root / "journal.json").write_bytes(canonical(self.journal))
        (root / "ledger.jsonl").write_bytes(ledger)
        (root / "trials").mkdir()
        for trial in self.trials:
            if trial.written:
                write_trial(root / "trials" / str(trial.number), trial)
        return root


def write_trial(base: Path, trial: TrialCase) -> None:
    job = base / "job"
    (job / trial.folder).mkdir(parents=True)
    if trial.supervision is not None:
        (base / "supervision.json").write_bytes(canonical(trial.supervision))
    lines = [canonical({**event, "seq": number}) for number, event in enumerate(trial.events)]
    (base / "observed.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    documents = {
        f"job/{trial.folder}/result.json": trial.result,
        f"job/{trial.folder}/lock.json": trial.lock,
        "job/lock.json": trial.job_lock,
        "job/config.json": trial.job_config,
        "job/result.json": trial.job_result,
        f"job/{trial.folder}/config.json": trial.config,
        "config.json": trial.told,
        "environment.json": trial.plan,
    }
    for path, document in documents.items():
        if document is not None:
            data = document if isinstance(document, bytes) else json.dumps(document, indent=4).encode()
            (base / path).write_bytes(data)
    for path in trial.empty:
        (base / path).mkdir()
    for path, data in {**{f"kept/{path}": data for path, data in trial.kept.items()}, **trial.extra}.items():
        (base / path).parent.mkdir(parents=True, exist_ok=True)
        (base / path).write_bytes(data)


# What `write` makes again of a ledger's lines, whatever a test changed.
_COMPUTED = ("seq", "prev", "count", "sha256", "spec_sha256")


def load_run(root: Path) -> RunCase:
    """A stored run's folder as documents, so that the same changes can be made to it."""
    global _origin
    run = json.loads((root / "run.json").read_bytes())
    if "ledger_sha256" in run:
        run["ledger_sha256"] = _TO_BE_COMPUTED
    _origin = datetime.fromisoformat(run["started_at"])
    return RunCase(
        spec=json.loads((root / "spec.json").read_bytes()),
        run=run,
        journal=json.loads((root / "journal.json").read_bytes()),
        ledger=[
            {key: value for key, value in json.loads(line).items() if key not in _COMPUTED}
            for line in (root / "ledger.jsonl").read_bytes().splitlines()
        ],
        trials=[_load_trial(path) for path in sorted((root / "trials").iterdir())],
        manifest=json.loads((root / "manifest.json").read_bytes()),
    )


def _load_trial(base: Path) -> TrialCase:
    (folder,) = [path.name for path in (base / "job").iterdir() if path.is_dir()]
    files = {path.relative_to(base).as_posix(): path.read_bytes() for path in base.rglob("*") if path.is_file()}
    supervision = json.loads(files.pop("supervision.json"))
    started = datetime.fromisoformat(supervision["started_at"])
    trial = TrialCase(
        number=int(base.name),
        offset=(started - _origin).total_seconds(),
        supervision=supervision,
        events=[json.loads(line) for line in files.pop("observed.jsonl").splitlines()],
        result=json.loads(files.pop(f"job/{folder}/result.json")),
        lock=json.loads(files.pop(f"job/{folder}/lock.json")),
        job_lock=json.loads(files.pop("job/lock.json")),
        job_config=json.loads(files.pop("job/config.json")),
        job_result=json.loads(files.pop("job/result.json")),
        config=json.loads(files.pop(f"job/{folder}/config.json")),
        told=json.loads(files.pop("config.json")),
        plan=json.loads(files.pop("environment.json")),
        kept={path.removeprefix("kept/"): data for path, data in files.items() if path.startswith("kept/")},
        folder=folder,
    )
    trial.extra = {path: data for path, data in files.items() if not path.startswith("kept/")}
    return trial


def chain(lines: list[dict[str, Any]]) -> bytes:
    """The ledger's bytes, with number, time, hash chain and a closing line that fits, unless a line brings its own.

    The first line says the version; without one a request's line has the form from before version 3.
    """
    previous, out, time = "0" * 64, [], at(0)
    more = {"api": None, "flags": [], "said_status": None, "retry_after_s": None}
    used = dict.fromkeys(
        ("cached_tokens", "estimated_prompt_tokens", "estimated_completion_tokens", "reported_cost")
    ) | {"waited_ms": 0}
    newer = {3: more, 4: more | used}
    for number, line in enumerate(lines):
        said = newer.get(lines[0].get("version", 2), {}) if "bytes_in" in line else {}
        full = {"seq": number, "prev": previous, "at": time, **said, **line}
        time = full["at"]
        if full["kind"] == "closed":
            full.setdefault("count", number)
            if lines[0]["kind"] == "opened":
                full.setdefault("sha256", sha256(canonical(full)))
        data = canonical(full)
        previous = sha256(data)
        out.append(data + b"\n")
    return b"".join(out)


def request(trial: int | None, **changes: Any) -> dict[str, Any]:
    """One request line; by default a well-formed completion."""
    return {
        "trial": trial,
        "kind": "ok",
        "code": None,
        "status": 200,
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "bytes_in": 1000,
        "bytes_out": 500,
        "duration_ms": 20,
        "request_sha256": "c" * 64,
        "response_sha256": "d" * 64,
        "message_sha256": "e" * 64,
        "session_matches": True,
        **changes,
    }


def failed_request(code: str, status: int | None = None) -> dict[str, Any]:
    return {
        "kind": "upstream_error",
        "code": code,
        "status": status,
        "prompt_tokens": None,
        "completion_tokens": None,
        "response_sha256": None,
        "message_sha256": None,
    }


def preflight_check(name: str) -> dict[str, Any]:
    return {"name": name, "passed": True, "code": f"{name}.ok", "detail": "", "remedy": "", "level": "block"}


def worker_record(version: str = "0.1.0") -> dict[str, Any]:
    """What a worker records of itself when it claims a run."""
    return {
        "version": version,
        "report": {
            "engine": {"version": "29.6.1", "kernel": "6.1.0", "architecture": "x86_64", "cpus": 4, "memory_bytes": 8},
            "limits": [{"name": "memory", "enforced": True, "mechanism": "cgroup v2 memory limit", "detail": ""}],
            "assets": {
                "harness": {"lock_sha256": "4" * 64, "tree_sha256": "5" * 64},
                "images": {"agent": AGENT_IMAGE, "verifier": VERIFIER_IMAGE, "gateway": "sha256:" + "c" * 64},
            },
        },
        "image_recipes": dict.fromkeys(("agent", "verifier", "gateway"), "8" * 64),
        "harness": {"interpreter": "3.12.1", "adapter_sha256": "6" * 64},
    }


def passing_run(tasks: int = 3) -> RunCase:
    """A run of `tasks` trials that all pass."""
    global _origin
    _origin = START
    trials = [_trial(number) for number in range(1, tasks + 1)]
    asked = [request(trial.number, at=at(trial.offset + 5 + step)) for trial in trials for step in range(3)]
    opening = {"kind": "opened", "version": 4, "run_id": RUN_ID, "nonce": f"{2:032x}"}
    return RunCase(
        spec=_spec(tasks),
        manifest=_manifest(tasks),
        run={
            "schema": "benchsite.run-facts/v1",
            "run_id": RUN_ID,
            "spec_sha256": "",
            "started_at": at(0),
            "ended_at": at(tasks * 100),
            "cancel_requested_at": None,
            "interrupted": False,
            "deadline": None,
            "failure": None,
            "preflight": [preflight_check(name) for name in sorted(PREPARED)],
            "probe": {
                "passed": True,
                "checks": [{"name": name, "passed": True, "code": None, "detail": ""} for name in sorted(PROBED)],
                "unproved": [],
            },
            "readiness": {"checks": [preflight_check(name) for name in sorted(ASKED)], "seconds": 0.1},
            "gateway": {"container_id": GATEWAY, "closed": True, "died": None},
            "ledger_sha256": _TO_BE_COMPUTED,
            "worker": worker_record(),
        },
        journal=_journal(trials),
        ledger=[opening, *asked, {"kind": "closed"}],
        trials=trials,
    )


LIMITS = {"cpus": 1.0, "memory_bytes": 2**30, "pids": 256, "nofile": 1024, "tmpfs": {"/tmp": 2**26}}


def _manifest(tasks: int) -> dict[str, Any]:
    """A reviewed manifest, the parts that a run's files are held against."""
    return {
        "schema": "benchsite.task-bundle/v1",
        "tasks": [
            {
                "name": f"task-{n}",
                "checksum": checksum(n),
                "files_sha256": FILES_SHA256,
                "files": task_files(),
                "artifacts": ["/app/output"],
            }
            for n in range(1, tasks + 1)
        ],
    }


def _spec(tasks: int) -> dict[str, Any]:
    limits = LIMITS
    return {
        "schema": "benchsite.run-spec/v1",
        "suite": "environment",
        "profile": {"name": "environment-smoke", "content_sha256": "1" * 64, "file_sha256": "2" * 64},
        "bundle": {"name": "environment-smoke", "revision": 1, "manifest_sha256": sha256(canonical(_manifest(tasks)))},
        "harness": {
            "lock_sha256": "4" * 64,
            "tree_sha256": "5" * 64,
            "harbor": "0.22.0",
            "agent": "mini-swe-agent",
            "agent_version": AGENT_VERSION,
            "adapter_sha256": "6" * 64,
            "python": "3.12.1",
        },
        "images": {"agent": AGENT_IMAGE, "verifier": VERIFIER_IMAGE, "gateway": "sha256:" + "c" * 64},
        "worker": {"name": "local", "capability_sha256": "7" * 64},
        "endpoint": {
            "name": "scripted",
            "version": 1,
            "base_url": "http://endpoint.test/v1",
            "host": "endpoint.test",
            "model": ALIAS,
            "served_model": None,
            "route": "direct",
            "credential": {"kind": "none", "name": None},
            "scripted": True,
        },
        "tasks": [
            {"ordinal": n, "name": f"task-{n}", "checksum": checksum(n), "files_sha256": FILES_SHA256}
            for n in range(1, tasks + 1)
        ],
        "controls": {
            "max_steps": 8,
            "max_completion_tokens": 1024,
            "max_concurrent_trials": 1,
            "max_attempts": 1,
            "retries": 0,
            "model_attempts": 1,
            "request_timeout_s": 60,
            "drop_params": False,
            "verification": True,
            "install_only": False,
        },
        "limits": {
            "run_s": 1800,
            "trial_s": 600,
            "environment_start_s": 30,
            "agent_setup_s": 60,
            "agent_s": 300,
            "verifier_s": 60,
            "agent": limits,
            "verifier": limits,
            "gateway": limits,
        },
        "scoring": {"reward_key": "reward", "pass_value": 1, "fail_value": 0, "pass_rate_floor": 1.0},
        "evidence_version": 2,
    }


def _journal(trials: list[TrialCase]) -> dict[str, Any]:
    shared = [
        {
            "nonce": f"{index:032x}",
            "kind": "network" if role == "network" else "container",
            "role": role,
            "trial": None,
            "session_id": session,
            "trial_uuid": None,
            "image_id": image,
            "resource_id": resource,
            "stage": "removed",
            "changed_at": at(1000),
            "outcome": "removed",
            "detail": None,
            "attempts": 1,
        }
        for index, (role, image, resource, session) in enumerate(
            (
                ("network", None, NETWORK, None),
                ("network", None, "d" * 64, None),
                ("gateway", "sha256:" + "c" * 64, GATEWAY, None),
                ("probe", VERIFIER_IMAGE, "2" * 64, None),
                ("probe", AGENT_IMAGE, "3" * 64, "image-mark-agent"),
                ("probe", VERIFIER_IMAGE, "4" * 64, "image-mark-verifier"),
                ("probe", "sha256:" + "c" * 64, "5" * 64, "image-mark-gateway"),
            )
        )
    ]
    resources = [
        {
            "nonce": f"{trial.number:030x}{index:02x}",
            "kind": "container",
            "role": role,
            "trial": trial.number,
            "session_id": f"{SESSION}__{'env' if role == 'agent' else 'verifier__trial'}",
            "trial_uuid": trial.uuid,
            "image_id": image,
            "resource_id": container_of(trial.number, role),
            "stage": "removed",
            "changed_at": at(trial.offset + 60),
            "outcome": "removed",
            "detail": None,
            "attempts": 1,
        }
        for trial in trials
        for index, (role, image) in enumerate((("agent", AGENT_IMAGE), ("verifier", VERIFIER_IMAGE)))
    ]
    processes = [{"trial": trial.number, **trial.supervision["process"]} for trial in trials if trial.supervision]
    return {
        "schema": "anvil-serving.benchmark-owned-resources/v1",
        "run_id": RUN_ID,
        "owner": OWNER,
        "created_at": at(0),
        "resources": shared + resources,
        "processes": processes,
        "fence": {"at": at(900), "reason": "ended"},
    }


def container_of(trial: int, role: str) -> str:
    return f"{trial:062x}{('agent', 'verifier').index(role):02x}"


def _trial(number: int) -> TrialCase:
    offset = (number - 1) * 100.0
    config = trial_config(number)
    trial = TrialCase(
        number=number,
        offset=offset,
        supervision={
            "schema": "benchsite.supervision/v1",
            "trial": number,
            "started_at": at(offset),
            "ended_at": at(offset + 40),
            "mono_started": 1000.0 + offset,
            "mono_ended": 1040.0 + offset,
            "exit_code": 0,
            "signal": None,
            "deadline": None,
            "cancel_requested": False,
            "interrupted": False,
            "process": {"pid": 100, "start_ticks": 5, "pgid": 100, "sid": 100, "boot_id": "b"},
        },
        events=[],
        result=_result(number, offset, _masked(config)),
        lock=_trial_lock(_masked(config)),
        job_lock=_job_lock(_masked(config)),
        job_config=_job_config(config, "benc****a0a"),
        job_result=_job_result(),
        config=_masked(config),
        told=_job_config(config, PLACEHOLDER),
        plan=_plan(number),
        kept={
            "agent/mini-swe-agent.trajectory.json": b'{"messages": []}',
            "agent/mini-swe-agent.txt": b"log\n",
            "artifacts/app/output/answer.json": b"{}",
            "verifier/reward.json": b'{"reward": 1}',
            "verifier/test-stdout.txt": b"ok\n",
        },
    )
    trial.events = _events(trial)
    trial.recopy()
    upload = trial.event("transfer", purpose="artifacts_in")
    taken = trial.event("transfer", purpose="artifact", path="/app/output")["entries"]
    list_files(upload, [{name: entry[name] for name in ("path", "size", "sha256")} for entry in taken])
    for purpose in ("tests", "environment"):
        list_files(trial.event("transfer", purpose=purpose), task_files(f"{purpose}/"))
    return trial


def _events(trial: TrialCase) -> list[dict[str, Any]]:
    agent, verifier = {"role": "agent"}, {"role": "verifier"}
    state = {"event": "state", "status": "exited", "exit_code": 0, "oom_killed": False}
    rows = [
        (0, {"event": "launched", "role": None, "network_namespace": True, "detail": None}),
        (1, {**opened(trial, "agent", AGENT_IMAGE), **agent}),
        (2, {**transfer("upload", "environment", "/app"), **agent}),
        (3, {**command("setup", 1.0), **agent}),
        (4, {"event": "agent_version", "version": AGENT_VERSION, "exit_code": 0, **agent}),
        (14, {**command("agent", 10.0), **agent}),
        (15, {"event": "killed_others", "remaining": 0, **agent}),
        (15, {**transfer("download", "agent_logs", "/logs/agent", "kept/agent"), **agent}),
        (16, {**transfer("download", "artifact", "/logs/artifacts", "kept/artifacts/logs/artifacts"), **agent}),
        (16, {**transfer("download", "artifact", "/app/output", "kept/artifacts/app/output"), **agent}),
        (16, {**counters(), **agent}),
        (16, {**transfer("upload", "agent_logs", "/logs/agent"), "code": "transfer.not_needed", **agent}),
        (16, {**state, **agent}),
        (17, {"event": "removed", "outcome": "removed", **agent}),
        (17, {"event": "closed", **agent}),
        (18, {**opened(trial, "verifier", VERIFIER_IMAGE), **verifier}),
        (19, {**transfer("upload", "tests", "/tests"), **verifier}),
        (19, {**transfer("upload", "artifacts_in", "/logs/artifacts"), **verifier}),
        (19, {**transfer("upload", "artifacts_in", "/app/output"), **verifier}),
        (21, {**command("verifier", 1.0), **verifier}),
        (22, {**transfer("download", "verifier_logs", "/logs/verifier", "kept/verifier"), **verifier}),
        (22, {**counters(), **verifier}),
        (22, {**state, **verifier}),
        (23, {"event": "removed", "outcome": "removed", **verifier}),
        (23, {"event": "closed", **verifier}),
    ]
    events = []
    for seconds, event in rows:
        stamp = {"at": at(trial.offset + seconds), "mono": 1000.0 + trial.offset + seconds}
        if event["event"] == "exec":
            event["started_mono"] = stamp["mono"] - event["duration_s"]
        events.append({**event, **stamp})
    return events


def opened(trial: TrialCase, role: str, image: str) -> dict[str, Any]:
    return {
        "event": "opened",
        "trial": trial.number,
        "trial_uuid": trial.uuid,
        "session_id": f"{SESSION}__{'env' if role == 'agent' else 'verifier__trial'}",
        "container_id": container_of(trial.number, role),
        "image_id": image,
        "limits": copy.deepcopy(LIMITS),
        "network": NETWORK if role == "agent" else None,
        "warnings": [],
    }


def command(purpose: str, duration: float, exit_code: int | None = 0) -> dict[str, Any]:
    return {
        "event": "exec",
        "purpose": purpose,
        "exit_code": exit_code,
        "duration_s": duration,
        "timed_out": False,
        "cancelled": False,
        "orphaned": False,
        "output_bytes": 10,
        "output_truncated": False,
    }


def transfer(direction: str, purpose: str, path: str, kept: str | None = None) -> dict[str, Any]:
    return {
        "event": "transfer",
        "direction": direction,
        "purpose": purpose,
        "path": path,
        "outcome": "ok",
        "code": None,
        "files": 0,
        "size": 0,
        "sha256": None,
        "kept": kept,
        "entries": [],
        **({"refusals": [], "refused": {}} if direction == "download" else {}),
    }


def list_files(event: dict[str, Any], entries: list[dict[str, Any]]) -> None:
    """Gives a transfer these files, with their count, size and hash as the attendant writes them."""
    listed = [Entry(entry["path"], entry["size"], entry["sha256"]) for entry in entries]
    event["entries"] = entries[:200]
    event.update(files=len(entries), size=sum(entry.size for entry in listed), sha256=combined_sha256(listed))


def counters(**changes: Any) -> dict[str, Any]:
    tmpfs = {"/tmp": {"used": 4096, "size": 2**26}}
    return {
        "event": "counters",
        "oom_kill": 0,
        "pids_max": 0,
        "memory_peak_bytes": 1000,
        "tmpfs": tmpfs,
        "available": True,
        **changes,
    }


def trial_config(number: int) -> dict[str, Any]:
    """Harbor's resolved TrialConfig of one trial, the parts that are compared and some that are not."""
    return {
        "task": {"path": f"{RUN_ROOT}/tasks/task-{number}", "name": None, "source": None},
        "trial_name": SESSION,
        "trials_dir": f"{RUN_ROOT}/trials/{number}/job",
        "install_only": False,
        "timeout_multiplier": 1.0,
        "agent_timeout_multiplier": 1.0,
        "verifier_timeout_multiplier": 1.0,
        "agent_setup_timeout_multiplier": 1.0,
        "environment_build_timeout_multiplier": 1.0,
        "agent": {
            "name": "mini-swe-agent",
            "import_path": None,
            "model_name": f"openai/{ALIAS}",
            "skills": [],
            "n_concurrent": 1,
            "override_timeout_sec": 300.0,
            "override_setup_timeout_sec": 60.0,
            "max_timeout_sec": 300.0,
            "load_trajectory": None,
            "kwargs": {
                "version": AGENT_VERSION,
                "max_tokens": 1024,
                "config": {
                    "agent": {"step_limit": 8},
                    "model": {
                        "cost_tracking": "ignore_errors",
                        "model_kwargs": {"max_retries": 0, "timeout": 70, "drop_params": False},
                    },
                },
            },
            "env": {"OPENAI_API_KEY": PLACEHOLDER, "OPENAI_BASE_URL": "http://model-gateway:8080/v1"},
            "mcp_servers": [],
        },
        "user_agent": None,
        "environment": {
            "type": None,
            "import_path": "runs.harness.environment:OwnedEnvironment",
            "mounts": None,
            "extra_docker_compose": [],
            "kwargs": {"plan": f"{RUN_ROOT}/trials/{number}/environment.json"},
        },
        "verifier": {"override_timeout_sec": 60.0, "max_timeout_sec": 60.0, "disable": False},
        "artifacts": [],
        "job_id": JOB_ID,
        "source_trial": None,
    }


def _masked(config: dict[str, Any]) -> dict[str, Any]:
    """As Harbor writes it: a sensitive value by its ends."""
    shown = copy.deepcopy(config)
    shown["agent"]["env"]["OPENAI_API_KEY"] = "benc****a0a"
    return shown


def _plan(number: int) -> dict[str, Any]:
    network = {"network_id": NETWORK, "network_name": f"benchsite-{0:032x}", "gateway_ip": "172.20.0.2"}
    role = {**copy.deepcopy(LIMITS), "env": {}}
    return {
        "schema": "benchsite.environment-plan/v2",
        "run_id": RUN_ID,
        "trial": number,
        "task": f"task-{number}",
        "journal_directory": RUN_ROOT,
        "roles": {
            "agent": {"image_id": AGENT_IMAGE, **role, **network, "gateway_host": "model-gateway"},
            "verifier": {"image_id": VERIFIER_IMAGE, **copy.deepcopy(role)},
        },
        "bounds": {"exec_output_bytes": 262144, "transfer_bytes": 2**26, "transfer_files": 2048},
        "placeholder": PLACEHOLDER,
        "conduct": {
            "agent": {
                "session": "__env", "exclusive": True, "uploads": {"environment": "/app"},
                "downloads": ["/logs/agent", "/logs/artifacts"], "artifacts": True,
            },
            "verifier": {
                "session": "__verifier__trial", "exclusive": False,
                "uploads": {"tests": "/tests", "artifacts_in": None},
                "downloads": ["/logs/verifier"], "artifacts": False,
            },
        },
        "deadlines": {"setup": 60, "agent": 300, "verifier": 60},
    }  # fmt: skip


def _job_result() -> dict[str, Any]:
    graded = {"metrics": [{"mean": 1.0}], "reward_stats": {"reward": {"1": [SESSION]}}, "exception_stats": {}}
    counts = dict.fromkeys(("n_running_trials", "n_pending_trials", "n_cancelled_trials", "n_retries"), 0)
    return {
        "id": JOB_ID,
        "finished_at": at(30),
        "n_total_trials": 1,
        "stats": {"n_completed_trials": 1, **counts, "evals": {f"mini-swe-agent__{ALIAS}__adhoc": graded}},
    }


def _result(number: int, offset: float, config: dict[str, Any]) -> dict[str, Any]:
    def span(start: float, end: float) -> dict[str, str]:
        return {"started_at": at(offset + start), "finished_at": at(offset + end)}

    return {
        "id": str(UUID(int=number)),
        "task_name": f"task-{number}",
        "trial_name": SESSION,
        "trial_uri": "file:///data",
        "task_id": {"path": config["task"]["path"]},
        "source": None,
        "task_checksum": checksum(number),
        "config": copy.deepcopy(config),
        "agent_info": {"name": "mini-swe-agent", "version": AGENT_VERSION, "model_info": {"name": ALIAS}},
        "agent_result": {"n_input_tokens": 300, "n_cache_tokens": 0, "n_output_tokens": 30, "cost_usd": 0},
        "verifier_result": {"rewards": {"reward": 1}},
        "verifier_environment_mode": "separate",
        "exception_info": None,
        "started_at": at(offset),
        "finished_at": at(offset + 30),
        "environment_setup": span(0.5, 2),
        "agent_setup": span(2, 4),
        "agent_execution": span(4, 15),
        "verifier": span(17, 23),
        "step_results": None,
    }


def _trial_lock(config: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in config.items() if key not in ("task", "trial_name", "trials_dir", "job_id")}
    return {
        "schema_version": 2,
        "task": {
            "name": config["task"]["path"].rpartition("/")[2],
            "type": "local",
            "digest": f"sha256:{FILES_SHA256}",
            "path": config["task"]["path"],
        },
        **copy.deepcopy(kept),
        "verifier": {**config["verifier"], "environment_mode": "separate"},
    }


def _job_lock(config: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema_version": 3,
        "created_at": at(0),
        "harbor": {"version": "0.22.0", "git_commit_hash": None, "is_editable": False},
        "n_concurrent_trials": 1,
        "retry": {"max_retries": 0},
        "trials": [_trial_lock(config)],
    }


def _job_config(config: dict[str, Any], api_key: str) -> dict[str, Any]:
    agent = copy.deepcopy(config["agent"])
    agent["env"]["OPENAI_API_KEY"] = api_key
    return {
        "job_name": "job",
        "jobs_dir": config["trials_dir"].removesuffix("/job"),
        "quiet": True,
        **{f"{phase}_timeout_multiplier": 1.0 for phase in ("agent", "verifier", "agent_setup", "environment_build")},
        "n_attempts": 1,
        "install_only": False,
        "timeout_multiplier": 1.0,
        "n_concurrent_trials": 1,
        "retry": {"max_retries": 0},
        "environment": copy.deepcopy(config["environment"]),
        "verifier": copy.deepcopy(config["verifier"]),
        "agents": [agent],
        "tasks": [copy.deepcopy(config["task"])],
    }


def exception(name: str) -> dict[str, Any]:
    return {
        "exception_type": name,
        "exception_message": "SENTINEL message",
        "exception_traceback": "SENTINEL traceback",
        "occurred_at": at(20),
    }
