"""A site with believable rows: a passed, a failed, an erroneous, a cancelled, a running and a queued run.

Everything is invented and repeatable; ids come from names. No file is written.
"""

import base64
import hashlib
import json
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import time_machine
from django.contrib.auth.models import Group, User
from django.utils import timezone

from evidence.models import Experiment, RunStatement, SigningKey
from evidence.origin.envelope import key_id_of
from runs.documents.bundle import packaged
from runs.models import (
    AuditEntry,
    AuditKind,
    BundleStatus,
    Cleanup,
    Endpoint,
    LogLine,
    OwnedResource,
    Profile,
    Run,
    RunState,
    Stage,
    StageMark,
    TaskBundle,
    Trial,
    Worker,
)
from runs.outcomes.buckets import Verdict
from runs.outcomes.codes import CODES, STEP_OF_ROW
from runs.services import previewing, registry, reviewing, workers
from runs.services.previewing import Choice
from tests.pages import experiment_rows
from tests.pages.evidence_files import conversation, keep

PASSWORD = "a long enough password"


def digest(name: str) -> str:
    """A hash that looks like one; the same name gives the same hash."""
    return hashlib.sha256(name.encode()).hexdigest()


@dataclass
class Site:
    """The people and records that runs refer to."""

    viewer: User
    operator: User
    other_operator: User
    reviewer: User
    admin: User
    worker: Worker
    profile: Profile
    bundle: TaskBundle
    endpoint: Endpoint
    other_endpoint: Endpoint
    runs: dict[str, Run] = field(default_factory=dict)
    experiments: dict[str, Experiment] = field(default_factory=dict)

    @property
    def choice(self) -> Choice:
        """What a preview would show when nothing is narrowed."""
        return Choice(self.profile, self.bundle, self.endpoint, self.worker)


def person(name: str, *roles: str, staff: bool = False) -> User:
    user = User.objects.create_user(name, password=PASSWORD, is_staff=staff)
    user.groups.set(Group.objects.filter(name__in=roles))
    return user


def site() -> Site:
    """The packaged profile and bundle, two endpoints, a worker that enforces all but two limits, five people."""
    admin = person("admin-1", "admin", staff=True)
    worker = _worker()
    profile = registry.store_profile((packaged.ENVIRONMENT_SMOKE / "profile.json").read_bytes(), user=admin)
    bundle = reviewing.install_packaged(
        packaged.read_bundle(packaged.ENVIRONMENT_SMOKE),
        name="environment-smoke",
        certification={"passed": True},
        reviewed_by="reviewer-1",
        note="Packaged with benchsite.",
    )
    return Site(
        viewer=person("viewer-1", "viewer"),
        operator=person("operator-1", "operator"),
        other_operator=person("operator-2", "operator"),
        reviewer=person("reviewer-1", "reviewer", staff=True),
        admin=admin,
        worker=worker,
        profile=profile,
        bundle=bundle,
        endpoint=endpoint("serving-a", "coder-medium"),
        other_endpoint=endpoint("serving-b", "coder-small"),
    )


