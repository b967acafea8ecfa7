"""The run: one confirmed spec being executed; this row is the truth about it."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from runs.models.documents import Endpoint, Profile, TaskBundle
from runs.models.states import ACTIVE_STATES, LEGAL_ENDINGS, TERMINAL_STATES, Cleanup, RunState, Stage
from runs.models.workers import HarnessLock, Worker
from runs.outcomes.buckets import Verdict


def _legal_endings() -> Q:
    """Live states carry neither verdict nor end; terminal ones carry both, in the pairs of LEGAL_ENDINGS."""
    live = ~Q(state__in=list(TERMINAL_STATES)) & Q(verdict__isnull=True, ended_at__isnull=True)
    rule = live
    for state, verdicts in LEGAL_ENDINGS.items():
        rule |= Q(state=state, verdict__isnull=False, verdict__in=list(verdicts), ended_at__isnull=False)
    return rule


class Run(models.Model):
    """One run. Moves only by ``runs.services.lifecycle``; spec and verdict are also guarded by triggers.

    Counts are denormalised for lists and always add up: ``evaluated = passed + failed`` at any time,
    ``requested = evaluated + error + cancelled`` once terminal. ``failure_*`` say why a run as a whole could
    not be carried out; ``failure_detail`` is private. The lease is the identity of the process that executes
    the run. ``log_next`` is the next log line's number, ``log_dropped`` how many older lines are gone.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    suite = models.CharField(max_length=32, default="environment")
    profile = models.ForeignKey(Profile, on_delete=models.PROTECT, related_name="runs")
    bundle = models.ForeignKey(TaskBundle, on_delete=models.PROTECT, related_name="runs")
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="runs")
    worker = models.ForeignKey(Worker, on_delete=models.PROTECT, related_name="runs")
    harness_lock = models.ForeignKey(HarnessLock, on_delete=models.PROTECT, null=True, related_name="runs")
    spec = models.TextField(help_text="Canonical JSON")
    spec_sha256 = models.CharField(max_length=64, db_index=True)

    state = models.CharField(max_length=16, choices=RunState, default=RunState.QUEUED)
    stage = models.CharField(max_length=16, choices=Stage, default=Stage.QUEUED)
    stage_trial = models.PositiveSmallIntegerField(null=True, blank=True)
    verdict = models.CharField(max_length=16, choices=Verdict.choices(), null=True, blank=True)
    cleanup = models.CharField(max_length=16, choices=Cleanup, default=Cleanup.PENDING)
    cleanup_attempts = models.PositiveIntegerField(default=0)
    cleanup_at = models.DateTimeField(null=True, blank=True)
    cleanup_declared_by_name = models.CharField(max_length=150, blank=True)
    cleanup_reason = models.CharField(max_length=500, blank=True)
    failure_stage = models.CharField(max_length=16, blank=True)
    failure_class = models.CharField(max_length=32, blank=True)
    failure_code = models.CharField(max_length=64, blank=True)
    failure_detail = models.TextField(blank=True)

    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_by_id = models.BigIntegerField(null=True, blank=True)
    cancel_requested_by_name = models.CharField(max_length=150, blank=True)

    lease_host = models.CharField(max_length=255, blank=True)
    lease_pid = models.PositiveIntegerField(null=True, blank=True)
    lease_start_ticks = models.BigIntegerField(null=True, blank=True)
    lease_boot_id = models.CharField(max_length=36, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)

    count_requested = models.PositiveIntegerField(default=0)
    count_evaluated = models.PositiveIntegerField(default=0)
    count_passed = models.PositiveIntegerField(default=0)
    count_failed = models.PositiveIntegerField(default=0)
    count_error = models.PositiveIntegerField(default=0)
    count_cancelled = models.PositiveIntegerField(default=0)

    log_next = models.PositiveBigIntegerField(default=0)
    log_dropped = models.PositiveBigIntegerField(default=0)

    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_by_name = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    claimed_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["-created_at", "-id"]
        permissions = [
            ("start_run", "Can preview and start runs"),
            ("cancel_run", "Can cancel runs"),
            ("clean_run", "Can retry cleanups"),
            ("read_private", "Can read private evidence, logs, trajectories and owned ids"),
            ("review_bundle", "Can review and retire bundles"),
            ("declare_host_lost", "Can declare a worker host lost"),
            ("register_endpoint", "Can register and retire endpoints"),
            ("retain_run", "Can place legal holds and remove expired evidence"),
        ]
        constraints = [
            models.CheckConstraint(condition=_legal_endings(), name="run_ending_is_legal"),
            models.CheckConstraint(
                condition=Q(count_evaluated=F("count_passed") + F("count_failed")), name="run_evaluated_adds_up"
            ),
            models.CheckConstraint(
                condition=Q(
                    state__in=list(TERMINAL_STATES),
                    count_requested=F("count_evaluated") + F("count_error") + F("count_cancelled"),
                )
                | (
                    ~Q(state__in=list(TERMINAL_STATES))
                    & Q(count_requested__gte=F("count_evaluated") + F("count_error") + F("count_cancelled"))
                ),
                name="run_requested_adds_up",
            ),
            models.CheckConstraint(
                condition=Q(verdict__isnull=True)
                | ~Q(verdict=Verdict.PASSED)
                | (
                    Q(cleanup=Cleanup.CLEAN, count_evaluated=F("count_requested"))
                    & Q(count_requested__gt=0, count_passed__gt=0)
                ),
                name="run_passed_is_whole_and_clean",
            ),
            models.CheckConstraint(
                condition=Q(verdict__isnull=True)
                | ~Q(verdict=Verdict.CANCELLED)
                | Q(cancel_requested_at__isnull=False),
                name="run_cancelled_was_asked_for",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=list(ACTIVE_STATES))
                | (Q(claimed_at__isnull=False, lease_pid__isnull=False) & ~Q(lease_host="")),
                name="run_active_has_lease",
            ),
            models.CheckConstraint(
                condition=~Q(cleanup=Cleanup.DECLARED) | (~Q(cleanup_reason="") & ~Q(cleanup_declared_by_name="")),
                name="run_declared_says_by_whom_and_why",
            ),
            models.UniqueConstraint(
                fields=["worker"], condition=Q(state__in=list(ACTIVE_STATES)), name="run_one_per_worker"
            ),
            models.UniqueConstraint(
                fields=["lease_host"], condition=Q(state__in=list(ACTIVE_STATES)), name="run_one_per_host"
            ),
        ]
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="run_newest"),
            models.Index(fields=["state", "-created_at", "-id"], name="run_by_state"),
            models.Index(fields=["verdict", "-created_at", "-id"], name="run_by_verdict"),
            models.Index(fields=["profile", "-created_at", "-id"], name="run_by_profile"),
            models.Index(fields=["endpoint", "-created_at", "-id"], name="run_by_endpoint"),
            models.Index(fields=["created_by", "-created_at", "-id"], name="run_by_person"),
            models.Index(fields=["cleanup", "-created_at", "-id"], name="run_by_cleanup"),
        ]

    def __str__(self) -> str:
        return f"run {self.short}"

    @property
    def key(self) -> str:
        """The run's id as it stands in folders, labels and commands: 32 hex characters."""
        return self.id.hex

    @property
    def short(self) -> str:
        """The beginning of the key, as pages show it."""
        return self.key[:8]

    @property
    def job_id(self) -> str:
        """The queue's job id; chosen, so that the same run is never two jobs."""
        return f"run-{self.id.hex}"

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL_STATES

    @property
    def active(self) -> bool:
        return self.state in ACTIVE_STATES