def _worker() -> Worker:
    name, not_enforced = "worker-1", ("core",)
    limits = [
        {"name": limit, "enforced": limit not in not_enforced, "mechanism": mechanism, "detail": ""}
        for limit, mechanism in _LIMITS.items()
    ]
    report = {
        "schema": "benchsite.capabilities/v1",
        "worker": name,
        "host": "bench-1.internal",
        "platform": "Linux x86_64",
        "python": "3.12.1",
        "network_namespace": True,
        "disk_free_bytes": 64 << 30,
        "sandbox": {"made": True, "own_uid": False, "code": None, "detail": ""},
        "assets": {},
        "engine": {
            "version": "20.10.24",
            "api": "1.41",
            "cgroup_version": "1",
            "cgroup_driver": "cgroupfs",
            "storage_driver": "overlay2",
            "kernel": "5.15.0",
            "system": "Debian GNU/Linux 12",
            "architecture": "x86_64",
            "cpus": 8,
            "memory_bytes": 25_200_000_000,
        },
        "engine_problem": None,
        "limits": limits,
    }
    worker = workers.record_report(name, report, capability_sha256=digest("capabilities"), host="bench-1.internal")
    Worker.objects.filter(pk=worker.pk).update(heartbeat_at=timezone.now(), pid=4242)
    workers.record_harness_lock(name, _HARNESS)
    recipes = json.loads((packaged.ENVIRONMENT_SMOKE / "manifest.json").read_bytes())["images"]
    images = {
        role: {"image_id": f"sha256:{digest(role)}", "recipe_sha256": entry["recipe_sha256"], "layers": []}
        for role, entry in recipes.items()
    }
    workers.record_image_locks(name, images)
    return Worker.objects.get(pk=worker.pk)


_LIMITS = {
    "cpu": "cgroup v1 CPU quota",
    "memory": "cgroup v1 memory limit without extra swap",
    "pids": "cgroup v1 pids limit",
    "nofile": "RLIMIT_NOFILE",
    "storage": "sized tmpfs",
    "read_only_root": "read-only root file system",
    "capabilities": "capability bounding set",
    "no_new_privileges": "no_new_privs",
    "seccomp": "engine's default seccomp filter",
    "core": "RLIMIT_CORE 0",
    "no_network": "empty network namespace",
}
_HARNESS = {
    "lock_sha256": digest("lock"),
    "tree_sha256": digest("tree"),
    "harbor": "0.22.0",
    "agent": "mini-swe-agent",
    "agent_version": "2.4.6",
    "adapter_sha256": digest("adapter"),
    "python": "3.12.1",
}


def draft_bundle(on: Site) -> TaskBundle:
    """A certified next revision that differs in its description and in one task file."""
    document = json.loads(on.bundle.manifest)
    document["revision"] = on.bundle.revision + 1
    document["tasks"][1]["title"] = "Merge two configuration files, later values win"
    document["tasks"][1]["files"][0]["sha256"] = digest("changed")
    manifest = _canonical(document)
    return TaskBundle.objects.create(
        name=on.bundle.name,
        revision=document["revision"],
        manifest=manifest,
        manifest_sha256=hashlib.sha256(manifest.encode()).hexdigest(),
        packaged="environment-smoke",
        status=BundleStatus.CERTIFIED,
        certified_at=timezone.now() - timedelta(hours=3),
        created_by_id=on.admin.pk,
        created_by_name=on.admin.username,
    )


def endpoint(name: str, model: str, *, scripted: bool = False) -> Endpoint:
    return registry.register_endpoint(
        {
            "schema": "benchsite.endpoint/v1",
            "name": name,
            "base_url": f"https://{name}.internal/v1",
            "model": model,
            "route": "direct",
            "credential": {"kind": "env", "name": "SERVING_A_KEY"},
            "controls": ["max_tokens"],
            "scripted": scripted,
        },
        user=None,
    )


def spec(on: Site, endpoint: Endpoint) -> str:
    """The spec that a preview of these choices resolves to, as canonical JSON; the same choices are resolved once."""
    key = (on.bundle.manifest_sha256, endpoint.record_sha256, endpoint.version)
    if key not in _specs:
        _specs[key] = _resolved(on, endpoint)
    return _specs[key]


_specs: dict[tuple[str, str, int], str] = {}


def _resolved(on: Site, endpoint: Endpoint) -> str:
    resolved, _checks = previewing.resolve(previewing.Choice(on.profile, on.bundle, endpoint, on.worker))
    if resolved is None:
        raise AssertionError("the invented site does not resolve a spec")
    return resolved.text


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


@dataclass
class TrialPlan:
    """How one invented trial goes."""

    bucket: str | None
    agent_s: float = 44.0
    code: str = ""
    klass: str = ""
    steps: int | None = 9
    tokens: tuple[int, int] | None = (41_870, 2_316)
    badges: tuple[str, ...] = ()


PLANS: dict[str, list[TrialPlan]] = {
    "passed": [TrialPlan("passed"), TrialPlan("passed", 61, steps=14), TrialPlan("passed", 38, steps=7)],
    "failed": [
        TrialPlan("passed"),
        TrialPlan("failed", 108, steps=32, tokens=(268_412, 9_874), badges=("step_limit_reached",)),
        TrialPlan("passed", 52, steps=11),
    ],
    "error": [
        TrialPlan("passed"),
        TrialPlan("failed", 88, steps=27, tokens=(198_210, 8_120)),
        TrialPlan("error", 71, "grading.reward_boolean", "grading", 22, (158_033, 6_905)),
    ],
    "incomplete": [
        TrialPlan("passed"),
        TrialPlan("error", 300, "incomplete.agent_deadline", "incomplete", 30, None),
        TrialPlan("passed", 41),
    ],
    "cancelled": [
        TrialPlan("passed"),
        TrialPlan("cancelled", 12, "cancelled.requested", "cancelled", None, None),
        TrialPlan("cancelled", 0, "cancelled.requested", "cancelled", None, None),
    ],
    "running": [TrialPlan("passed"), TrialPlan(None, 0, steps=None, tokens=None), TrialPlan(None, 0)],
    "queued": [TrialPlan(None, 0), TrialPlan(None, 0), TrialPlan(None, 0)],
    "broken": [TrialPlan("error", 0, "worker_runtime.probe", "worker_runtime", None, None)] * 3,
}
_STATES: dict[str, tuple[RunState, Verdict | None]] = {
    "passed": (RunState.FINISHED, Verdict.PASSED),
    "failed": (RunState.FINISHED, Verdict.FAILED),
    "error": (RunState.FINISHED, Verdict.ERROR),
    "incomplete": (RunState.FINISHED, Verdict.INCOMPLETE),
    "cancelled": (RunState.CANCELLED, Verdict.CANCELLED),
    "running": (RunState.RUNNING, None),
    "queued": (RunState.QUEUED, None),
    "broken": (RunState.FAILED, Verdict.ERROR),
}


def make_run(
    on: Site,
    kind: str,
    *,
    at: datetime | None = None,
    name: str = "",
    endpoint: Endpoint | None = None,
    host: str = "bench-1.internal",
) -> Run:
    """One run of ``kind`` (a key of ``PLANS``) with its trials, resources, log, stage marks and audit."""
    plans = PLANS[kind]
    state, verdict = _STATES[kind]
    at = at or timezone.now() - timedelta(minutes=20)
    endpoint = endpoint or on.endpoint
    text = spec(on, endpoint)
    tasks = json.loads(text)["tasks"]
    buckets = [plan.bucket for plan in plans]
    counts = {bucket: buckets.count(bucket) for bucket in ("passed", "failed", "error", "cancelled")}
    claimed = None if kind == "queued" else at + timedelta(seconds=2)
    length = 6 + sum(plan.agent_s + 6 for plan in plans if plan.bucket) + 4
    ended = claimed + timedelta(seconds=length) if verdict and claimed else None
    values: dict[str, Any] = {}
    if claimed:
        values |= {
            "claimed_at": claimed,
            "lease_pid": 4242,
            "lease_host": host,
            "lease_start_ticks": 1,
        }
    if kind == "running":
        values |= {"heartbeat_at": timezone.now(), "stage": Stage.TRIAL, "stage_trial": 2}
    elif kind != "queued":
        values |= {"heartbeat_at": ended, "stage": Stage.ENDED}
    if kind == "cancelled":
        values |= {
            "cancel_requested_at": ended - timedelta(seconds=2) if ended else None,
            "cancel_requested_by_name": on.other_operator.username,
        }
    if kind == "broken":
        values |= {
            "failure_stage": "probe",
            "failure_class": "worker_runtime",
            "failure_code": "worker_runtime.probe",
        }
    cleanup = Cleanup.FAILED if kind == "error" else Cleanup.CLEAN if verdict else Cleanup.PENDING
    run = Run(
        id=uuid.UUID(hex=digest(name or f"{kind}{at}{endpoint.name}")[:32]),
        profile=on.profile,
        bundle=on.bundle,
        endpoint=endpoint,
        worker=on.worker,
        spec=text,
        spec_sha256=hashlib.sha256(text.encode()).hexdigest(),
        state=state,
        verdict=verdict,
        cleanup=cleanup,
        cleanup_attempts=1 if verdict else 0,
        count_requested=len(plans),
        count_evaluated=counts["passed"] + counts["failed"],
        **{f"count_{bucket}": n for bucket, n in counts.items()},
        created_by=on.operator,
        created_by_name=on.operator.username,
        ended_at=ended,
        **values,
    )
    with time_machine.travel(at, tick=False):
        run.save(force_insert=True)
    _trials(run, plans, tasks)
    if claimed:
        with time_machine.travel(ended or timezone.now(), tick=False):
            _resources(run, kind)
        _log(run, kind)
        _marks(run, kind)
    with time_machine.travel(at, tick=False):
        _audit(on, run, kind)
    on.runs[kind] = run
    return run


def _marks(run: Run, kind: str) -> None:
    """When the run entered its stages, as the worker writes it."""
    start = run.claimed_at or run.created_at
    marks = [(Stage.PREFLIGHT, start), (Stage.GATEWAY, start + timedelta(seconds=2))]
    marks.append((Stage.PROBE, start + timedelta(seconds=4)))
    if kind != "broken":
        marks.append((Stage.TRIAL, start + timedelta(seconds=6)))
    if run.ended_at:
        marks.append((Stage.INGEST, run.ended_at - timedelta(seconds=4)))
        marks += [(Stage.CLEANUP, run.ended_at - timedelta(seconds=2.5)), (Stage.ENDED, run.ended_at)]
    for stage, at in marks:
        StageMark.objects.create(run=run, stage=stage, trial=1 if stage is Stage.TRIAL else None, at=at)


def _trials(run: Run, plans: list[TrialPlan], tasks: list[dict[str, Any]]) -> None:
    clock = (run.claimed_at or run.created_at) + timedelta(seconds=6)
    for task, plan in zip(tasks, plans, strict=True):
        ordinal = task["ordinal"]
        started = plan.agent_s > 0 or (run.state == RunState.RUNNING and ordinal == 2)
        done = plan.bucket in ("passed", "failed", "error") and plan.agent_s > 0
        timings = {"setup_s": 1.2, "agent_s": plan.agent_s, "clock": "monotonic"}
        if done:
            verifier_s = 0.0 if plan.klass == "incomplete" else 2.1
            timings |= {"verifier_s": verifier_s} if verifier_s else {}
            timings |= {"total_s": plan.agent_s + 2.4 + verifier_s}
        length = timedelta(seconds=plan.agent_s + 4.4)
        running = run.state == RunState.RUNNING and ordinal == 2
        if running:
            clock = timezone.now() - timedelta(seconds=38)
        Trial.objects.create(
            run=run,
            ordinal=ordinal,
            task_name=task["name"],
            task_checksum=task["checksum"],
            trial_uuid=uuid.uuid5(uuid.NAMESPACE_OID, f"{run.pk}{ordinal}") if started else None,
            stage="agent" if running else "",
            bucket=plan.bucket,
            failure_class=plan.klass,
            failure_code=plan.code,
            reward={"passed": 1, "failed": 0}.get(plan.bucket or ""),
            started_at=clock if started else None,
            ended_at=clock + length if started and plan.bucket else None,
            timings=timings if started and plan.bucket else {},
            steps=plan.steps if plan.bucket else None,
            prompt_tokens=plan.tokens[0] if plan.tokens and plan.bucket else None,
            completion_tokens=plan.tokens[1] if plan.tokens and plan.bucket else None,
            badges=list(plan.badges),
            result=_result(plan) if plan.bucket and started else "",
        )
        clock += length + timedelta(seconds=1)


def _result(plan: TrialPlan) -> str:
    """As much of the normalized result as pages read."""
    code = CODES[plan.code or {"passed": "passed.reward_1", "failed": "failed.reward_0"}[plan.bucket or ""]]
    numbers = {"limit_s": "5 min", "exit_code": 1, "status": 500}
    return _canonical(
        {
            "schema": "benchsite.trial-result/v1",
            "bucket": plan.bucket,
            "row": code.rows[0],
            "step": STEP_OF_ROW[code.rows[0]],
            "sentence": code.sentence.format_map(numbers),
            "usage": {"requests_answered": plan.steps, "requests_failed": 0},
            "counters": {"available": True, "oom_kills": 0, "pids_limit_hits": 0, "tmpfs_full": False},
        }
    )


def _resources(run: Run, kind: str) -> None:
    things = [("network", "network", None), ("network", "network", None), ("container", "gateway", None)]
    things.append(("container", "probe", None))
    if kind != "broken":
        for trial in (1, 2, 3):
            things += [("container", "agent", trial), ("container", "verifier", trial)]
    if kind in ("running", "cancelled"):
        things = things[:7]
    stays = {"error": {0, 2}, "running": {0, 1, 2, 6}}.get(kind, set())
    for index, (sort, role, trial) in enumerate(things):
        left = index in stays
        OwnedResource.objects.create(
            run=run,
            nonce=digest(f"{run.pk}{index}")[:32],
            kind=sort,
            role=role,
            trial=trial,
            resource_id=digest(f"{run.pk}{role}{index}"),
            stage="started" if left and kind == "running" else "removed" if not left else "unknown",
            outcome=("" if kind == "running" else "unknown") if left else "removed",
            detail="409: removal is already in progress" if left and kind != "running" and role == "gateway" else "",
            attempts=1,
        )


def _log(run: Run, kind: str) -> None:
    start = run.claimed_at or run.created_at
    lines = [
        (0, "engine", "claimed by worker-1"),
        (1, "engine", "preflight: 16 checks hold"),
        (2, "engine", "two networks and the gateway created"),
        (4, "probe", "7 of 7 addresses unreachable, the gateway answers"),
        (6, "engine", "trial 1 ledger-totals: agent container started in 0.16 s"),
        (7, "harness", "mini-swe-agent 2.4.6 found in the image, nothing installed"),
        (9, "gateway", "POST /v1/chat/completions 200, 2,914 in, 188 out, 1.9 s"),
        (31, "harness", "step 9, output of python3 merge.py --check"),
        (50, "engine", "trial 1 ledger-totals: verifier ended with exit code 0, reward 1"),
    ]
    if kind == "broken":
        lines = [
            *lines[:3],
            (5, "probe", "an address beyond the gateway answered"),
            (27, "cleanup", "4 of 4 resources gone"),
        ]
    if kind == "error":
        lines.append((220, "engine", "trial 3 file-tree: reward.json holds a boolean, grading.reward_boolean"))
        lines.append((232, "cleanup", "gateway: removal answered 409, outcome unknown"))
        lines.append((291, "cleanup", "8 of 10 resources gone"))
    for seq, (after, source, text) in enumerate(lines):
        LogLine.objects.create(
            run=run, seq=seq, at=start + timedelta(seconds=after), source=source, text=text, size=len(text)
        )
    Run.objects.filter(pk=run.pk).update(log_next=len(lines) + (312 if kind == "error" else 0))
    if kind == "error":
        Run.objects.filter(pk=run.pk).update(log_dropped=312)
    run.refresh_from_db()


def _audit(on: Site, run: Run, kind: str) -> None:
    for act, who in ((AuditKind.PREVIEW, on.operator), (AuditKind.START, on.operator)):
        AuditEntry.objects.create(kind=act, actor_id=who.pk, actor_name=who.username, run_id=run.pk, detail={})
    if kind == "cancelled":
        who = on.other_operator
        AuditEntry.objects.create(
            kind=AuditKind.CANCEL, actor_id=who.pk, actor_name=who.username, run_id=run.pk, detail={}
        )


def silent_host(on: Site) -> Worker:
    """A second worker that fell silent while it executed a run."""
    now = timezone.now()
    worker = workers.record_report(
        "worker-2", workers.report_of(on.worker), capability_sha256=digest("capabilities"), host="bench-2.internal"
    )
    Worker.objects.filter(pk=worker.pk).update(pid=4243, heartbeat_at=now - timedelta(minutes=14))
    spec(on, on.endpoint)  # its run executes what the first worker prepared
    first, on.worker = on.worker, worker
    run = make_run(on, "running", at=now - timedelta(minutes=16), name="silent", host="bench-2.internal")
    Run.objects.filter(pk=run.pk).update(heartbeat_at=now - timedelta(minutes=14))
    on.worker = first
    return worker


def full_site() -> Site:
    """Everything at once, as the screenshots show it."""
    on = site()
    now = timezone.now()
    draft_bundle(on)
    silent_host(on)
    for hours, kind in enumerate(("passed", "failed", "broken", "cancelled", "incomplete", "passed", "error"), start=1):
        make_run(on, kind, at=now - timedelta(hours=9 - hours), name=f"{kind}{hours}")
    make_run(on, "failed", at=now - timedelta(hours=1), endpoint=on.other_endpoint, name="small")
    make_run(on, "running", at=now - timedelta(seconds=96))
    make_run(on, "queued", at=now - timedelta(seconds=20))
    for run in Run.objects.filter(claimed_at__isnull=False):
        keep(run, conversation() if run == on.runs["passed"] else None)
    sign(on)
    on.experiments = experiment_rows.made(on.operator)
    return on


def signing_key(on: Site, number: int, role: str = "worker", **values: Any) -> SigningKey:
    """A key that is listed: its public half, whose private one nobody needs here."""
    public = bytes([number]) * 32
    return SigningKey.objects.create(
        key_id=key_id_of(public),
        public=base64.b64encode(public).decode(),
        role=role,
        name=on.worker.name if role == "worker" else "bench.example",
        made_by_name="operator-1",
        **{"not_before": timezone.now() - timedelta(days=200 - number), **values},
    )


def state(run: Run, key: SigningKey | None, role: str = "worker", **values: Any) -> RunStatement:
    """A statement about a run as its end records it."""
    values = {"reason": "ended", "unsigned": "" if key else "signing.no_key", **values}
    payload = hashlib.sha256(f"{run.key} {role}".encode()).hexdigest()
    return RunStatement.objects.create(
        run=run, role=role, key=key, payload_sha256=payload, signed_at=run.ended_at or timezone.now(), **values
    )


def sign(on: Site) -> None:
    """Keys of every sort, and runs that are signed, not signed, and signed by a key that was revoked since."""
    now = timezone.now()
    signing_key(on, 1, retired_at=now - timedelta(days=100), reason="rotated")
    lost = signing_key(on, 2, revoked_at=now - timedelta(days=2), reason="The host was sold with its disk")
    key = signing_key(on, 3)
    site_key = signing_key(on, 4, "site", not_after=now + timedelta(days=165))
    for kind, signer in (("passed", key), ("failed", lost), ("error", None)):
        state(on.runs[kind], signer)
        if signer is not None:
            state(on.runs[kind], site_key, "site")
